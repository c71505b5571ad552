"""Publishers come and go: brokers keep no name of one that is gone, and the delivery log names them all."""

from __future__ import annotations

from typing import Any

import pytest

from grapevine.filters import parse
from overlay.core import Core
from overlay.data import client as clients
from overlay.data import path as publications
from overlay.data.delivery_log import DeliveryLog
from overlay.data.path import Publications
from overlay.outbox import Outbox
from overlay.settings import DeliveryLogSettings
from tests.paper.figure import Figure
from tools.simulator.clients import ClientHost
from tools.simulator.tables import behaviour

PARENTS = {"b1": "", "b2": "b1", "b3": "b2"}
VISITORS = 12


def listened(core: Core) -> list[tuple[str, str]]:
    """(event, publisher) of every line that the broker logs from now on."""
    lines: list[tuple[str, str]] = []
    flush = core.flush
    behaviour(core, DeliveryLog).set(DeliveryLogSettings("all"))

    def flushed(now: float) -> Outbox:
        out = flush(now)
        lines.extend((event.event, event.publisher) for event in out.logs if event.event != "note")
        out.logs.clear()
        return out

    core.flush = flushed  # type: ignore[method-assign]
    return lines


def visit(figure: Figure, name: str) -> None:
    """A publisher that stays for one publication."""
    publisher = figure.client(name, "b1")
    publisher.advertise(parse("exists x"))
    figure.run(1.0)
    publisher.publish({"x": 1})
    figure.run(1.0)
    publisher.stop()
    figure.run(1.0)


def heard(reader: ClientHost) -> list[str]:
    """The publishers' names as the client was told them."""
    told: list[str] = []
    assert reader.session is not None
    incoming = reader.session.incoming
    deliver = incoming._deliver
    assert deliver is not None

    def delivered(deliveries: list[Any]) -> None:
        told.extend(incoming.names.get(d.publication.publisher, ("?", ""))[0] for d in deliveries)
        deliver(deliveries)

    incoming._deliver = delivered
    return told


def test_nothing_is_kept_of_publishers_that_are_gone() -> None:
    figure = Figure(PARENTS)
    figure.subscribe("b3", 1, "exists x")
    logs = {name: listened(figure.core(name)) for name in PARENTS}
    for number in range(VISITORS):
        visit(figure, f"visitor{number}")
    everybody = [f"visitor{number}" for number in range(VISITORS)]
    for name, event in (("b1", "accept"), ("b1", "forward"), ("b2", "forward"), ("b3", "deliver")):
        assert [publisher for kind, publisher in logs[name] if kind == event] == everybody, (name, event)
    for name in PARENTS:
        core = figure.core(name)
        assert {*core.names.values()} <= PARENTS.keys(), name
        assert not behaviour(core, Publications).seen.last, name


def test_a_name_that_is_taken_by_an_advertisement_is_refused_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two names with one id do not happen; here they are made."""
    figure = Figure(PARENTS)
    publisher = figure.client("p", "b1")
    publisher.advertise(parse("exists x"))
    figure.run(1.0)
    assert publisher.session is not None
    taken = publisher.session.id
    for module in ("overlay.clients.attachments", "grapevine.client.session.session"):
        monkeypatch.setattr(f"{module}.identify", lambda name: taken)
    other = figure.client("q", "b3")
    figure.run(2.0)
    assert "q" not in {client.name for client in figure.core("b3").clients.values()}
    publisher.stop()
    figure.run(8.0)
    assert "q" in {client.name for client in figure.core("b3").clients.values()}, other.session


def test_a_client_is_told_again_of_publishers_named_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """What broker and client remember of names is bounded on both sides; nobody is left without one."""
    monkeypatch.setattr(clients, "INTRODUCED", 3)
    monkeypatch.setattr(publications, "INTRODUCED", 3)
    monkeypatch.setattr("grapevine.client.session.incoming.NAMES", 6)
    figure = Figure(PARENTS)
    (reader,) = figure.subscribe("b3", 1, "exists x")
    figure.run(1.0)
    told = heard(reader)
    regular = figure.client("regular", "b1")
    regular.advertise(parse("exists x"))
    figure.run(1.0)
    for number in range(VISITORS):
        regular.publish({"x": 0})
        visit(figure, f"visitor{number}")
    assert told == [name for n in range(VISITORS) for name in ("regular", f"visitor{n}")]
    assert len(behaviour(figure.core("b3"), Publications)._named_to) <= 3
