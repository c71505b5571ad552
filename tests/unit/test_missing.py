"""Lists of brokers that cannot be reached: what outlives a restart is taken back (tree/missing.py)."""

from __future__ import annotations

from msgspec.structs import replace

from grapevine.wire import identify
from grapevine.wire.draining import Missing, MissingBroker
from grapevine.wire.messages import PROTOCOL, SyncDone, TablesSent
from overlay.links.session import Kind
from overlay.tree.missing import MissingBrokers
from tests.one_broker import Broker, hello
from tools.simulator.tables import behaviour

HERE, GONE = identify("here"), identify("gone")
ONE, OTHER = 1, 2


def lists(broker: Broker, link: int) -> list[tuple[int, int, int, tuple[str, ...]]]:
    """What was said there: (origin, incarnation, number, names)."""
    said = [message for message in broker.told.get(link, ()) if isinstance(message, Missing)]
    return [(m.origin, m.incarnation, m.number, tuple(one.name for one in m.brokers)) for m in said]


def meet(broker: Broker, link: int, name: str) -> None:
    broker.link(link, Kind.PEER, replace(hello(name), newest=PROTOCOL), TablesSent(), SyncDone())


def test_what_a_former_life_has_said_is_taken_over_and_taken_back() -> None:
    """Nobody else could: the others held a broker that was long back to be missing (requests 25)."""
    broker = Broker()
    meet(broker, ONE, "one")
    broker.say(ONE, Missing(HERE, 0, 7, 3.0, (MissingBroker(GONE, "gone", 3.0),)))
    assert lists(broker, ONE)[0] == (HERE, 1, 1, ("gone",))
    assert list(behaviour(broker.core, MissingBrokers).brokers()) == ["gone"]
    meet(broker, OTHER, "gone")
    assert lists(broker, ONE)[-1] == (HERE, 1, 2, ())
    broker.say(ONE, Missing(HERE, 0, 7, 4.0, (MissingBroker(GONE, "gone", 4.0),)))
    assert lists(broker, ONE)[-1] == (HERE, 1, 2, ()) and not behaviour(broker.core, MissingBrokers).brokers()


def test_who_tells_an_old_list_is_told_the_newer() -> None:
    broker, origin = Broker(), identify("origin")
    meet(broker, ONE, "one")
    meet(broker, OTHER, "other")
    broker.say(ONE, Missing(origin, 5, 2, 0.0, ()))
    broker.say(OTHER, Missing(origin, 5, 1, 1.0, (MissingBroker(GONE, "gone", 1.0),)))
    assert lists(broker, OTHER)[-1] == (origin, 5, 2, ())
    assert not behaviour(broker.core, MissingBrokers).brokers()
