"""The publishing half of a session: everything that is not settled, and where it stands.

A publication gets a number when it is appended, from 1, and keeps it; the position on the wire is that
number less `base`, the number settled when the epoch began. All marks here are such numbers. What is
settled leaves; everything else is sent again from `received` + 1 when the epoch goes on, and from the
start, marked RESENT, when a new one begins. What is large is counted by bytes as well as by number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

from grapevine.wire.drafts import Draft
from grapevine.wire.limits import ATTRIBUTE_BYTES, EXTENSION_BYTES, FRAME_BYTES
from grapevine.wire.messages import EXTENDED, RESENT, ExtendedPublish, Publication, Publish

WINDOW_BYTES = 32 * 1024 * 1024  # of large payloads that may be unsettled
LARGE_FRAME_BYTES = 2 * 1024 * 1024  # a frame with large payloads, unless one alone is larger
BATCH = 256  # publications in a frame; larger ones are mapped and unmapped by malloc each time
SMALL = 8 * 1024  # payload bytes: a frame of BATCH publications up to this size is within FRAME_BYTES
_SPARE = 64  # header of a publication, generously
assert BATCH * (SMALL + ATTRIBUTE_BYTES + EXTENSION_BYTES + _SPARE) < FRAME_BYTES


class Outgoing:
    __slots__ = (
        "_extended",
        "_large",
        "_large_sizes",
        "_origin",
        "_sent_ever",
        "accepted_up_to",
        "appended",
        "base",
        "bound",
        "buffer",
        "extends",
        "large_bytes",
        "limit",
        "persisted",
        "persisted_up_to",
        "received",
        "sent",
        "settled",
        "settled_up_to",
        "window",
    )

    def __init__(self, window: int) -> None:
        self.window = window  # publications that may be unsettled
        self.bound = window  # hence the number that the last one may have
        self.buffer: list[Draft] = []
        self._origin = 0  # number of the last publication that left the buffer
        self._extended = 0  # number of the last publication with an extension block
        self.extends = False  # the broker takes such
        self._large = 0  # number of the last publication too large for a frame of BATCH
        self._large_sizes: deque[tuple[int, int]] = deque()  # (number, bytes) of those that are not settled
        self.large_bytes = 0  # of these
        self._sent_ever = 0  # in any epoch
        self.appended = 0
        self.base = 0
        self.sent = self.received = self.persisted = self.settled = 0
        self.limit = 0  # the broker's credit
        self.accepted_up_to = self.persisted_up_to = self.settled_up_to = (
            0  # the publisher's sequence numbers
        )

    @property
    def unsettled(self) -> int:
        return self.appended - self.settled

    @property
    def full(self) -> bool:
        return self.appended >= self.bound

    def append(self, publication: Draft) -> None:
        self.buffer.append(publication)
        self.appended += 1

    def append_large(self, publication: Draft) -> None:
        """One whose payload is over SMALL."""
        self.append(publication)
        self._large = self.appended
        size = len(publication.payload)
        self._large_sizes.append((self.appended, size))
        self.large_bytes += size
        if self.large_bytes >= WINDOW_BYTES:
            self.bound = min(self.bound, self.appended)

    @property
    def roomy(self) -> bool:
        """Half of the window is free: waking a publisher for one place is not worth it."""
        return self.unsettled * 2 <= self.window and self.large_bytes * 2 <= WINDOW_BYTES

    def extend_last(self, extension: bytes) -> None:
        """The publication that was appended last brings this block."""
        last = self.buffer[-1]
        self.buffer[-1] = _extended(last, last.flags | EXTENDED, extension)
        self._extended = self.appended

    def batches(self, epoch: int, held_from: int | None) -> Iterator[Publish]:
        """What may leave now; `held_from` and later must wait."""
        last = min(self.limit, self.appended)
        if held_from is not None:
            last = min(last, held_from - 1)
        while self.sent < last:
            start = self.sent - self._origin
            batch = self.buffer[start : min(start + BATCH, last - self._origin)]
            if self._large > self.sent:
                batch = batch[: _fitting(batch)]
            first = self.sent + 1 - self.base
            kind = Publish
            if self._extended > self.sent and any(isinstance(each, Publication) for each in batch):
                batch, kind = self._as_spoken(batch)
            self.sent += len(batch)
            yield kind(epoch, first, cast(list[Publication], batch))  # as which the broker reads them
        self._sent_ever = max(self._sent_ever, self.sent)

    def _as_spoken(self, batch: list[Draft]) -> tuple[list[Draft], type[Publish]]:
        """With extensions, or without for a broker that does not take them."""
        if self.extends:
            return batch, ExtendedPublish
        return [Draft(p.attributes, p.payload, p.sequence, p.flags & ~EXTENDED) for p in batch], Publish

    def attributes_of(self, sequence: int) -> bytes | None:
        """Of a publication that is not settled; of an older one only as long as it happens to be here."""
        index = bisect_left(self.buffer, sequence, key=_sequence)
        found = self.buffer[index] if index < len(self.buffer) else None
        return found.attributes if found is not None and found.sequence == sequence else None

    # --- what the broker says; positions of the wire -------------------------------------------------

    def marked(self, received: int, settled: int, credit: int, persisted: int = 0) -> bool:
        """True if a mark or the credit moved. What was never sent cannot be acknowledged."""
        before = (self.received, self.settled, self.persisted, self.limit)
        self.limit = max(self.limit, credit + self.base)
        self.received = max(self.received, min(received + self.base, self.sent))
        self.persisted = max(self.persisted, min(persisted + self.base, self.received))
        if self.received > before[0]:
            self.accepted_up_to = max(self.accepted_up_to, self._sequence(self.received))
        if self.persisted > before[2]:
            self.persisted_up_to = max(self.persisted_up_to, self._sequence(self.persisted))
        self._settle(min(settled + self.base, self.received))
        return before != (self.received, self.settled, self.persisted, self.limit)

    def _sequence(self, number: int) -> int:
        return self.buffer[number - 1 - self._origin].sequence if number > self._origin else 0

    def _settle(self, number: int) -> None:
        if number <= self.settled:
            return
        self.settled_up_to = self._sequence(number)
        self.settled = number
        self.bound = number + self.window
        if self._large_sizes:
            self._forget_sizes()
        gone = number - self._origin
        # Small bites would copy a long list again and again.
        if gone * 2 >= len(self.buffer) or gone >= 4096:
            del self.buffer[:gone]
            self._origin = number

    def _forget_sizes(self) -> None:
        sizes = self._large_sizes
        while sizes and sizes[0][0] <= self.settled:
            self.large_bytes -= sizes.popleft()[1]
        if self.large_bytes >= WINDOW_BYTES:
            self.bound = min(self.bound, self.appended)

    # --- breaks --------------------------------------------------------------------------------------

    def resume(self, received: int, settled: int, credit: int) -> None:
        """The epoch goes on: the broker has taken `received`, the rest is sent again as it was."""
        self.marked(received, settled, credit)
        self.sent = max(self.received, self.settled)

    def settle_up_to(self, sequence: int) -> None:
        """Another broker knows that what we sent up to this sequence number is settled."""
        count = bisect_right(self.buffer, sequence, 0, self._sent_ever - self._origin, key=_sequence)
        self.received = max(self.received, self._origin + count)
        self._settle(self._origin + count)
        self.accepted_up_to = max(self.accepted_up_to, self.settled_up_to)

    def restart(self, credit: int, received: int = 0) -> None:
        """A new epoch, or a broker that has taken `received` positions of an earlier time: everything
        unsettled again from the next position, before anything new."""
        self.sent = self.received = self.persisted = self.settled
        self.base = self.settled - received
        self.limit = self.base + credit
        del self.buffer[: self.settled - self._origin]
        self._origin = self.settled
        for index in range(self._sent_ever - self._origin):
            p = self.buffer[index]
            if isinstance(p, Publication):
                self.buffer[index] = _extended(p, p.flags | RESENT, p.extension)
            else:
                self.buffer[index] = Draft(p.attributes, p.payload, p.sequence, p.flags | RESENT)

    def withdraw(self, allowed: Callable[[bytes], bool]) -> list[int]:
        """Take out what has not been sent in this epoch and is no longer allowed; its sequence numbers."""
        unsent = self.buffer[self.sent - self._origin :]
        kept = [p for p in unsent if allowed(p.attributes)]
        self.buffer[self.sent - self._origin :] = kept
        self.appended -= len(unsent) - len(kept)
        self._sent_ever = min(self._sent_ever, self.appended)
        self._large = self.appended if self._large > self.sent else self._large
        sizes = [(n, len(p.payload)) for n, p in enumerate(self.buffer, self._origin + 1) if n > self.settled]
        self._large_sizes = deque((n, size) for n, size in sizes if size > SMALL)
        self.large_bytes = sum(size for _, size in self._large_sizes)
        self.bound = self.settled + self.window
        self._forget_sizes()
        return [p.sequence for p in unsent if not allowed(p.attributes)]


def _extended(draft: Draft, flags: int, extension: bytes) -> Publication:
    return Publication(draft.attributes, draft.payload, draft.sequence, flags, extension=extension)


def _sequence(publication: Draft) -> int:
    return publication.sequence


def _fitting(batch: list[Draft]) -> int:
    """How many of these make one frame; at least one, since each is within the limits."""
    size = 0
    for count, p in enumerate(batch):
        size += len(p.payload) + len(p.attributes) + EXTENSION_BYTES + _SPARE
        if size > LARGE_FRAME_BYTES and count:
            return count
    return len(batch)
