"""How a broker hands over many clients: some at a time, and one flush for those who are ready together."""

from __future__ import annotations

import msgspec

from grapevine.filters import parse
from grapevine.wire import identify
from grapevine.wire.handover import HandoverDone, HandoverEnd, HandoverOffer, HandoverReady
from grapevine.wire.messages import (
    Attach,
    CensusAnswer,
    CensusRequest,
    ClientSubscribe,
    SyncDone,
    TablesSent,
)
from overlay.data.client import Client
from overlay.handover.handover import ATTACHING, GATHER_S, PATIENCE_S, Handovers, Outcome
from overlay.links.session import Kind
from tests.one_broker import Broker, hello
from tools.simulator.tables import behaviour

THERE = 1  # the link of the neighbour that takes the clients
SOME = ATTACHING + 50


class Source(Broker):
    """A broker with so many subscribers, links 10 and on, that are to go to its neighbour."""

    def __init__(self, clients: int) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []
        self.link(THERE, Kind.PEER, hello("there"), TablesSent(), SyncDone())
        for number in range(10, 10 + clients):
            name = f"s{number}"
            self.link(number, Kind.CLIENT, Attach(1, 3, name, identify(name), 5, 9, 100, 0))
            self.say(number, ClientSubscribe(1, 1, parse("x = 1")))
        self.handovers = behaviour(self.core, Handovers)
        self.handovers.move(list(self.core.clients.values()), "there", self.ended, self.now)
        self.drain()
        self.answers("handover-target", takes=True, addresses=["tcp://there:1"])

    def ended(self, outcomes: list[Outcome], now: float) -> None:
        self.outcomes = outcomes

    def asked(self, question: str) -> list[CensusRequest]:
        return [m for m in self.told[THERE] if isinstance(m, CensusRequest) and m.question == question]

    def answers(self, question: str, **report: object) -> None:
        asked = self.asked(question)[-1]
        body = msgspec.json.encode({"id": identify("there"), "name": "there", "incarnation": 2, **report})
        self.say(THERE, CensusAnswer(asked.origin, asked.incarnation, asked.number, (body,), (), ()))

    def offers(self) -> dict[int, HandoverOffer]:
        found = {}
        for number, messages in self.told.items():
            for message in messages:
                if isinstance(message, HandoverOffer):
                    found[number] = message
        return found

    def ready(self, number: int) -> None:
        self.say(number, HandoverReady(self.offers()[number].number, 1))

    def client(self, name: str) -> Client:
        return self.core.clients[identify(name)]

    def done(self) -> set[int]:
        return {n for n, messages in self.told.items() if any(isinstance(m, HandoverDone) for m in messages)}


def test_so_many_are_offered_at_a_time_and_the_next_when_one_is_ready() -> None:
    source = Source(SOME)
    assert len(source.offers()) == ATTACHING
    source.ready(10)
    assert len(source.offers()) == ATTACHING + 1


def test_who_does_not_answer_holds_up_nobody_for_long() -> None:
    source = Source(SOME)
    source.pass_time(PATIENCE_S / 2)
    assert len(source.offers()) == ATTACHING
    source.pass_time(PATIENCE_S * 1.2)
    assert len(source.offers()) == SOME


def test_a_flush_is_for_all_who_are_ready_a_moment_later() -> None:
    source = Source(SOME)
    for number in range(10, 60):
        source.ready(number)
    assert not source.asked("flush")
    source.pass_time(source.now + GATHER_S)
    assert len(source.asked("flush")) == 1
    source.answers("flush", waits=0)
    assert source.done() == set(range(10, 60))


def test_the_last_one_waits_for_nobody() -> None:
    source = Source(1)
    source.ready(10)
    assert len(source.asked("flush")) == 1


def test_a_word_that_was_lost_is_said_again_when_the_client_asks_again() -> None:
    source = Source(2)
    source.ready(10)
    source.ready(11)
    source.answers("flush", waits=0)
    assert source.done() == {10, 11}
    source.told.pop(10)
    source.say(10, HandoverReady(source.handovers.under_way[source.client("s10")].number, 1))
    assert source.done() == {10, 11}


def test_one_that_stays_during_its_flush_is_told_nothing_more() -> None:
    source = Source(1)
    source.ready(10)
    source.say(10, HandoverEnd(source.offers()[10].number, "stays", "b refuses"))
    source.answers("flush", waits=0)
    assert not source.done()
    assert [one.outcome for one in source.outcomes] == ["stays"]
