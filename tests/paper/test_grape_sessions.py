"""GRAPE's sessions, requests and answers (4.1), and where they lead, between real brokers."""

from __future__ import annotations

import pytest

from overlay.settings import RelocationSettings
from tests.paper.test_pop_migration import PARENTS, figure_1, publish


def settings(priority: str, moves_per_minute: float = 60.0) -> RelocationSettings:
    return RelocationSettings(
        "grape", priority, threshold=40, window_s=2.0, moves_per_minute=moves_per_minute
    )


@pytest.mark.parametrize("priority", ["load", "delay"])
def test_the_publisher_ends_where_nothing_is_gained_any_more(priority: str) -> None:
    figure = figure_1(settings(priority))
    for _ in range(150):
        publish(figure, 2)
        figure.run(0.1)
    home = figure.publisher_home("P")
    assert len(home) == 1
    moves = sum(figure.relocation_at(name).migration.moved for name in PARENTS)
    for _ in range(100):
        publish(figure, 2)
        figure.run(0.1)
    assert figure.publisher_home("P") == home
    assert sum(figure.relocation_at(name).migration.moved for name in PARENTS) == moves
    if priority == "delay":
        assert home == ["B6"]  # most of the deliveries are around it


def test_one_request_and_one_answer_per_link_and_session() -> None:
    """4.1: a reply after each session, not after each publication; nothing is kept afterwards."""
    figure = figure_1(settings("load", moves_per_minute=0.01))
    counts: dict[str, int] = {}
    send = figure.network.send

    def counting(end, message, *more):  # type: ignore[no-untyped-def]
        kind = type(message).__name__
        counts[kind] = counts.get(kind, 0) + 1
        return send(end, message, *more)

    figure.network.send = counting  # type: ignore[method-assign]
    publish(figure, 40)
    figure.run(0.02)
    assert figure.relocation_at("B1").grape.noted
    figure.run(1.5)
    links = len(PARENTS) - 1
    assert counts["TraceInformationRequest"] == counts["TraceInformationAnswer"] == links
    assert not any(figure.relocation_at(name).grape.noted for name in PARENTS)
    (verdict,) = figure.relocation_at("B1").verdicts.values()
    assert verdict.name in PARENTS and verdict.outcome.startswith("it came here less than")


def test_a_switch_while_it_runs_forgets_what_was_begun() -> None:
    figure = figure_1(settings("load", moves_per_minute=0.01))
    publish(figure, 10)
    figure.run(0.2)
    relocation = figure.relocation_at("B1")
    assert relocation.grape.sessions
    assert relocation.change(algorithm="pop", threshold=5) == ""
    assert not relocation.grape.sessions
    publish(figure, 10)
    figure.run(1.0)
    assert relocation.pop.publishers
    assert relocation.change(algorithm="fastest").startswith("the algorithm is one of")
    assert relocation.change(algorithm="off") == "" and relocation.publications.tag is None
