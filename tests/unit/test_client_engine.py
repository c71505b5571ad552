"""Which brokers a client tries, without a socket."""

from __future__ import annotations

from time import monotonic

from grapevine.client.engine import Engine
from grapevine.client.session.event import Event
from grapevine.client.session.session import Session
from grapevine.wire.limits import ADDRESSES


def test_brokers_that_send_on_for_ever_are_not_all_kept_and_not_asked_without_a_pause() -> None:
    engine = Engine(["tcp://mine:1"], Session("c", 1), None)
    now = monotonic()
    pauses = 0
    for number in range(10 * ADDRESSES):
        others = ("inproc://own", "tcp://mine:1", f"tcp://b{number}:1", f"tcp://b{number}:1")
        engine._on_event(Event("go-away", addresses=others), now)
        pauses += engine._dial_at is not None and engine._dial_at > now
    latest = 10 * ADDRESSES - 1
    assert engine._candidates[:3] == ["tcp://mine:1", f"tcp://b{latest}:1", f"tcp://b{latest - 1}:1"]
    assert len(engine._candidates) == ADDRESSES and pauses == 10


def test_a_broker_that_sends_us_to_the_only_one_that_we_know_is_obeyed() -> None:
    """We are at another one than that: it was named when ours had died."""
    engine = Engine(["tcp://mine:1"], Session("c", 1), None)
    engine.link = Reached("tcp://other:1")  # type: ignore[assignment]
    engine._on_event(Event("go-away", addresses=("tcp://mine:1",)), monotonic())
    assert engine.link is None and engine._dial_at is not None and engine._candidates == ["tcp://mine:1"]


def test_who_knows_no_other_broker_stays() -> None:
    engine = Engine(["tcp://mine:1"], Session("c", 1), None)
    engine.link = Reached("tcp://mine:1")  # type: ignore[assignment]
    engine._on_event(Event("go-away"), monotonic())
    assert engine.link is not None


class Reached:
    """A link that only has an address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def close(self, linger_ms: int = 0) -> None: ...
