"""What a broker makes of a link that says what it should not: one greeting each, by the right side, of one name."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    Attach,
    Cut,
    Hello,
    LeaveHeld,
    Marks,
    Message,
    Refuse,
    Resume,
    SyncDone,
    TablesSent,
)
from overlay.clients import attachments
from overlay.core import Core
from overlay.links.session import Kind
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings


class Broker:
    """A broker by itself, and links to it that anybody may hold."""

    def __init__(self, settings: CoreSettings | None = None) -> None:
        self.now = 0.0
        self.core: Core = tree_broker("here", 1, settings or CoreSettings(), Random(1), ("tcp://here:1",))
        self.core.start(0.0)
        self.sent: list[Message] = []
        self.closed: list[int] = []
        self.drain()

    def drain(self) -> None:
        out = self.core.flush(self.now)
        self.sent += [message for message, _ in out.sends]
        self.closed += out.closes
        out.clear()
        self.core.validate()

    def link(self, number: int, kind: Kind, *messages: Message) -> None:
        self.core.link_up(number, "key", kind, self.now)
        self.say(number, *messages)

    def say(self, number: int, *messages: Message) -> None:
        for message in messages:
            self.core.receive(number, message, self.now)
            self.drain()

    def pass_time(self, until: float) -> None:
        while (deadline := self.core.next_deadline()) is not None and deadline <= until:
            self.now = deadline
            self.core.tick(self.now)
            self.drain()
        self.now = until


def hello(name: str, epoch: int = 9, broker: int | None = None, answer: bool = False) -> Hello:
    number = identify(name) if broker is None else broker
    settings = CoreSettings().cluster_wide()
    return Hello(1, 1, name, number, 2, epoch, answer, 100, settings, (number,), (f"tcp://{name}:1",))


def attach(name: str, epoch: int = 9, resume: Resume | None = None) -> Attach:
    return Attach(1, 1, name, identify(name), 5, epoch, 100, 0, resume)


@pytest.mark.parametrize("second", [hello("a", 10), hello("b"), hello("a", answer=True), attach("quotes")])
def test_a_neighbours_link_greets_once(second: Message) -> None:
    """A second greeting made a second neighbour on the link of the first, or one more timer for ever."""
    broker = Broker()
    broker.link(1, Kind.PEER, hello("a"), TablesSent(), SyncDone())
    broker.say(1, second)
    assert broker.closed == [1]
    assert list(broker.core.peers) == [identify("a")] and not broker.core.clients
    assert broker.core.peers[identify("a")].link is None


@pytest.mark.parametrize("second", [hello("a"), attach("somebody")])
def test_a_clients_link_is_one_clients(second: Message) -> None:
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("quotes"))
    broker.say(1, second)
    assert broker.closed == [1]
    assert not broker.core.peers and list(broker.core.clients) == [identify("quotes")]
    assert broker.core.clients[identify("quotes")].link is None


def test_an_administrators_link_is_neither() -> None:
    for greeting in (hello("a"), attach("quotes")):
        broker = Broker()
        broker.link(1, Kind.ADMIN, greeting)
        assert broker.closed == [1] and not broker.core.peers and not broker.core.clients


def test_an_id_is_that_of_the_name() -> None:
    broker = Broker()
    broker.link(1, Kind.PEER, hello("a", broker=identify("b")))
    assert isinstance(broker.sent[-1], Refuse) and not broker.core.peers


def test_attaching_again_by_the_same_link_keeps_the_link_and_adds_no_timer() -> None:
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("quotes"))
    first = broker.core.clients[identify("quotes")]
    for _ in range(20):
        broker.say(1, attach("quotes", 10, Resume(9, 0, 0)))
    timers = len(broker.core.timers)
    broker.say(1, attach("quotes", 11))  # it has forgotten: a new session
    second = broker.core.clients[identify("quotes")]
    assert second is not first and second.link is not None and not broker.closed
    assert timers <= 3
    broker.link(2, Kind.CLIENT, attach("reader"))


def test_nobody_is_served_before_the_broker_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that found no place among the waiting ones were served at once, by a broker without tables."""
    monkeypatch.setattr(attachments, "WAITING", 3)
    broker = Broker()
    broker.core.ready = False
    for number in range(1, 4):
        broker.link(number, Kind.CLIENT, attach(f"c{number}"))
    broker.link(4, Kind.CLIENT, attach("c4"))
    assert not broker.core.clients and broker.closed == [4]
    refusal = broker.sent[-1]
    assert isinstance(refusal, Refuse) and refusal.reason == "not-ready"
    broker.core.link_down(1, broker.now)  # it gave up: its place is free
    broker.link(5, Kind.CLIENT, attach("c1"))
    assert broker.closed == [4]


def test_holding_nothing_for_a_broker_that_did_not_ask() -> None:
    broker = Broker()
    broker.link(1, Kind.PEER, hello("a"), TablesSent(), SyncDone())
    broker.link(2, Kind.CLIENT, attach("quotes"))
    broker.core.leave(broker.now)
    broker.pass_time(1.0)
    broker.say(1, LeaveHeld())
    assert not broker.core.finished


def test_a_subscriber_cuts_nobodys_publications() -> None:
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("reader"))
    everything = tuple(Cut(number, 9, 0, 2**63 - 1, 1) for number in range(10))
    broker.say(1, Marks(9, 0, 0, 100, 0, everything))
    assert broker.core.refused["cuts"] == 1
    assert not broker.core.clients[identify("reader")].out.cuts
