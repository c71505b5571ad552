"""What a broker has been told, by whom, and which word counts.

An entry may be known from several sides for a while, because neighbours notice a change of the tree at
different times. The oldest live source counts; the others are *shadows* that take over when it goes.
A source's entries that it does not repeat after its link came back are stale.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, Protocol, TypeVar

from overlay.links.session import Session
from overlay.tree.peer import Peer


class Homed(Protocol):
    @property
    def home(self) -> int: ...


Item = TypeVar("Item", bound=Homed)
Key = tuple[int, int]  # (origin, serial)


class Change(Enum):
    NEW = "new"  # nobody knew it
    SAME = "same"  # nothing that counts has changed
    MOVED = "moved"  # another source, or another word of the same one, counts now
    GONE = "gone"  # nobody knows it any more


class Entry(Generic[Item]):
    """`number` is a small int for indexes; `sources` maps who told us to what, the one that counts first."""

    __slots__ = ("item", "key", "number", "source", "sources")

    def __init__(self, key: Key, number: int, item: Item, source: Session) -> None:
        self.key = key
        self.number = number
        self.item = item
        self.source = source
        self.sources: dict[Session, tuple[Item, int]] = {}


class Table(Generic[Item]):
    def __init__(self) -> None:
        self.by_key: dict[Key, Entry[Item]] = {}
        self.by_number: list[Entry[Item] | None] = []
        self._free: list[int] = []
        self._of: dict[Session, dict[Entry[Item], None]] = {}
        # Set while a broker moves: whether a new source's word ends the old one's.
        self.takes_over: Callable[[Session, Session], bool] | None = None
        # Whether a home is behind this neighbour by the edges: its word is no echo of ours.
        self.leads: Callable[[Peer, int], bool] = lambda peer, home: False
        # Whether it is what we have said ourselves, at another place and perhaps before a restart.
        self.is_echo: Callable[[Item], bool] = lambda item: False

    def __len__(self) -> int:
        return len(self.by_key)

    def of(self, source: Session) -> list[Entry[Item]]:
        """Every entry that this source told us, whether its word counts or not."""
        return list(self._of.get(source, ()))

    def entry(self, number: int) -> Entry[Item]:
        """Also a gone one, until its number is released."""
        entry = self.by_number[number]
        assert entry is not None
        return entry

    def learn(self, key: Key, item: Item, source: Session) -> tuple[Entry[Item], Change]:
        entry = self.by_key.get(key)
        stamp = source.sync_number if isinstance(source, Peer) else 0
        if entry is None:
            entry = self._new(key, item, source)
            entry.sources[source] = (item, stamp)
            self._of.setdefault(source, {})[entry] = None
            return entry, Change.NEW
        known = entry.sources.get(source)
        if source is not entry.source and self.takes_over is not None:
            if self.takes_over(entry.source, source):
                self.move(entry, item, source)
                return entry, Change.MOVED
        entry.sources[source] = (item, stamp)
        if known is None:
            self._of.setdefault(source, {})[entry] = None
            unsaid = self._unsaid(entry)
            sure = unsaid and self._leads(source, item.home)
            yields = sure or _yields(entry.source, source, item.home, unsaid)
            yields = yields or (self.is_echo(entry.item) and not self.is_echo(item) and _live(source))
            if self._late(entry.source, source) or not yields:
                _shadow(source, 1)
                return entry, Change.SAME
            _shadow(entry.source, 1)
            self._count(entry, source, item)
            return entry, Change.MOVED
        if source is entry.source and item != entry.item:
            entry.item = item
            return entry, Change.MOVED
        return entry, Change.SAME

    def forget(self, entry: Entry[Item], source: Session) -> Change:
        if entry.sources.pop(source, None) is None:
            return Change.SAME
        del self._of[source][entry]
        if source is not entry.source:
            _shadow(source, -1)
            return Change.SAME
        if not entry.sources:
            del self.by_key[entry.key]
            return Change.GONE
        heir = next((s for s in entry.sources if _live(s)), next(iter(entry.sources)))
        _shadow(heir, -1)
        self._count(entry, heir, entry.sources[heir][0])
        return Change.MOVED

    def move(self, entry: Entry[Item], item: Item, source: Session) -> None:
        """From now on this source alone tells us of it, whoever did before."""
        for other in list(entry.sources):
            del self._of[other][entry]
            if other is not entry.source:
                _shadow(other, -1)
        entry.sources.clear()
        stamp = source.sync_number if isinstance(source, Peer) else 0
        entry.sources[source] = (item, stamp)
        self._of.setdefault(source, {})[entry] = None
        self._count(entry, source, item)

    def release(self, entry: Entry[Item]) -> None:
        """A gone entry's number may be given again: nothing refers to it any more."""
        self.by_number[entry.number] = None
        self._free.append(entry.number)

    def stale(self, peer: Peer) -> list[Entry[Item]]:
        """What this peer told us before its link came back and not since."""
        return [entry for entry in self.of(peer) if entry.sources[peer][1] != peer.sync_number]

    def outdated(self, peer: Peer) -> list[Entry[Item]]:
        """Of these, when all its tables are in, what need not wait for its SyncDone: its word does not count,
        or another neighbour says the same and has said SyncDone or is on the way there."""
        return [entry for entry in self.stale(peer) if entry.source is not peer or self._relieved(entry)]

    def _relieved(self, entry: Entry[Item]) -> bool:
        others = (source for source in entry.sources if source is not entry.source)
        synced = (isinstance(other, Peer) and other.synced_by_peer and not other.going for other in others)
        return any(synced) or any(
            self._leads(other, entry.item.home) for other in entry.sources if other is not entry.source
        )

    def _leads(self, source: Session, home: int) -> bool:
        return isinstance(source, Peer) and not source.going and self.leads(source, home)

    def doubtful(self, entry: Entry[Item]) -> bool:
        """Whether the word that counts is from before its source's link broke, and has not been repeated."""
        source = entry.source
        if not isinstance(source, Peer):
            return False
        return source.link is None or entry.sources[source][1] != source.sync_number

    def withdrawn(self, entry: Entry[Item], peer: Peer) -> list[Session]:
        """Whose word ends when this neighbour takes back its own: also a leaver's whose place it has."""
        if peer not in entry.sources:
            return []
        return [*(source for source in entry.sources if peer.will_tell(source, entry.item.home)), peer]

    def _unsaid(self, entry: Entry[Item]) -> bool:
        """Whether the source that counts has told all its tables since its link broke, and this no more."""
        source = entry.source
        return isinstance(source, Peer) and source.tables_received and self.doubtful(entry)

    def drop(self, source: Session) -> None:
        """A lost source that has no entry any more."""
        assert not self._of.pop(source, None), source

    def _late(self, counted: Session, source: Session) -> bool:
        """Whether this is the old side's word, sent before it heard that the new side's has ended it."""
        return self.takes_over is not None and self.takes_over(source, counted)

    def _new(self, key: Key, item: Item, source: Session) -> Entry[Item]:
        if self._free:
            number = self._free.pop()
        else:
            number = len(self.by_number)
            self.by_number.append(None)
        entry = self.by_key[key] = self.by_number[number] = Entry(key, number, item, source)
        return entry

    def _count(self, entry: Entry[Item], source: Session, item: Item) -> None:
        entry.source, entry.item = source, item

    def validate(self) -> None:
        for key, entry in self.by_key.items():
            assert entry.key == key and entry.source in entry.sources, key
            assert entry.sources[entry.source][0] == entry.item, key
            assert self.by_number[entry.number] is entry, key
            for source in entry.sources:
                assert entry in self._of[source], (key, source)
                assert not source.lost or (isinstance(source, Peer) and source.buried), (key, source)


def _live(source: Session) -> bool:
    return source.live if isinstance(source, Peer) else True


def _yields(old: Session, new: Session, home: int, unsaid: bool) -> bool:
    """Whether a new source's word counts at once. Behind a broken link, or if it is `unsaid` since, the old
    word stands until the new neighbour has said SyncDone: before, it may only repeat what somebody there
    heard from us (unless the edges lead there). An old neighbour that has never said it may do the same, and
    has no publication either until it does. Who comes in the place of one that goes is believed at once: what
    is paused for that one is matched for it, and for nobody else. Never one whose link ends."""
    if not isinstance(old, Peer) or (isinstance(new, Peer) and new.going):
        return False
    if old.lost:
        return True  # a tombstone
    if old.going:
        return old.retiring or (isinstance(new, Peer) and new.will_tell(old, home))
    synced = not isinstance(new, Peer) or new.synced_by_peer
    return synced and (old.link is None or unsaid or not old.ever_synced)


def _shadow(source: Session, change: int) -> None:
    if isinstance(source, Peer):
        source.shadows += change
