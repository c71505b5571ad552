"""A client with thousands of subscriptions ends a piece at a time, and nobody waits for it meanwhile."""

from __future__ import annotations

from grapevine.filters import EVERYTHING, parse
from grapevine.wire import encode_attributes, identify
from grapevine.wire.messages import (
    DROP_OLDEST,
    Attach,
    ClientAdvertise,
    ClientSubscribe,
    Detach,
    Marks,
    Publication,
    Publish,
)
from overlay.clients.attachments import PIECE
from overlay.links.session import Kind
from tests.one_broker import Broker

MANY = 5 * PIECE + 3


def attach(name: str) -> Attach:
    return Attach(1, 2, name, identify(name), 7, 1, 1_000, DROP_OLDEST)


def test_its_end_is_done_in_pieces_of_work() -> None:
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("many"))
    broker.say(1, *(ClientSubscribe(n, n, parse(f"n >= {n}")) for n in range(1, MANY + 1)))
    broker.link(2, Kind.CLIENT, attach("publisher"), ClientAdvertise(1, 1, EVERYTHING))
    many = broker.core.clients[identify("many")]
    broker.say(1, Detach())
    assert len(many.subscriptions) == MANY, "nothing in the turn of the good-bye itself"
    steps = 0
    while broker.core.work(broker.now):
        steps += 1
        run = [Publication(encode_attributes({"n": MANY}), b"", steps)]
        broker.say(2, Publish(1, steps, run))
        assert broker.core.clients[identify("publisher")].incoming.settled == steps, "it holds nobody"
    broker.drain()
    assert steps == MANY // PIECE
    assert many.lost and not many.subscriptions and not many.deliveries.retained
    assert not any(isinstance(message, Marks) and message.cuts for message in broker.sent)


def test_its_name_is_free_at_once() -> None:
    broker = Broker()
    broker.link(1, Kind.CLIENT, attach("many"))
    broker.say(1, *(ClientSubscribe(n, n, parse(f"n >= {n}")) for n in range(1, MANY + 1)))
    old = broker.core.clients[identify("many")]
    broker.say(1, Detach())
    broker.link(2, Kind.CLIENT, attach("many"), ClientSubscribe(1, 1, parse("n = 5")))
    new = broker.core.clients[identify("many")]
    assert new is not old
    while broker.core.work(broker.now):
        broker.drain()
    broker.drain()
    assert old.lost and not new.lost and len(new.subscriptions) == 1
