"""Routes while a lost side's subscriptions stand: what is for it is appended to its stream, to be cut."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.filters import EVERYTHING, parse
from grapevine.wire import encode_attributes
from grapevine.wire.messages import (
    RESENT,
    Advertise,
    Advertisement,
    Attach,
    Confirmed,
    Publication,
    Resume,
    Subscription,
    SyncDone,
    TablesSent,
    Unadvertise,
)
from matching.scan import Scan
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.local import LocalSubscriptions
from overlay.data.routes import Hops
from overlay.links.incoming import Incoming
from overlay.links.readiness import Readiness
from overlay.links.session import Kind, Link
from overlay.links.settling import Settling
from overlay.settings import CoreSettings
from overlay.softlinks.excludes import Tap
from overlay.tree.advertisements import Advertisements
from overlay.tree.announcements import Announcements
from overlay.tree.peer import Peer
from overlay.tree.router import Burial, TreeRouter
from overlay.tree.subscriptions import Subscriptions
from overlay.tree.sync import Sync
from overlay.tree.turned import TurnedSubscriptions
from tests.one_broker import between, hello
from tools.simulator.tables import behaviour

CONTENT = {"x": 1}


@pytest.fixture
def router() -> TreeRouter:
    core = Core("here", 1, CoreSettings(), Random(0))
    announcements = Announcements(Sync(Readiness()))
    advertisements = Advertisements(announcements, Scan)
    subscriptions = Subscriptions(advertisements, announcements, LocalSubscriptions(Scan), Scan)
    router = TreeRouter(advertisements, subscriptions)
    for each in (announcements.sync, announcements, advertisements, subscriptions, router):
        each.attach(core)
    return router


def neighbour(router: TreeRouter, name: str, number: int, wants: bool = True) -> Peer:
    peer = Peer(router.core, number, name)
    if wants:
        item = Subscription(number, 1, number, (number,), parse("x > 0"))
        entry, _ = router.subscriptions.table.learn((number, 1), item, peer)
        router.subscriptions._enter(entry, peer)
    return peer


def lose(router: TreeRouter, peer: Peer, source: Peer) -> Burial:
    burial = router.lost[peer] = Burial(False, False, Scan())
    burial.sides = {source: None}
    return burial


def test_a_lost_side_is_on_the_route_beside_links_that_only_count(router: TreeRouter) -> None:
    """There is not one queue for each neighbour: candidates for soft links count what they would carry."""
    living, lost, source = (neighbour(router, name, number) for number, name in enumerate("abc", 1))
    lose(router, lost, source)

    def choose(side: object, groups: object) -> Hops:
        return (living,), (living.out.queue, Tap(), Tap())

    router.choose = choose
    peers, queues = router.hops(source, CONTENT)
    assert peers == (living, lost)
    assert queues is not None and any(queue is lost.out.queue for queue in queues)


def test_what_comes_from_the_side_that_tells_it_now_is_for_the_lost_side(router: TreeRouter) -> None:
    """A subscriber was behind `lost` and is behind `source` by now: what `source` had sent here for it,
    before it knew, comes to nobody else."""
    lost, source = neighbour(router, "lost", 1, wants=False), neighbour(router, "source", 2)
    burial = lose(router, lost, source)
    assert router.hops(source, CONTENT)[0] == ()
    burial.turned.add(0, parse("x > 0"), source.number)
    assert router.hops(source, CONTENT)[0] == (lost,)
    assert router.hops(source, {"x": 0})[0] == ()


def test_who_was_met_since_a_restart_had_nothing_for_one_that_never_came_back(router: TreeRouter) -> None:
    """Nobody knows what was wanted behind `lost`, and its neighbours from before the restart were told; of
    these only the one behind which it lies by now may have sent here what reaches nobody else."""
    lost, before, new = (neighbour(router, name, n, wants=False) for n, name in enumerate("abc", 1))
    before.awaited = True
    burial = router.lost[lost] = Burial(True, False, Scan())
    burial.sides = {before: None, new: None}
    assert router.hops(before, CONTENT)[0] == (lost,)
    assert router.hops(new, CONTENT)[0] == ()
    burial.only = new
    assert router.hops(before, CONTENT)[0] == ()
    burial.only = before
    assert router.hops(before, CONTENT)[0] == (lost,)


def test_what_one_that_is_lost_had_told_since_a_restart_is_owed_to_it(router: TreeRouter) -> None:
    """It was back, and had not told all: who was met since the restart heard of what it did tell."""
    lost, new = neighbour(router, "lost", 1), neighbour(router, "new", 2, wants=False)
    burial = router.lost[lost] = Burial(True, False, Scan())
    burial.sides = {new: None}
    assert router.hops(new, CONTENT)[0] == (lost,)
    assert router.hops(new, {"x": 0})[0] == ()
    router.subscriptions.stand_for(lost, EVERYTHING, 0.0)
    assert router.hops(new, {"x": 0})[0] == ()


def test_what_a_client_brings_from_another_broker_may_have_been_for_the_lost_side(router: TreeRouter) -> None:
    """Its first broker here has taken some of it; that it had come further is known to nobody."""
    lost = neighbour(router, "lost", 1)
    burial = lose(router, lost, neighbour(router, "source", 2, wants=False))
    burial.know({(7, 1): 3}, True)
    content = encode_attributes(CONTENT)
    newer = Publication(content, b"", 4, publisher=7, incarnation=1)
    again = Publication(content, b"", 4, RESENT, publisher=7, incarnation=1)
    assert burial.owed(again) and not burial.owed(newer)

    def client(resume: Resume | None) -> Client:
        attach = Attach(1, 3, "c", 7, 1, 1, 8, 0, resume)
        return Client(router.core, attach, lambda client: None, 0.0)

    assert router.hops(client(None), CONTENT)[0] == ()
    assert router.hops(client(Resume(1, 3, 3, (), 0, 0)), CONTENT)[0] == (lost,)


def test_a_side_whose_word_counts_from_now_on_waits_for_what_overlaps_it(router: TreeRouter) -> None:
    """An advertisement was known from `old`, and `new`, which is not synchronised yet, says it too: when
    `old` takes it back, `other` is told anew, and must answer before `new` hears SyncDone."""
    core, advertisements = router.core, router.advertisements
    old, new, other = (neighbour(router, name, n, wants=False) for n, name in enumerate("abc", 1))
    for number, peer in enumerate((old, new, other), 1):
        peer.link = Link(number, peer.name, Kind.PEER, 0, 0.0)
        core.peers[peer.id] = peer
        peer.ever_synced = True
        advertisements.link_up(peer, 0.0)
    item = Advertisement(9, 1, 9, "home", 8, 1, "publisher", parse("x > 0"))
    advertisements.on_advertise(old, Advertise(1, item), 0.0)
    advertisements.on_advertise(new, Advertise(1, item), 0.0)
    entry = advertisements.table.by_key[9, 1]
    assert entry.source is old and new.shadows == 1
    confirm(advertisements.announcements)
    assert new.sync_pending == 0
    advertisements.retract(entry, other, 0.0)  # it has restarted, and knows nothing any more
    advertisements.on_unadvertise(old, Unadvertise(9, 1), 0.0)
    assert entry.source is new and new.sync_pending == 1
    confirm(advertisements.announcements)
    assert new.sync_pending == 0


def confirm(announcements: Announcements) -> None:
    """Everybody answers all that it was told."""
    for peer, announced in list(announcements._open.items()):
        for stamp in list(announced):
            announcements.on_confirmed(peer, Confirmed(stamp), 0.0)


def test_what_is_under_way_to_a_side_that_a_subscriber_has_left_is_cut(router: TreeRouter) -> None:
    """It is behind `new` by now; `left` has restarted, perhaps, and settles what comes as if for nobody."""
    core, subscriptions = router.core, router.subscriptions
    left, new = neighbour(router, "left", 1), neighbour(router, "new", 2, wants=False)
    turned = TurnedSubscriptions(Scan)
    turned.attach(core)
    subscriptions.turned = lambda entry, peer: turned.turn(entry.item.filter, peer)
    source = Incoming(8, lambda: None)
    source.records.append(record := Settling(source))
    record.last = 3
    wanted = [
        Publication(encode_attributes({"x": x}), b"", n, publisher=7) for n, x in ((1, 1), (2, 0), (3, 2))
    ]
    left.out.queue += wanted
    left.out.hold(record)
    entry = subscriptions.table.by_key[1, 1]
    subscriptions.table.learn((1, 1), entry.item, new)
    subscriptions.forget(entry, left, 0.0)
    left.out.seal()
    left.out.settle(3)
    assert entry.source is new and record.pending == 1
    core.work(0.0)
    assert not record.pending
    assert [(cut.first, cut.last) for cut in source.cuts] == [(1, 1), (3, 3)]


def test_what_was_sent_between_two_that_turn_is_cut_too(router: TreeRouter) -> None:
    """One burst brings both, and between them something for the second."""
    core = router.core
    left = neighbour(router, "left", 1, wants=False)
    turned = TurnedSubscriptions(Scan)
    turned.attach(core)
    source = Incoming(8, lambda: None)

    def send(number: int) -> Settling:
        source.records.append(record := Settling(source))
        record.last = number
        left.out.queue.append(Publication(encode_attributes({"x": number}), b"", number, publisher=7))
        left.out.hold(record)
        return record

    first = send(1)
    turned.turn(parse("x = 1"), left)
    second = send(2)
    turned.turn(parse("x = 2"), left)
    left.out.seal()
    left.out.settle(2)
    assert first.pending == second.pending == 1
    core.work(0.0)
    assert not first.pending and not second.pending
    assert [(cut.first, cut.last) for cut in source.cuts] == [(1, 1), (2, 2)]


def test_what_is_not_repeated_stands_until_what_waits_is_routed() -> None:
    """A broker moves, and publishers there wait; its new neighbour lost a side while their link was broken.
    What waits was accepted before that, and goes there to be cut."""
    broker = between("reader", "writer")
    subscriptions = behaviour(broker.core, Subscriptions)
    waits = True
    subscriptions.unrouted = lambda: waits
    broker.core.link_down(1, broker.now)
    broker.link(3, Kind.PEER, hello("reader"), TablesSent(), SyncDone())
    assert len(subscriptions.remote) == 1
    waits = False
    subscriptions.routed(broker.now)
    assert not len(subscriptions.remote)
