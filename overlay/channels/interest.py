"""SPEC A2: the back end's subscriptions: (channel, parameter set) -> the brokers and names that want it.

All brokers' wishes for one set are one back-end subscription (BAD 3.1). A set enters with the next
*generation* and leaves with one; a plan names a generation, so that an execution that runs again runs for the
same sets. A subscriber with a name keeps its set while it is away, by its cursor. When a channel is replaced
its sets go over to the new version, if that takes their values: under another id, which knows where the
results of before are.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from overlay.channels.records import Records


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is on disk of a set."""

    channel: str
    version: int
    form: bytes
    entered: int
    left: int = 0  # generation; 0: it is there
    earlier: tuple[tuple[int, int], ...] = ()  # (version, id) that it had before, the oldest first


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
        self.generation = 0
        cursors = []
        for key, value in records.items():
            kind, _, rest = key.partition("/")
            if kind == "set":
                kept = msgspec.msgpack.decode(value, type=Kept)
                self.by_be[int(rest)] = BackendSubscription(int(rest), kept)
                self.generation = max(self.generation, kept.entered, kept.left)
            elif kind == "cursor":
                cursors.append((rest, msgspec.msgpack.decode(value, type=Cursor)))
        for rest, cursor in cursors:
            be, _, subscriber = rest.partition("/")
            if (known := self.by_be.get(int(be))) is not None:
                known.cursors[subscriber] = cursor

    def enter(
        self, be: int, channel: str, version: int, form: bytes, earlier: tuple[tuple[int, int], ...] = ()
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
            kept = Kept(channel, version, form, self.generation, 0, earlier)
            if known is None:
                known = self.by_be[be] = BackendSubscription(be, kept)
            known.kept = kept
            self.records.put(f"set/{be}", msgspec.msgpack.encode(kept))
        return known

    def release(self, be: int, planned: int | None) -> None:
        """If nobody wants it any more it leaves; what a plan of an earlier generation needs stays on disk."""
        known = self.by_be.get(be)
        if known is None or known.wanted or known.kept.left:
            return
        self.generation += 1
        if planned is not None and known.kept.entered <= planned:
            known.kept = msgspec.structs.replace(known.kept, left=self.generation)
            self.records.put(f"set/{be}", msgspec.msgpack.encode(known.kept))
        else:
            self.forget(be)

    def replace(self, known: BackendSubscription, be: int, version: int, form: bytes, now: float) -> None:
        """The set goes on as another one; the old id stays until the brokers that have it let go."""
        kept, there = known.kept, self.by_be.get(be)
        new = self.enter(be, kept.channel, version, form, (*kept.earlier, (kept.version, known.be)))
        if new is None:
            return
        if new is there and new.kept.earlier:  # two sets are one now: what each had before is not the other's
            new.kept = msgspec.structs.replace(new.kept, earlier=())
            self.records.put(f"set/{be}", msgspec.msgpack.encode(new.kept))
        new.brokers |= known.brokers
        for subscriber, cursor in list(known.cursors.items()):
            self.move_cursor(be, subscriber, cursor.position, now)
            self.drop_cursor(known.be, subscriber)

    def forget(self, be: int) -> None:
        known = self.by_be.pop(be)
        for subscriber in known.cursors:
            self.records.delete(f"cursor/{be}/{subscriber}")
        self.records.delete(f"set/{be}")

    def forget_left(self, channel: str) -> None:
        """No plan of the channel is open."""
        for be, known in list(self.by_be.items()):
            if known.kept.channel == channel and known.kept.left:
                self.forget(be)

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
