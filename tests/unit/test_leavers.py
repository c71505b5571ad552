"""Neighbours that come in the place of one that leaves, and neighbours whose tables are not in yet: what they
are told, and what others are told of them. And where a broker looks for a parent that nobody configured."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from grapevine.filters import EVERYTHING
from grapevine.wire.identity import identify
from grapevine.wire.limits import ADDRESSES
from grapevine.wire.mesh import Nearby, Neighbourhood
from grapevine.wire.messages import (
    Advertise,
    Advertisement,
    Batch,
    Hello,
    LeaveDone,
    Leaving,
    Message,
    Publication,
    Subscribe,
    Subscription,
    SyncDone,
    TablesSent,
    Unsubscribe,
)
from overlay.links.session import Kind
from overlay.settings import CoreSettings, OverlaySettings, TreeSettings
from overlay.tree.join import Join, by_turns, latest
from tests.one_broker import BODY, Broker, hello

FAR = CoreSettings(OverlaySettings(delta=4))
HERE = identify("here")


def neighbour(name: str, replaces: str = "") -> Hello:
    return replace(hello(name), settings=FAR.cluster_wide(), replaces=identify(replaces) if replaces else 0)


def nearby(name: str, via: str = "") -> Nearby:
    return Nearby(identify(name), name, (f"tcp://{name}:1",), identify(via) if via else 0)


def advertise(name: str) -> Advertise:
    there = identify(name)
    return Advertise(1, Advertisement(there, 1, there, name, 7, 8, "quotes", EVERYTHING))


def test_candidates_and_places_are_tried_by_turns() -> None:
    tried = [by_turns(attempt, ("a", "b"), ("x", "y", "z")) for attempt in range(8)]
    assert tried == ["a", "x", "b", "y", "a", "z", "b", "x"]
    assert [by_turns(attempt, ("a", "b"), ()) for attempt in range(3)] == ["a", "b", "a"]


def test_places_are_the_latest_first_and_never_our_own() -> None:
    assert latest(("b", "here", "a"), ("c", "b"), ("here",)) == ("b", "a", "c")
    many = tuple(f"p{number}" for number in range(ADDRESSES))
    assert latest(("new",), many, ()) == ("new", *many[:-1])


@pytest.mark.parametrize(("address", "ends"), [("tcp://configured:1", True), ("tcp://heard-of:1", False)])
def test_who_was_only_heard_of_may_refuse_us(address: str, ends: bool) -> None:
    """Another overlay may live by now where somebody once said that a parent is."""
    core = Broker(CoreSettings(tree=TreeSettings(neighbours=("tcp://configured:1",)))).core
    join = next(behaviour for behaviour in core.behaviours if isinstance(behaviour, Join))
    join.learn(("tcp://heard-of:1",))
    assert join.sought() == ("tcp://configured:1", "tcp://heard-of:1")
    join._through = address
    join._failed("settings", "delta is 1 here and 4 there", 0.0)
    assert bool(core.out.fatal) is ends


def test_a_parent_that_a_reload_takes_away_is_no_place_to_go_back_to() -> None:
    """Nor are those beyond it: the broker may have been given to another overlay."""
    had = replace(FAR, tree=TreeSettings(neighbours=("tcp://old:1",)))
    broker = Broker(had)
    broker.core.link_up(1, "key", Kind.PEER, broker.now, dial=1)
    branch = Neighbourhood((nearby("old"), nearby("far", "old")))
    broker.say(1, replace(neighbour("old"), answer=True), branch)
    join = next(behaviour for behaviour in broker.core.behaviours if isinstance(behaviour, Join))
    assert join.status()["parent"] == "old"
    broker.core.reconfigure(replace(had, tree=TreeSettings(neighbours=("tcp://new:1",))), broker.now)
    assert join.status()["parent"] is None and join.sought() == ("tcp://new:1",)
    assert [record.value for record in broker.core.out.journal if record.key == "fallback"][-1] is None


def on_map(broker: Broker, link: int) -> set[str]:
    """Whom this link was told of last."""
    told = [message for message in broker.told[link] if isinstance(message, Neighbourhood)]
    return {entry.name for entry in told[-1].branch}


def test_a_neighbour_is_on_the_map_once_it_has_said_sync_done() -> None:
    """Before, a soft link past it would go by what its tables say while they are being told."""
    broker = Broker(FAR)
    broker.link(1, Kind.PEER, neighbour("a"), Neighbourhood((nearby("a"),)), TablesSent(), SyncDone())
    broker.link(2, Kind.PEER, neighbour("b"), Neighbourhood((nearby("b"), nearby("c", "b"))), TablesSent())
    assert on_map(broker, 1) == {"here"} and on_map(broker, 2) == {"here", "a"}
    broker.say(2, SyncDone())
    assert on_map(broker, 1) == {"here", "b", "c"}
    broker.core.link_down(2, broker.now)
    assert on_map(broker, 1) == {"here", "b", "c"}, "a link that breaks is still of the tree"


@pytest.mark.parametrize(("name", "told"), [("heir", True), ("stranger", False)])
def test_who_comes_in_a_leavers_place_is_told_what_the_leaver_was(name: str, told: bool) -> None:
    """Also what is in doubt: the subscriptions behind it are known beyond the broken link, by which soft
    links pass."""
    broker = Broker(FAR)
    broker.link(1, Kind.PEER, neighbour("away"), advertise("away"), TablesSent(), SyncDone())
    leaving: list[Message] = [Leaving(HERE, "here", ("tcp://here:1",), (identify("heir"),)), LeaveDone()]
    broker.link(2, Kind.PEER, neighbour("leaver"), TablesSent(), SyncDone(), *leaving)
    broker.core.link_down(1, broker.now)
    broker.core.link_down(2, broker.now)
    broker.link(3, Kind.PEER, neighbour(name, "leaver"), TablesSent())
    assert broker.has_said(3, Advertise) is told


def test_what_is_held_for_a_leaver_goes_to_its_heir_whatever_others_repeat() -> None:
    """A stranger says the same of the subscription, as somebody there once heard it from us."""
    broker = Broker(FAR)
    home = identify("home")

    def subscribe(by: str) -> Subscribe:
        return Subscribe(1, Subscription(home, 1, home, (home, identify(by)), EVERYTHING))

    broker.link(1, Kind.PEER, neighbour("writer"), TablesSent(), SyncDone())
    broker.link(2, Kind.PEER, neighbour("leaver"), subscribe("leaver"), TablesSent(), SyncDone())
    broker.link(3, Kind.PEER, neighbour("stranger"), TablesSent(), SyncDone())
    broker.say(2, Leaving(HERE, "here", ("tcp://here:1",), (identify("heir"),)))
    broker.say(1, Batch(9, 1, 0, 0, 100, [Publication(BODY, b"", 1, 0, 7, 8)]))
    broker.say(2, LeaveDone())
    broker.core.link_down(2, broker.now)
    broker.say(3, subscribe("stranger"))
    assert not broker.batches
    broker.link(4, Kind.PEER, neighbour("heir", "leaver"), subscribe("heir"), TablesSent(), SyncDone())
    assert [p.sequence for batch in broker.batches for p in batch.publications] == [1]
    assert broker.core.peers[identify("heir")].out.sent == 1


def test_an_heir_that_takes_its_word_back_takes_back_the_leavers_and_is_not_told_it() -> None:
    """Else it would hear from us what we have from the leaver, and look for its own subscriber here."""
    broker = Broker(FAR)
    home = identify("home")

    def subscribe(by: str) -> Subscribe:
        return Subscribe(1, Subscription(home, 1, home, (home, identify(by)), EVERYTHING))

    broker.link(2, Kind.PEER, neighbour("leaver"), subscribe("leaver"), TablesSent(), SyncDone())
    broker.say(2, Leaving(HERE, "here", ("tcp://here:1",), (identify("heir"),)), LeaveDone())
    broker.core.link_down(2, broker.now)
    broker.link(4, Kind.PEER, neighbour("heir", "leaver"), advertise("heir"), subscribe("heir"), TablesSent())
    broker.say(4, Unsubscribe(home, 1))
    assert not broker.has_said(4, Subscribe)
    assert not broker.core.status()["subscriptions"]["count"]
