"""SPEC T2: advertisements flood the tree; subscriptions follow them back.

An advertisement is confirmed when all brokers have it and the subscriptions that overlap it have come
back: each broker sends the overlapping ones it knows to the side the advertisement came from before it
confirms, and links are FIFO.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from grapevine.filters.normal import Filter
from grapevine.wire.messages import Advertise, Advertisement, Unadvertise
from matching.interface import Matcher
from matching.relations import overlaps
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.tree.announcements import Announcement, Announcements
from overlay.tree.peer import Peer, peers_of
from overlay.tree.table import Change, Entry, Key, Table

AdvertisementEntry = Entry[Advertisement]


class Advertisements(Quiet):
    name = "advertisements"

    def __init__(self, announcements: Announcements, matcher: Callable[[], Matcher]) -> None:
        self.announcements = announcements
        self.table: Table[Advertisement] = Table()
        self.index = matcher()  # group: the number of the session that the advertisement came from
        self.publishers: dict[int, dict[AdvertisementEntry, None]] = {}
        self.sources: Counter[tuple[int, int]] = Counter()  # incarnations of publishers, by their number here
        self.announced: dict[Peer, dict[AdvertisementEntry, Announcement]] = {}
        self.confirmed: dict[Peer, set[AdvertisementEntry]] = {}  # by neighbours whose links broke since
        # Of relocated publishers, by the side they came from, while something published there is in flight.
        self.lingering: dict[Session, dict[Key, Advertisement]] = {}
        # Set by Subscriptions: the side of an advertisement has changed.
        self.arrived: Callable[[AdvertisementEntry, Peer, float], None] = lambda entry, peer, now: None
        self.departed: Callable[[AdvertisementEntry, Peer, float], None] = lambda entry, peer, now: None
        self.on_gone: list[Callable[[Advertisement], None]] = []
        self.placed: Callable[[Advertisement], None] = lambda item: None  # new, or its home is another
        self.turned: Callable[[Key, Session], None] = lambda key, before: None  # set by Moves
        # Set by Migration: whether it will relieve the side where an advertisement was before.
        self.migrating: Callable[[Key], bool] = lambda key: False

    def attach(self, core: Core) -> None:
        self.core = core
        self.announcements.sync.forget_stale.append(self._forget_stale)
        self.announcements.sync.forget_shadows.append(self._forget_shadows)
        core.on(Advertise, self.on_advertise)
        core.on(Unadvertise, self.on_unadvertise)

    # --- what is asked -------------------------------------------------------------------------------

    def sides(self, filter: Filter) -> dict[Session, None]:
        """The sides from which an advertisement came that may overlap `filter`."""
        sides = {self.table.entry(number).source: None for number in self.index.overlapping(filter)}
        for side, items in self.lingering.items():
            if any(overlaps(item.filter, filter) for item in items.values()):
                sides[side] = None
        return sides

    def calls_for(self, peer: Peer, filter: Filter) -> bool:
        """Whether an advertisement from this side still may overlap `filter`."""
        return any(
            entry.source is peer and overlaps(entry.item.filter, filter) for entry in self.table.of(peer)
        ) or any(overlaps(item.filter, filter) for item in self.lingering.get(peer, {}).values())

    def of_publisher(self, publisher: int) -> list[Advertisement]:
        return [entry.item for entry in self.publishers.get(publisher, ())]

    def name_of(self, publisher: int) -> str | None:
        """As long as it advertises: nothing is kept of a publisher that is gone."""
        return next((entry.item.publisher_name for entry in self.publishers.get(publisher, ())), None)

    # --- inputs ---------------------------------------------------------------------------------------

    def advertise(self, client: Session, advertisement: Advertisement, gather: Gather, now: float) -> Key:
        """A local publisher's; `gather` waits for the whole tree."""
        key = (advertisement.origin, advertisement.serial)
        self._learn(key, advertisement, client, gather, now)
        return key

    def unadvertise(self, client: Session, key: Key, now: float) -> None:
        self._let_go(key, client)
        if (entry := self.table.by_key.get(key)) is not None:
            self._forget(entry, client, now)

    def on_advertise(self, peer: Peer, message: Advertise, now: float) -> None:
        item = message.advertisement
        known = self.table.by_key.get((item.origin, item.serial))
        if known is not None and _contradicts(known.item, item):
            self.core.refuse("contradiction")
            return
        gather = self.announcements.confirmation(peer, message.stamp)
        self.core.names.setdefault(item.home, item.home_name)
        self._learn((item.origin, item.serial), item, peer, gather, now)
        gather.start(now)

    def on_unadvertise(self, peer: Peer, message: Unadvertise, now: float) -> None:
        if (entry := self.table.by_key.get((message.origin, message.serial))) is not None:
            for source in self.table.withdrawn(entry, peer):
                self._forget(entry, source, now)

    # --- the table -----------------------------------------------------------------------------------

    def _learn(self, key: Key, item: Advertisement, source: Session, gather: Gather, now: float) -> None:
        if self._other_version(key, item, source, now):
            self.await_confirmation(key, gather)
            return
        before = self.table.by_key[key].source if key in self.table.by_key else source
        entry, change = self.table.learn(key, item, source)
        if before not in entry.sources:  # taken over: what was published there may still be under way
            self.lingering.setdefault(before, {})[key] = item
            self.turned(key, before)
        if change is Change.NEW:
            self.index.add(entry.number, item.filter, 0)
            self.publishers.setdefault(item.publisher, {})[entry] = None
            self.sources[item.publisher, item.incarnation] += 1
        if change is not Change.SAME:
            self._place(entry, now)
        elif entry.source is source:
            self._spread(entry)  # who was not told while the word was in doubt
        self.await_confirmation(key, gather)

    def _other_version(self, key: Key, item: Advertisement, source: Session, now: float) -> bool:
        """SyncDone never waits across versions: of a publisher that has moved while this link was broken, one
        side knows where it was and the other where it is. Each would wait for the other's word to go. So the
        newer one counts at once, and the older one is nothing."""
        known = self.table.by_key.get(key)
        if known is None or not isinstance(source, Peer) or source.synced_by_us or source is known.source:
            return False
        if item.moves == known.item.moves:
            return False
        if item.moves < known.item.moves:
            self.table.forget(known, source)
        else:
            before = known.source
            self.linger(known, before, now)
            self.move(known, item, source, now)
            later = now + self.core.settings.links.lost_after_s
            self.core.timers.at(later, lambda then: self._relieve_superseded(key, before, then))
        return True

    def _relieve_superseded(self, key: Key, before: Session, now: float) -> None:
        """The update that belongs to a newer word has followed it by now, or the move was over."""
        if isinstance(before, Peer) and not self.migrating(key):
            self.relieve(key, before, now)

    def await_confirmation(self, key: Key, gather: Gather) -> None:
        """Let `gather` wait for whatever is not confirmed yet of a known advertisement."""
        entry = self.table.by_key[key]
        for peer, announced in self.announced.items():
            if entry in announced:
                announced[entry].notify(entry.number, gather, peer)
        for peer in peers_of(self.core).values():
            if peer.suspended and peer not in entry.sources and entry not in self.confirmed.get(peer, ()):
                self.announcements.await_return(peer, self._find, entry.number, gather)

    def _find(self, peer: Peer, number: int) -> Announcement | None:
        entry = self.table.by_number[number]
        return None if entry is None else self.announced.get(peer, {}).get(entry)

    def _place(self, entry: AdvertisementEntry, now: float) -> None:
        """Announce to all but the side it came from; ask that side for what it needs to know."""
        source = entry.source
        mine = self.publishers[entry.item.publisher]
        if len(mine) > 1:  # the last is where it went last
            del mine[entry]
            mine[entry] = None
        self.placed(entry.item)
        if isinstance(source, Peer):
            self.retract(entry, source, now)
            self.arrived(entry, source, now)
        self._spread(entry)

    def _spread(self, entry: AdvertisementEntry) -> None:
        for peer in peers_of(self.core).values():
            if peer is not entry.source and peer.link is not None:
                self._announce(entry, peer)

    # --- relocated publishers --------------------------------------------------------------------------

    def move(self, entry: AdvertisementEntry, item: Advertisement, source: Session, now: float) -> None:
        """The publisher has been relocated: the advertisement comes from another side, which is told what
        it needs to know."""
        self.table.move(entry, item, source)
        self._place(entry, now)
        self.announcements.sync.check_all(now)

    def linger(self, entry: AdvertisementEntry, source: Session, now: float) -> None:
        """Publications under it may still come from this side: it is told subscriptions as before, and the
        advertisement goes back there if the side that it has moved to forgets it."""
        self.lingering.setdefault(source, {})[entry.key] = entry.item
        if isinstance(source, Peer) and entry.source is not source:
            self.arrived(entry, source, now)

    def relieve(self, key: Key, source: Session, now: float) -> None:
        """No more come from there: withdraw what was announced because of it alone."""
        item = self._let_go(key, source)
        if item is None or not isinstance(source, Peer):
            return
        entry = self.table.by_key.get(key)
        if entry is not None and entry.source is source and entry.item == item:
            self._forget(entry, source, now)  # it had gone back, to where it has been given up
        self.departed(Entry(key, -1, item, source), source, now)

    def _let_go(self, key: Key, source: Session) -> Advertisement | None:
        items = self.lingering.get(source, {})
        item = items.pop(key, None)
        if not items:
            self.lingering.pop(source, None)
        return item

    def _go_back(self, entry: AdvertisementEntry, gone: Session, now: float) -> bool:
        """The side that it has moved to does not know it any more: whether another one holds it."""
        for source, items in self.lingering.items():
            if entry.key in items and source is not gone and not source.lost:
                self.move(entry, items[entry.key], source, now)
                return True
        return False

    def _forget(self, entry: AdvertisementEntry, source: Session, now: float) -> None:
        counted = entry.source is source
        if counted and len(entry.sources) == 1 and self.lingering and self._go_back(entry, source, now):
            if isinstance(source, Peer):
                self.departed(entry, source, now)
                self.announcements.sync.check(source, now)
            return
        shadowed = not counted and source in entry.sources
        change = self.table.forget(entry, source)
        if change is Change.GONE:
            self._remove(entry, now)
        elif change is Change.MOVED:
            self._place(entry, now)
            self._hold_sync(entry, now)
        elif shadowed and isinstance(source, Peer) and not source.will_tell(entry.source, entry.item.home):
            self._announce(entry, source)  # it knew better until now; from here on it must be announced
        if (counted or shadowed) and isinstance(source, Peer):  # its word may have counted before
            self.departed(entry, source, now)
        if change is Change.GONE:
            self.table.release(entry)
        if isinstance(source, Peer):
            self.announcements.sync.check(source, now)
        if change is Change.MOVED:
            self.announcements.sync.check_all(now)

    def _hold_sync(self, entry: AdvertisementEntry, now: float) -> None:
        """A shadow's word counts from now on: what overlaps it must come back before its side hears SyncDone,
        or that side would send what nobody is known to want."""
        source = entry.source
        if isinstance(source, Peer) and source.link is not None and not source.synced_by_us:
            gather = self.announcements.before_sync(source)
            self.await_confirmation(entry.key, gather)
            gather.start(now)

    def _remove(self, entry: AdvertisementEntry, now: float) -> None:
        self.index.remove(entry.number)
        mine = self.publishers[entry.item.publisher]
        del mine[entry]
        if not mine:
            del self.publishers[entry.item.publisher]
        source = (entry.item.publisher, entry.item.incarnation)
        self.sources[source] -= 1
        if not self.sources[source]:
            del self.sources[source]
        for peer in list(self.announced):
            self.retract(entry, peer, now)
        for confirmed in self.confirmed.values():
            confirmed.discard(entry)
        for gone in self.on_gone:
            gone(entry.item)

    # --- links ----------------------------------------------------------------------------------------

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self.announced[session] = {}
            if session.tables_epoch != session.epoch:
                self.confirmed.pop(session, None)  # it has restarted
            if self.lingering and session.tables_epoch != session.epoch:
                for entry in self.table.of(session):  # it has restarted: it will not tell us again
                    if entry.source is session and len(entry.sources) == 1:
                        self._go_back(entry, session, now)
            # Also what it told before, if that does not count: after TablesSent it would find SyncDone said.
            for entry in list(self.table.by_key.values()):
                if entry.source is not session and not session.will_tell(entry.source, entry.item.home):
                    self._announce(entry, session)

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            announced = self.announced.pop(session, {})
            confirmed = {entry for entry, announcement in announced.items() if announcement.confirmed}
            self.confirmed.setdefault(session, set()).update(confirmed)

    def link_lost(self, session: Session, now: float) -> None:
        for entry in self.table.of(session):
            self._forget(entry, session, now)
        self.table.drop(session)
        self.lingering.pop(session, None)
        self.confirmed.pop(session, None)  # type: ignore[call-overload]

    def _forget_shadows(self, peer: Peer, now: float) -> None:
        for entry in self.table.outdated(peer):
            self._forget(entry, peer, now)

    def _forget_stale(self, peer: Peer, now: float) -> None:
        self.confirmed.pop(peer, None)
        for entry in self.table.stale(peer):
            self._forget(entry, peer, now)

    def _announce(self, entry: AdvertisementEntry, peer: Peer) -> None:
        """A neighbour that has never said SyncDone is not told what is in doubt: it may come from there by
        now, and each side would wait for the other's word to go (faults seeds 31 and 192). One in the place
        of a leaver is told what the leaver was: soft links may still bring what is for those behind it."""
        announced = self.announced.get(peer)
        if announced is None or entry in announced or not peer.may_be_told(entry.source):
            return
        if not peer.ever_synced and self.table.doubtful(entry) and not self._succeeds(peer):
            return
        announcement = announced[entry] = self.announcements.new(peer, self._find)
        self.core.tell(Advertise(announcement.stamp, entry.item), peer)

    def _succeeds(self, peer: Peer) -> bool:
        return any(peer.succeeds(leaver) for leaver in peers_of(self.core).values())

    def retract(self, entry: AdvertisementEntry, peer: Peer, now: float) -> None:
        announcement = self.announced.get(peer, {}).pop(entry, None)
        self.confirmed.get(peer, set()).discard(entry)
        if announcement is not None:
            self.announcements.withdraw(peer, announcement, now)
            self.core.tell(Unadvertise(*entry.key), peer)

    def status(self) -> Status:
        return {"count": len(self.table)}

    def validate(self) -> None:
        self.table.validate()
        assert len(self.index) == len(self.table) == self.sources.total()
        for peer, announced in self.announced.items():
            assert peer.link is not None, peer
            for entry in announced:
                assert self.table.by_key.get(entry.key) is entry and entry.source is not peer, (
                    peer,
                    entry.key,
                )


def _contradicts(known: Advertisement, other: Advertisement) -> bool:
    """A key stands for one advertisement for ever."""
    return (known.publisher, known.incarnation, known.filter) != (
        other.publisher,
        other.incarnation,
        other.filter,
    )
