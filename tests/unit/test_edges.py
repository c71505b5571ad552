"""Who is whose parent, as one broker hears it and passes it on."""

from __future__ import annotations

from msgspec.structs import replace

from grapevine.wire import identify
from grapevine.wire.edges import Edge, Edges
from grapevine.wire.messages import PROTOCOL, Hello
from overlay.links.session import Kind
from overlay.tree.edges import SPREAD_S, KnownEdges
from tests.one_broker import Broker, hello

HERE, UP, DOWN, FAR = map(identify, ("here", "up", "down", "far"))


def edge(name: str, parent: int, number: int = 1, incarnation: int = 1, gone: bool = False) -> Edge:
    return Edge(identify(name), name, incarnation, number, parent, (f"tcp://{name}:1",), True, gone)


def greeting(name: str) -> Hello:
    return replace(hello(name), newest=PROTOCOL)


def broker() -> tuple[Broker, KnownEdges]:
    """With `down` and `side` below it."""
    here = Broker()
    here.link(1, Kind.PEER, greeting("down"))
    here.link(2, Kind.PEER, greeting("side"))
    return here, next(b for b in here.core.behaviours if isinstance(b, KnownEdges))


def test_the_highest_number_of_the_latest_incarnation_counts() -> None:
    here, edges = broker()
    for said in (edge("far", DOWN, 2), edge("far", HERE, 1), edge("far", UP, 1, incarnation=0)):
        here.say(1, Edges((said,)))
    assert edges.by_broker[FAR].parent == DOWN
    here.say(1, Edges((edge("far", UP, 1, incarnation=2),)))
    assert edges.by_broker[FAR].parent == UP


def test_what_is_new_is_passed_on_once_and_not_back() -> None:
    here, _ = broker()
    news = Edges((edge("far", DOWN), edge("down", HERE)))
    before = len(here.told[1])
    here.say(1, news)
    here.say(2, news)
    here.now += 2 * SPREAD_S
    here.core.tick(here.now)
    here.drain()
    assert [message for message in here.told[2] if isinstance(message, Edges)][-1:] == [news]
    assert not [message for message in here.told[1][before:] if isinstance(message, Edges)]


def test_a_side_is_found_by_climbing() -> None:
    here, edges = broker()
    here.say(1, Edges((edge("far", DOWN), edge("down", HERE), edge("stranger", identify("nobody")))))
    assert edges.side(FAR) == edges.side(DOWN) == DOWN
    assert edges.side(identify("stranger")) == edges.side(HERE) == 0
    assert edges.below(DOWN) == {DOWN, FAR}
    assert [above.name for above in edges.ancestors(FAR)] == ["down", "here"]


def test_a_cycle_of_old_words_is_no_endless_way() -> None:
    here, edges = broker()
    here.say(1, Edges((edge("far", DOWN), edge("down", FAR))))
    assert edges.side(FAR) == 0 and edges.below(FAR) == {FAR, DOWN}


def test_a_neighbour_that_comes_is_told_all_of_them_before_any_table() -> None:
    here, _ = broker()
    here.say(1, Edges((edge("far", DOWN),)))
    here.link(3, Kind.PEER, greeting("late"))
    told = [type(message).__name__ for message in here.told[3]]
    assert told.index("Edges") < told.index("TablesSent")
    said = next(message for message in here.told[3] if isinstance(message, Edges))
    assert {known.broker for known in said.edges} == {HERE, FAR}
