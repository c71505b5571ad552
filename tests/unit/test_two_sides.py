"""A broker that has gone elsewhere while its former neighbour still waits for it: two sides name it."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.filters.normal import EVERYTHING
from grapevine.wire import identify
from grapevine.wire.mesh import Nearby
from grapevine.wire.messages import Advertise, Advertisement, Subscribe, Subscription, TablesSent
from overlay.links.session import Kind
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, OverlaySettings
from overlay.softlinks.excludes import Tap
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import Soft, Stage
from overlay.softlinks.strategies import LinkChoice, choose_links_s1, choose_links_s2
from overlay.tree.peer import Peer
from overlay.tree.subscriptions import Subscriptions
from tests.one_broker import Broker, hello
from tools.simulator.tables import behaviour

FORMER, PRESENT, GONE = 1, 3, 8


@pytest.mark.parametrize("printed", [choose_links_s1, choose_links_s2])
@pytest.mark.parametrize("first", [FORMER, PRESENT])
def test_what_is_for_it_goes_where_its_subscription_came_from(printed: LinkChoice, first: int) -> None:
    settings = CoreSettings(overlay=OverlaySettings(delta=4, ordered=False))
    core = tree_broker("here", 1, settings, Random(1))
    table = behaviour(core, Shortcuts).table
    for side in (first, FORMER + PRESENT - first):
        core.peers[side] = Peer(core, side, f"b{side}")
        branch = (Nearby(side, f"b{side}", (), 0), Nearby(GONE, "b8", (), side))
        table.master.hear(side, branch)
    table.candidates[GONE] = Tap()
    table.printed = printed
    table.rebuild()
    for side in (FORMER, PRESENT):
        wanted = table.groups.enter(
            Subscription(GONE, side, GONE, (GONE, side), EVERYTHING), core.peers[side]
        )
        hops, _ = table.choose(None, [wanted])
        assert [hop.id for hop in hops] == [side]


def test_a_soft_link_to_it_is_not_for_what_came_from_its_former_side() -> None:
    """In order: by the link it would pass what is held for the broker on the way that is right."""
    core = tree_broker("here", 1, CoreSettings(overlay=OverlaySettings(delta=4)), Random(1))
    table = behaviour(core, Shortcuts).table
    for side in (FORMER, PRESENT):
        core.peers[side] = Peer(core, side, f"b{side}")
    table.master.hear(PRESENT, (Nearby(PRESENT, "b3", (), 0), Nearby(GONE, "b8", (), PRESENT)))
    soft = behaviour(core, Shortcuts).softs.out[GONE] = Soft(core, GONE, "b8", True)
    soft.path, soft.stage = (PRESENT, GONE), Stage.ACTIVE
    table.rebuild()
    for side, path, hop in ((FORMER, (GONE, 7, FORMER), FORMER), (PRESENT, (GONE, PRESENT), GONE)):
        wanted = table.groups.enter(Subscription(GONE, side, GONE, path, EVERYTHING), core.peers[side])
        hops, _ = table.choose(None, [wanted])
        assert [one.id for one in hops] == [hop]
        assert soft.leads(path) == (hop == GONE)


def test_what_we_have_said_ourselves_before_a_restart_stands_in_nobodys_way() -> None:
    """We were elsewhere then; our neighbour heard it by that way, and says it to us. What the subscriber's
    own side says counts at once, and is told, or it would be lost together with the other way."""
    broker = Broker()
    here, far, home = broker.core.id, identify("far"), identify("home")
    broker.link(1, Kind.PEER, hello("far"), TablesSent())
    broker.say(1, Advertise(1, Advertisement(far, 1, far, "far", 5, 7, "quotes", EVERYTHING)))
    broker.say(1, Subscribe(2, Subscription(home, 1, home, (home, here, identify("lost"), far), EVERYTHING)))
    broker.link(2, Kind.PEER, hello("home"), TablesSent())
    broker.say(2, Subscribe(1, Subscription(home, 1, home, (home,), EVERYTHING)))
    (entry,) = behaviour(broker.core, Subscriptions).table.by_key.values()
    assert entry.source.name == "home"
    assert broker.has_said(1, Subscribe)
