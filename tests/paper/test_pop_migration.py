"""POP's migration (3.3) on the overlay of Figure 1, between real brokers and clients in the simulator."""

from __future__ import annotations

import pytest

from grapevine.filters import parse
from overlay.data.client import Client
from overlay.relocate.migration import Migration
from overlay.settings import RelocationSettings
from tests.paper.figure import Figure
from tools.simulator.tables import behaviour

# B1 in the middle; 1 subscriber of its own, 6 behind B2, 3 at B4, 15 behind B5.
PARENTS = {"B1": "", "B2": "B1", "B3": "B2", "B4": "B1", "B5": "B1", "B6": "B5", "B7": "B6", "B8": "B6"}
SUBSCRIBERS = {"B1": 1, "B2": 4, "B3": 2, "B4": 3, "B6": 4, "B7": 6, "B8": 5}
PATH = ["B1", "B5", "B6"]
LEFT, RIGHT = 10, 15


def figure_1(relocation: RelocationSettings | None = None) -> Figure:
    figure = Figure(PARENTS, relocation)
    for core in (figure.core(name) for name in PARENTS):
        assert core.ready
    for broker, count in SUBSCRIBERS.items():
        # None covers another, or every table would hold one of them only.
        for number in range(count):
            unwanted = -100 * int(broker[1]) - number
            figure.subscribe(broker, 1, f"class = 'STOCK' and n != {unwanted}")
    publisher = figure.client("P", "B1")
    figure.run(1.0)
    publisher.advertise(parse("class = 'STOCK'"))
    figure.run(2.0)
    return figure


@pytest.fixture(scope="module")
def moved() -> Figure:
    figure = figure_1()
    publish(figure, 5)
    assert figure.offer("P", PATH) == ""
    for _ in range(20):
        publish(figure, 3)
        figure.run(0.01)
    figure.run(2.0)
    return figure


def publish(figure: Figure, count: int) -> None:
    figure.clients["P"].publish(*({"class": "STOCK", "n": n + 2} for n in range(count)))


def test_before(moved: Figure) -> None:
    figure = figure_1()
    assert [figure.last_hop(b) for b in PATH] == ["P", "B1", "B5"]
    assert (figure.known_from("B1", "B5"), figure.known_from("B5", "B6")) == (RIGHT, RIGHT)
    assert (figure.known_from("B5", "B1"), figure.known_from("B6", "B5")) == (0, 0)


def test_operation_1_turns_the_last_hops(moved: Figure) -> None:
    """B6: local, B5: B6, B1: B5; brokers off the path are as they were."""
    assert [moved.last_hop(b) for b in PATH] == ["B5", "B6", "P"]
    assert [moved.last_hop(b) for b in ("B2", "B3", "B4", "B7", "B8")] == ["B1", "B2", "B1", "B6", "B6"]
    assert moved.publisher_home("P") == ["B6"]


def test_operation_2_removes_what_matches_no_advertisement(moved: Figure) -> None:
    """At B1 and B5: the subscriptions of the 15 on the right."""
    assert (moved.known_from("B1", "B5"), moved.known_from("B5", "B6")) == (0, 0)


def test_operation_3_forwards_to_the_new_side(moved: Figure) -> None:
    """From B1 and B5 to B6: those of the 10 on the left."""
    assert (moved.known_from("B5", "B1"), moved.known_from("B6", "B5")) == (LEFT, LEFT)


def test_no_publication_is_lost_doubled_or_out_of_order(moved: Figure) -> None:
    sequences = list(range(1, 66))
    assert len(moved.ledger.got) == LEFT + RIGHT
    for entries in moved.ledger.got.values():
        assert [sequence for _, sequence in entries] == sequences


def test_state_is_freed(moved: Figure) -> None:
    for name in PARENTS:
        migration = behaviour(moved.core(name), Migration)
        assert not migration.hops and not migration.departures
        assert not migration.advertisements.lingering
    assert [
        c.name for c in moved.core("B1").clients.values() if isinstance(c, Client) and c.name == "P"
    ] == []


def test_messages_are_of_the_order_of_the_path() -> None:
    """Update and complete once per hop, and nothing to the brokers beside it."""
    figure = figure_1()
    counts: dict[str, int] = {}
    send = figure.network.send

    def counting(end, message, *more):  # type: ignore[no-untyped-def]
        kind = type(message).__name__
        counts[kind] = counts.get(kind, 0) + 1
        return send(end, message, *more)

    figure.network.send = counting  # type: ignore[method-assign]
    figure.offer("P", PATH)
    figure.run(3.0)
    assert figure.publisher_home("P") == ["B6"]
    hops = len(PATH) - 1
    assert (counts["MigrationUpdate"], counts["MigrationComplete"]) == (hops, hops)
    assert counts["Advertise"] == hops and counts.get("Unadvertise", 0) <= hops
    assert counts["Subscribe"] == LEFT * hops and counts["Unsubscribe"] == RIGHT * hops


def test_pop_finds_b6_by_itself_and_rests_there() -> None:
    """Phases 1 to 3: traces, profile, request B1 to B5 to B6, answer, migration."""
    settings = RelocationSettings("pop", threshold=20, window_s=5.0, traces_max=10, moves_per_minute=60.0)
    figure = figure_1(settings)
    for _ in range(200):
        publish(figure, 2)
        figure.run(0.1)
    assert figure.publisher_home("P") == ["B6"]
    table = figure.relocation_at("B6").pop.tables
    (profile,) = table.values()
    by_name = {figure.core(name).id: name for name in PARENTS}
    averages = {by_name[broker]: round(value) for broker, value in profile.downstream.items()}
    assert averages == {"B5": LEFT, "B7": 6, "B8": 5} and round(profile.local) == 4
    assert figure.relocation_at("B1").migration.moved == 1
    assert figure.relocation_at("B6").migration.moved == 0


def test_off_traces_nothing() -> None:
    figure = figure_1()
    publish(figure, 50)
    figure.run(2.0)
    for name in PARENTS:
        relocation = figure.relocation_at(name)
        assert not relocation.pop.tables and not relocation.grape.noted
        assert relocation.publications.tag is None
