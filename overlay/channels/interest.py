"""SPEC A2: the back end's subscriptions: (channel, parameter set) -> the brokers and names that want it.

All brokers' wishes for one set are one back-end subscription (BAD 3.1). A set enters with the next
*generation* and leaves with one; a plan names a generation, so that an execution that runs again runs for the
same sets. A subscriber with a name keeps its set while it is away, by its cursor. When a channel is replaced
its sets go over to the new version, if that takes their values: under another id, which knows where the
results of before are. Two that have the same values from then on stay two while they are wanted: each has
results of its own behind it, that its subscribers may not have taken yet.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from grapevine.wire.parameters import set_id
from overlay.channels.records import Records


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is on disk of a set."""

    channel: str
    version: int
    form: bytes
    entered: int
    left: int = 0  # generation; 0: it is there
    earlier: tuple[tuple[int, int], ...] = ()  # (version, id) that it had before, the oldest first
    first: int = 0  # the first execution that counts it, as far as that is known


class Cursor(msgspec.Struct, array_like=True, gc=False):
    position: int
    touched_at: float


class BackendSubscription:
    __slots__ = ("be", "kept", "brokers", "cursors")

    def __init__(self, be: int, kept: Kept) -> None:
        self.be = be
        self.kept = kept
        self.brokers: set[int] = set()  # ids of brokers with a link, and of those that may come back soon
        self.cursors: dict[str, Cursor] = {}  # of named subscribers

    @property
    def wanted(self) -> bool:
        return bool(self.brokers or self.cursors)


class Interest:
    def __init__(self, records: Records) -> None:
        self.records = records
        self.by_be: dict[int, BackendSubscription] = {}
        self.later: dict[int, int] = {}  # id under an earlier version -> the one of now
        self.generation = 0
        self._left: set[int] = set()  # those that only an open plan needs
        cursors = []
        for key, value in records.items():
            kind, _, rest = key.partition("/")
            if kind == "set":
                kept = msgspec.msgpack.decode(value, type=Kept)
                self.by_be[int(rest)] = BackendSubscription(int(rest), kept)
                self.generation = max(self.generation, kept.entered, kept.left)
                self._follow(int(rest), kept)
                if kept.left:
                    self._left.add(int(rest))
            elif kind == "cursor":
                cursors.append((rest, msgspec.msgpack.decode(value, type=Cursor)))
        for rest, cursor in cursors:
            be, _, subscriber = rest.partition("/")
            if (known := self.by_be.get(int(be))) is not None:
                known.cursors[subscriber] = cursor

    def enter(
        self,
        be: int,
        channel: str,
        version: int,
        form: bytes,
        earlier: tuple[tuple[int, int], ...] = (),
        first: int = 0,
    ) -> BackendSubscription | None:
        """The set's subscription, in the table from now on; None if another set has this id."""
        known = self.by_be.get(be)
        if known is not None and (known.kept.channel, known.kept.version, known.kept.form) != (
            channel,
            version,
            form,
        ):
            return None
        if known is None or known.kept.left:
            self.generation += 1
            kept = Kept(channel, version, form, self.generation, 0, earlier, first)
            if known is None:
                known = self.by_be[be] = BackendSubscription(be, kept)
            known.kept = kept
            self._left.discard(be)
            self._follow(be, kept)
            self.records.put(f"set/{be}", msgspec.msgpack.encode(kept))
        return known

    def _follow(self, be: int, kept: Kept) -> None:
        """Records come in any order: the one with the longest past is the one of now."""
        for _, before in kept.earlier:
            other = self.by_be.get(self.later.get(before, 0))
            if other is None or other.kept.version <= kept.version:
                self.later[before] = be

    def release(self, be: int, planned: int | None) -> None:
        """If nobody wants it any more it leaves; what a plan of an earlier generation needs stays on disk."""
        known = self.by_be.get(be)
        if known is None or known.wanted or known.kept.left:
            return
        self.generation += 1
        if planned is not None and known.kept.entered <= planned:
            known.kept = msgspec.structs.replace(known.kept, left=self.generation)
            self._left.add(be)
            self.records.put(f"set/{be}", msgspec.msgpack.encode(known.kept))
        else:
            self.forget(be)

    def replace(
        self, known: BackendSubscription, version: int, form: bytes, now: float
    ) -> BackendSubscription | None:
        """The set goes on as another one; the old id stays until the brokers that have it let go."""
        kept = known.kept
        be = set_id(kept.channel, version, form)
        if be in self.by_be:  # of another one that had other values before
            be = set_id(kept.channel, version, form + known.be.to_bytes(8, "big"))
        earlier = (*kept.earlier, (kept.version, known.be))
        new = self.enter(be, kept.channel, version, form, earlier, kept.first)
        if new is None:
            return None
        new.brokers |= known.brokers
        for subscriber, cursor in list(known.cursors.items()):
            self.move_cursor(be, subscriber, cursor.position, now)
            self.drop_cursor(known.be, subscriber)
        return new

    def carried(self, before: int, version: int, subscriber: str) -> BackendSubscription | None:
        """Where a subscriber that goes on is now whose set had this id under an earlier version."""
        known = self.by_be.get(self.later.get(before, 0))
        if known is None or known.kept.version != version or known.kept.left:
            return None
        return known if not subscriber or subscriber in known.cursors else None

    def forget(self, be: int) -> None:
        known = self.by_be.pop(be)
        self._left.discard(be)
        for _, before in known.kept.earlier:
            if self.later.get(before) == be:
                del self.later[before]
        for subscriber in known.cursors:
            self.records.delete(f"cursor/{be}/{subscriber}")
        self.records.delete(f"set/{be}")

    def forget_left(self, channel: str) -> None:
        """No plan of the channel is open."""
        for be in [each for each in self._left if self.by_be[each].kept.channel == channel]:
            self.forget(be)

    def validate(self) -> None:
        assert self._left == {be for be, known in self.by_be.items() if known.kept.left}

    def of(self, channel: str, version: int, generation: int) -> Iterator[BackendSubscription]:
        """Those that a plan of that generation runs for, by id."""
        for be in sorted(self.by_be):
            kept = self.by_be[be].kept
            if (kept.channel, kept.version) == (channel, version) and kept.entered <= generation:
                if not kept.left or kept.left > generation:
                    yield self.by_be[be]

    def move_cursor(self, be: int, subscriber: str, position: int, now: float) -> None:
        known = self.by_be.get(be)
        if known is None:
            return
        cursor = known.cursors.get(subscriber)
        if cursor is None:
            cursor = known.cursors[subscriber] = Cursor(position, now)
        cursor.position = max(cursor.position, position)
        cursor.touched_at = now
        self.records.put(f"cursor/{be}/{subscriber}", msgspec.msgpack.encode(cursor))

    def drop_cursor(self, be: int, subscriber: str) -> None:
        known = self.by_be.get(be)
        if known is not None and known.cursors.pop(subscriber, None) is not None:
            self.records.delete(f"cursor/{be}/{subscriber}")
