"""SPEC T2 and T3: subscriptions travel towards the advertisements they overlap, each with its anchor.

A broker knows every subscription that some publication passing through it may match. Local ones are
grouped by client, the others by (anchor, side). Per neighbour, `covering.Announced` keeps what it was
told. A subscription is confirmed when all neighbours that must know it have confirmed it or its
coverer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from grapevine.filters import Filter
from grapevine.wire.messages import Subscribe, Subscription, Unsubscribe
from matching.interface import Matcher
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.local import LocalSubscriptions
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.tree.advertisements import AdvertisementEntry, Advertisements
from overlay.tree.anchors import Group, Groups, onward
from overlay.tree.announcements import Announcement, Announcements
from overlay.tree.covering import Announced
from overlay.tree.peer import Peer, peers_of
from overlay.tree.table import Change, Entry, Key, Table

SubscriptionEntry = Entry[Subscription]


class Subscriptions(Quiet):
    name = "subscriptions"

    def __init__(
        self,
        advertisements: Advertisements,
        announcements: Announcements,
        here: LocalSubscriptions,
        matcher: Callable[[], Matcher],
    ) -> None:
        self.advertisements = advertisements
        self.announcements = announcements
        advertisements.arrived = self._advertised
        advertisements.departed = self._unadvertised
        self.table: Table[Subscription] = Table()
        self.matcher = matcher
        self.here = here
        self.local = here.index
        self.remote = matcher()  # group: a pair (anchor, side)
        self.groups = Groups()
        self.mentions = here.mentions  # of both
        self.announced: dict[Peer, Announced] = {}
        self.confirmed: dict[Peer, set[int]] = {}  # by neighbours whose links broke since
        # Set by Tombstones: whether a lost side's are to stand for a while; one of a side is told by another.
        self.bury: Callable[[Peer], bool] = lambda peer: False
        self.unrouted: Callable[[], bool] = lambda: False  # whether publications wait here to be routed
        self._unrepeated: dict[Peer, None] = {}  # whose stale ones stand as long as they do
        self.turned: Callable[[SubscriptionEntry, Peer], None] = lambda entry, left: None
        # Set by Healing: whose word it is what this neighbour says of this home; nobody's: None.
        self.word_of: Callable[[Peer, int], Peer | None] = lambda peer, home: peer
        # Set by Shortcuts: the anchor and path of one with this filter were others before.
        self.left: Callable[[Filter, Group, Group], None] = lambda filter, before, after: None
        self._group: dict[int, int] = {}
        self._doubted: dict[SubscriptionEntry, list[tuple[Peer, Gather]]] = {}

    @property
    def generation(self) -> int:
        """Of everything that a route is made of."""
        return self.here.generation

    @generation.setter
    def generation(self, generation: int) -> None:
        self.here.generation = generation

    def attach(self, core: Core) -> None:
        self.core = core
        self.delta = core.settings.overlay.delta
        self.flooding = core.settings.tree.routing == "flooding"
        self.table.is_echo = lambda item: core.id in item.path and item.home != core.id
        self.announcements.sync.forget_stale.append(self._forget_stale)
        self.announcements.sync.forget_shadows.append(self._forget_shadows)
        core.on(Subscribe, self.on_subscribe)
        core.on(Unsubscribe, self.on_unsubscribe)

    # --- inputs ---------------------------------------------------------------------------------------

    def subscribe(
        self, client: Session, subscription: Subscription, label: int, gather: Gather, now: float
    ) -> Key:
        """A local subscriber's; deliveries list it by `label`."""
        key = (subscription.origin, subscription.serial)
        entry, change = self.table.learn(key, subscription, client)
        assert change is Change.NEW, key
        self.local.add(entry.number, subscription.filter, client.number, label)
        self.mentions.add(subscription.filter)
        self._spread(entry, gather, now)
        return key

    def stand_for(self, peer: Peer, filter: Filter, now: float) -> None:
        """Nobody knows what this neighbour wants; we ask for this much in its place, those who may have been
        told before our restart."""
        here = self.core.id
        item = Subscription(here, self.core.serial(), here, (here,), filter)
        entry, _ = self.table.learn((item.origin, item.serial), item, peer)
        self._enter(entry, peer)
        for other in self._eligible(entry):
            if other.awaited and (announced := self.announced.get(other)) is not None:
                announced.add(entry.number, None, now)

    def unsubscribe(self, client: Session, key: Key, now: float) -> None:
        if (entry := self.table.by_key.get(key)) is not None:
            self.forget(entry, client, now)

    def on_subscribe(self, peer: Peer, message: Subscribe, now: float) -> None:
        item = message.subscription
        known = self.table.by_key.get((item.origin, item.serial))
        if known is not None and known.item.filter != item.filter:
            self.core.refuse("contradiction")  # its path may change, what it asks for never
            return
        gather = self.announcements.confirmation(peer, message.stamp)
        if (source := self.word_of(peer, item.home)) is not peer:
            if source is not None and known is None:
                self._relayed(item, source, gather, now)
            gather.start(now)
            return
        before = known.source if known is not None else peer
        entry, change = self.table.learn((item.origin, item.serial), item, peer)
        if not self.flooding:
            self.announcements.await_tables(peer, self._find, entry.number, gather)
        if change is Change.NEW:
            self._enter(entry, peer)
            self._spread(entry, gather, now)
        elif change is Change.MOVED:
            if isinstance(before, Peer) and before is not peer:
                self.turned(entry, before)
            self._move(entry, now)
            self._spread(entry, gather, now)
            self._believe(entry, now)
        elif entry.source is not peer:
            self._doubted.setdefault(entry, []).append((peer, gather))
            return
        else:
            self.await_confirmation(entry.key, gather)
        gather.start(now)

    def _relayed(self, item: Subscription, source: Peer, gather: Gather, now: float) -> None:
        """The word of one that is away, by another that it had told."""
        entry, _ = self.table.learn((item.origin, item.serial), item, source)
        self._enter(entry, source)
        self._spread(entry, gather, now)

    def on_unsubscribe(self, peer: Peer, message: Unsubscribe, now: float) -> None:
        if (entry := self.table.by_key.get((message.origin, message.serial))) is not None:
            for source in self.table.withdrawn(entry, peer):
                self.forget(entry, source, now)

    # --- the table -----------------------------------------------------------------------------------

    def _enter(self, entry: SubscriptionEntry, peer: Peer) -> None:
        group = self._group[entry.number] = self.groups.enter(entry.item, peer)
        self.remote.add(entry.number, entry.item.filter, group)
        self.mentions.add(entry.item.filter)
        self.generation += 1

    def _exit(self, entry: SubscriptionEntry) -> None:
        group = self._group.pop(entry.number, None)
        self.mentions.remove(entry.item.filter)
        if group is None:
            self.local.remove(entry.number)
        else:
            self.remote.remove(entry.number)
            self.groups.leave(group)
        self.generation += 1

    def _move(self, entry: SubscriptionEntry, now: float) -> None:
        """Another side, path or anchor."""
        assert isinstance(entry.source, Peer)
        group = self._group.get(entry.number)  # None: it was a local client's
        before = None if group is None else self.groups[group]
        self._exit(entry)
        self._enter(entry, entry.source)
        if before is not None:
            self.left(entry.item.filter, before, self.groups[self._group[entry.number]])
        for peer, announced in self.announced.items():
            if peer is entry.source:
                announced.remove(entry.number, now)
            else:
                announced.repeat(entry.number, now)

    def forget(self, entry: SubscriptionEntry, source: Session, now: float) -> None:
        shadowed = source is not entry.source and source in entry.sources
        change = self.table.forget(entry, source)
        if change is Change.GONE:
            for announced in self.announced.values():
                announced.remove(entry.number, now)
            for confirmed in self.confirmed.values():
                confirmed.discard(entry.number)
            self._exit(entry)
            self.table.release(entry)
        elif change is Change.MOVED:
            if isinstance(source, Peer):
                self.turned(entry, source)
            self._move(entry, now)
            self._spread(entry, None, now)
        elif shadowed and isinstance(source, Peer):
            self._announce_if_due(entry, source, now)  # it knew better until now
        self._believe(entry, now)
        if isinstance(source, Peer):
            self.announcements.sync.check(source, now)
        if change is Change.MOVED:
            self.announcements.sync.check_all(now)

    def _believe(self, entry: SubscriptionEntry, now: float) -> None:
        """A shadow is confirmed when its word counts or is taken back. Confirmed at once, its subscriber
        would be connected by its new side while what is for it goes to the old one, to be settled there."""
        doubted = self._doubted.pop(entry, ())
        for peer, gather in doubted:
            if peer in entry.sources and peer is not entry.source:
                self._doubted.setdefault(entry, []).append((peer, gather))
                continue
            if peer is entry.source:
                self.await_confirmation(entry.key, gather)
            gather.start(now)

    # --- what is announced to neighbours ----------------------------------------------------------------

    def _spread(self, entry: SubscriptionEntry, gather: Gather | None, now: float) -> None:
        """Tell every neighbour that must know."""
        self.generation += 1
        for peer in self._eligible(entry):
            if (announced := self.announced.get(peer)) is not None:
                announced.add(entry.number, gather, now)
            elif gather is not None:
                self._await_return(entry, peer, gather)

    def await_confirmation(self, key: Key, gather: Gather) -> None:
        """Let `gather` wait for whatever is not confirmed yet of a known subscription."""
        entry = self.table.by_key[key]
        for announced in self.announced.values():
            announced.wait(entry.number, gather)
        for peer in self._eligible(entry):
            self._await_return(entry, peer, gather)

    def _await_return(self, entry: SubscriptionEntry, peer: Peer, gather: Gather) -> None:
        if peer.suspended and entry.number not in self.confirmed.get(peer, ()):
            self.announcements.await_return(peer, self._find, entry.number, gather)

    def reconsider(self, peer: Peer, now: float) -> None:
        """Publishers behind this neighbour, which is away, are behind another by now: who waits to be told
        there need not."""

        def due(number: int) -> bool:
            entry = self.table.by_number[number]
            return entry is not None and peer in self._eligible(entry)

        self.announcements.reconsider(peer, self._find, due, now)

    def _find(self, peer: Peer, number: int) -> Announcement | None:
        announced = self.announced.get(peer)
        return announced.announcement_of(number) if announced is not None and number in announced else None

    def _eligible(self, entry: SubscriptionEntry) -> Iterator[Peer]:
        if self.flooding:
            sides: Iterable[Session] = list(peers_of(self.core).values())
        else:
            sides = self.advertisements.sides(entry.item.filter)
        for side in sides:
            if isinstance(side, Peer) and self._announceable(entry.number, side):
                yield side

    def _advertised(self, advertisement: AdvertisementEntry, peer: Peer, now: float) -> None:
        """An advertisement came from `peer`: what overlaps it must be known there."""
        announced = self.announced.get(peer)
        if announced is not None and not self.flooding:
            filter = advertisement.item.filter
            for index in (self.local, self.remote):
                for number in list(index.overlapping(filter)):
                    if self._announceable(number, peer):
                        announced.add(number, None, now)

    def _announceable(self, number: int, peer: Peer) -> bool:
        entry = self.table.entry(number)
        if peer in entry.sources and not self._echoed(entry, peer):
            return False
        if peer.will_tell(entry.source, entry.item.home) and not peer.is_relayed(entry.source):
            return False
        if entry.source.lost and entry.item.origin != self.core.id:
            return False  # a tombstone stays announced; anew, a SyncDone would wait for it, and it for that
        return peer.may_be_told(entry.source)

    def _echoed(self, entry: SubscriptionEntry, peer: Peer) -> bool:
        """Whether what it says goes back to us: should that way be lost, it knows nobody who leads here."""
        return entry.source is not peer and self.table.is_echo(entry.sources[peer][0])

    def _announce_if_due(self, entry: SubscriptionEntry, peer: Peer, now: float) -> None:
        announced = self.announced.get(peer)
        if announced is not None and self._announceable(entry.number, peer):
            relayed = peer.is_relayed(entry.source)
            if self.flooding or relayed or self._called_for(entry.number, peer):
                announced.add(entry.number, None, now)

    def _unadvertised(self, advertisement: AdvertisementEntry, peer: Peer, now: float) -> None:
        """It no longer comes from `peer`: what was announced there because of it alone is withdrawn. (Not
        on a link that ends: its advertisements come from elsewhere now, its publications may still come.)"""
        announced = self.announced.get(peer)
        if announced is not None and not self.flooding and not peer.retiring:
            for index in (self.local, self.remote):
                for number in list(index.overlapping(advertisement.item.filter)):
                    if number in announced and not self._called_for(number, peer):
                        announced.remove(number, now)

    def _called_for(self, number: int, peer: Peer) -> bool:
        return self.advertisements.calls_for(peer, self.table.entry(number).item.filter)

    def _announce(self, number: int, peer: Peer) -> Announcement:
        item = self.table.entry(number).item
        path = onward(item.path, self.core.id, self.delta)
        announcement = self.announcements.new(peer, self._find)
        passed_on = Subscription(item.origin, item.serial, item.home, path, item.filter)
        self.core.tell(Subscribe(announcement.stamp, passed_on), peer)
        return announcement

    def _withdraw(self, number: int, peer: Peer, announcement: Announcement, now: float) -> None:
        self.core.tell(Unsubscribe(*self.table.entry(number).key), peer)
        self.announcements.withdraw(peer, announcement, now)

    def _covering(self, number: int) -> Iterator[int]:
        if self.core.settings.tree.covering:
            filter = self.table.entry(number).item.filter
            yield from self.local.covering(filter)
            yield from self.remote.covering(filter)

    def _covered(self, number: int) -> Iterator[int]:
        if self.core.settings.tree.covering:
            filter = self.table.entry(number).item.filter
            yield from self.local.covered(filter)
            yield from self.remote.covered(filter)

    def _path(self, number: int) -> tuple[int, ...]:
        """The word of one that is away is told as such: it covers nothing of others, nor they it."""
        entry = self.table.entry(number)
        if isinstance(entry.source, Peer) and entry.source.is_replaced:
            return (entry.source.id,)
        return onward(entry.item.path, self.core.id, self.delta)

    # --- links ----------------------------------------------------------------------------------------

    def link_up(self, session: Session, now: float) -> None:
        if not isinstance(session, Peer):
            return
        if session.tables_epoch != session.epoch:
            self.confirmed.pop(session, None)  # it has restarted
        self.announced[session] = Announced(
            session, self._announce, self._withdraw, self._covering, self._covered, self._path
        )
        self.generation += 1
        for entry in list(self.table.by_key.values()):
            self._announce_if_due(entry, session, now)

    def link_down(self, session: Session, now: float) -> None:
        if not isinstance(session, Peer):
            return
        if (announced := self.announced.pop(session, None)) is not None:
            self.confirmed.setdefault(session, set()).update(announced.confirmed())
        for entry in list(self._doubted):  # nobody is there to be answered
            if left := [doubt for doubt in self._doubted[entry] if doubt[0] is not session]:
                self._doubted[entry] = left
            else:
                del self._doubted[entry]

    def link_lost(self, session: Session, now: float) -> None:
        buried = isinstance(session, Peer) and self.bury(session)
        for entry in self.table.of(session):
            counted = entry.source is session
            if not buried or not counted or len(entry.sources) > 1:
                self.forget(entry, session, now)
        if not buried:
            self.table.drop(session)
        self.confirmed.pop(session, None)  # type: ignore[call-overload]

    def _forget_shadows(self, peer: Peer, now: float) -> None:
        for entry in self.table.outdated(peer):
            self.forget(entry, peer, now)

    def _forget_stale(self, peer: Peer, now: float) -> None:
        """What is not repeated may be a tombstone's: its side was lost while the peer was away. What waits to
        be routed was accepted before, and is sent there to be cut."""
        self.confirmed.pop(peer, None)
        if self.unrouted():
            self._unrepeated[peer] = None
            return
        for entry in self.table.stale(peer):
            self.forget(entry, peer, now)

    def routed(self, now: float) -> None:
        """What waited is on its way. (Who is not synced any more says all of it again.)"""
        unrepeated, self._unrepeated = self._unrepeated, {}
        for peer in unrepeated:
            if peer.synced_by_peer and not peer.lost:
                self._forget_stale(peer, now)

    def status(self) -> Status:
        return {
            "count": len(self.table),
            "local": len(self.local),
            "anchors": len(self.groups),
            "announced": {peer.name: len(one.announcements) for peer, one in self.announced.items()},
        }

    def validate(self) -> None:
        self.table.validate()
        assert len(self.local) + len(self.remote) == len(self.table)
        assert len(self._group) == len(self.remote)
        for entry, doubted in self._doubted.items():
            for peer, _ in doubted:
                assert peer in entry.sources and peer is not entry.source, (peer, entry.key)
        for peer, announced in self.announced.items():
            assert peer.link is not None, peer
            announced.validate()
            for number in announced.announcements:
                assert peer is not self.table.entry(number).source, (peer, number)
