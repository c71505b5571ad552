"""Two brokers of one name, or one that has restarted: the first decides, by its answer to a ping."""

from __future__ import annotations

from grapevine.wire.messages import Hello, Message, Ping, Pong, Refuse, SyncDone, TablesSent
from overlay.links.session import Kind
from tests.one_broker import Broker, hello

FIRST, SECOND, THIRD = 1, 2, 3


def claimed() -> Broker:
    """A second one says that it is `far`."""
    broker = Broker()
    broker.link(FIRST, Kind.PEER, hello("far", incarnation=2), TablesSent(), SyncDone())
    broker.now += 1.0
    broker.link(SECOND, Kind.PEER, hello("far", 10, incarnation=3))
    assert answer(broker, SECOND) == "not-ready"
    return broker


def answer(broker: Broker, link: int) -> str:
    said: list[Message] = [m for m in broker.told[link] if isinstance(m, Refuse | Hello)]
    return said[-1].reason if isinstance(said[-1], Refuse) else "taken"


def asked_again(broker: Broker, after_s: float, *words: Message) -> str:
    """What the second hears when it comes again, and the link to the first has said this meanwhile."""
    ping = next(m for m in reversed(broker.told[FIRST]) if isinstance(m, Ping))
    broker.now += 0.01
    broker.say(FIRST, *[Pong(ping.sent_at, ()) if isinstance(word, Pong) else word for word in words])
    broker.now += after_s
    broker.link(THIRD, Kind.PEER, hello("far", 11, incarnation=3))
    return answer(broker, THIRD)


def test_one_that_answers_keeps_its_name() -> None:
    assert asked_again(claimed(), 3.0, Pong(0.0, ())) == "name"


def test_one_that_is_silent_has_lost_it() -> None:
    assert asked_again(claimed(), 3.0) == "taken"


def test_a_late_word_of_one_that_is_dead_is_no_answer() -> None:
    """It was on its way when its broker died; whoever had restarted was told that it has another's name, and
    ended (durable, small, 150)."""
    broker = claimed()
    greet_s = broker.core.settings.links.greet_s
    assert asked_again(broker, greet_s / 4, SyncDone()) == "not-ready"
    broker.now += greet_s / 2
    broker.link(4, Kind.PEER, hello("far", 12, incarnation=3))
    assert answer(broker, 4) == "taken"
