"""The sending half of a link session: queue, positions, retention, credit.

The data path appends to `queue`; `seal` gives what is there positions and retains it until the peer
has settled it. Positions here count from the start of the session and never restart; `base` is the
position before the epoch's first, so the wire's number is position - base. A full window keeps what
is beyond it here, unsent; nothing is dropped. What has left is kept as the bytes it left in, if the driver
hands them back: objects that wait for an acknowledgement are cold when it comes, and cost as much to free as
to decode. Their bytes are counted only when the driver has sent many (`weigh`): the data path pays nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from grapevine.wire import decode_publications
from grapevine.wire.limits import BATCH_PUBLICATIONS, CUTS
from grapevine.wire.mesh import Exclusion
from grapevine.wire.messages import CUT_LINK_LOST, RESENT, Cut, Publication
from overlay.links.exclusions import Names, part, stretches
from overlay.links.settling import CutIndex, Settling, Watch, cuts_of

UNLIMITED = 1 << 62
CUTS_EACH = 8  # cuts that a peer may report of one publication: several links behind it may be lost


class Chunk:
    """Publications at consecutive positions from `first` to `last`; beside them `ids` on a client's stream
    and `exclusions` on a broker's."""

    __slots__ = ("_packed", "_publications", "exclusions", "first", "ids", "last")

    def __init__(
        self,
        first: int,
        publications: list[Publication],
        ids: list[bytes],
        exclusions: Sequence[Exclusion] = (),
    ) -> None:
        self.first = first
        self.last = first + len(publications) - 1
        self.ids = ids
        self.exclusions = exclusions
        self._publications: list[Publication] = publications
        self._packed: Raw | None = None

    @property
    def publications(self) -> list[Publication]:
        """Objects again once somebody asks: who looks at a few often looks at all, a few at a time."""
        if self._packed is not None:
            self._publications, self._packed = decode_publications(self._packed), None
        return self._publications

    def pack(self, packed: Raw) -> None:
        """Keep what they were encoded to instead of the publications."""
        self._packed, self._publications = packed, []

    @property
    def packed_bytes(self) -> int:
        return 0 if self._packed is None else len(self._packed)

    def part(self, first: int, last: int) -> Chunk:
        if first <= self.first and last >= self.last:
            return self
        low, high = max(first - self.first, 0), last - self.first + 1
        exclusions = part(self.exclusions, low, high) if self.exclusions else ()
        return Chunk(self.first + low, self.publications[low:high], self.ids[low:high], exclusions)

    def parts(self, most: int) -> Iterator[Chunk]:
        """Of at most so many publications each."""
        for first in range(self.first, self.last + 1, most):
            yield self.part(first, first + most - 1)


class Wait(NamedTuple):
    """`record` holds until `last` is settled; its own publications are first..last."""

    first: int
    last: int
    record: Settling


class Outgoing:
    __slots__ = (
        "_unsent",
        "base",
        "counted",
        "cuts",
        "exclusions",
        "heavy",
        "ids",
        "limit",
        "next",
        "on_cut",
        "queue",
        "received",
        "retained",
        "sent",
        "settled",
        "undeliverable",
        "waits",
        "window_bytes",
    )

    def __init__(self, window_bytes: int = UNLIMITED) -> None:
        self.window_bytes = window_bytes  # that may be under way, about
        self.heavy = (
            False  # there were more when they were last counted: nothing leaves before there are less
        )
        self.queue: list[Publication] = []
        self.ids: list[bytes] = []
        self.exclusions: list[Exclusion] = []  # of the queue
        self.retained: deque[Chunk] = deque()
        self._unsent: deque[Chunk] = deque()
        self.waits: deque[Wait] = deque()
        self.next = 1  # position of the next publication sealed
        self.base = 0
        self.sent = 0
        self.received = 0
        self.settled = 0
        self.limit = 0  # the peer's credit
        self.cuts: list[Cut] = []  # reported by the peer, of what its mark has not passed yet
        self.counted = 0  # end of the last publications some record waits for
        self.undeliverable: Callable[[Publication], bool] | None = None  # of a lost one: all, or some
        self.on_cut: Callable[[Publication, Names, int], None] | None = None  # by the peer: which, and why

    # --- the data path --------------------------------------------------------------------------

    def end(self) -> int:
        """The position that the last appended publication has or will have."""
        return self.next - 1 + len(self.queue)

    def exclude(self, publications: Iterable[Publication], names: Names) -> None:
        """Append publications that leave with an exclude list, if it names anybody."""
        queue, exclusions = self.queue, self.exclusions
        start = len(queue)
        queue += publications
        if not names:
            return
        if exclusions and exclusions[-1].end == start and exclusions[-1].names == names:
            start = exclusions.pop().start
        exclusions.append(Exclusion(start, len(queue), names))

    def hold(self, record: Settling) -> None:
        """What was appended since the last call is part of `record`."""
        last = self.end()
        if last > self.settled:
            self.waits.append(Wait(self.counted + 1, last, record))
            record.pending += 1
        self.counted = last

    def seal(self, most: int = BATCH_PUBLICATIONS) -> None:
        """In chunks of at most `most`, which leave as they are."""
        if self.queue:
            self._retain(Chunk(self.next, self.queue.copy(), self.ids.copy(), tuple(self.exclusions)), most)
            self._clear()

    def _clear(self) -> None:
        self.queue.clear()
        self.ids.clear()
        self.exclusions.clear()

    def _retain(self, chunk: Chunk, most: int) -> None:
        parts = (chunk,) if chunk.last - chunk.first < most else tuple(chunk.parts(most))
        self.retained += parts
        self._unsent += parts
        self.next = chunk.last + 1

    def take(self, most: int) -> Iterator[Chunk]:
        """What may leave now, in chunks of at most `most`; each counts as sent when yielded."""
        unsent = self._unsent
        while unsent and self.sent < self.limit:
            chunk = unsent[0]
            end = chunk.last
            last = min(end, self.limit, self.sent + most)
            if last == end:
                unsent.popleft()
            if last < end or self.sent >= chunk.first:
                chunk = chunk.part(self.sent + 1, last)
            self.sent = last
            yield chunk

    @property
    def sendable(self) -> bool:
        return bool(self._unsent) and self.sent < self.limit

    def weight(self) -> int:
        """Bytes that have left and are not settled."""
        return sum(chunk.packed_bytes for chunk in self.retained if chunk.last <= self.sent)

    def weigh(self) -> None:
        """Called when much has been sent, to anybody."""
        self.heavy = self.weight() >= self.window_bytes

    @property
    def still_heavy(self) -> bool:
        self.weigh()
        return self.heavy

    @property
    def unsettled(self) -> int:
        return self.end() - self.settled

    # --- what the peer says ---------------------------------------------------------------------

    def marked(self, received: int, settled: int, credit: int) -> bool:
        """Take the peer's marks (wire numbers); False if they claim what was never sent."""
        if settled > received or received + self.base > self.sent:
            return False
        self.received = max(self.received, received + self.base)
        self.limit = max(self.limit, credit + self.base)
        if settled + self.base > self.settled:
            self.settle(settled + self.base)
        return True

    def settle(self, position: int) -> None:
        self.settled = position
        retained = self.retained
        while retained and retained[0].last <= position:
            retained.popleft()
        waits = self.waits
        while waits and waits[0].last <= position:
            waits.popleft().record.release()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` once, when everything appended so far is settled or given up; at once if it is."""
        last = self.end()
        if last <= self.settled:
            then()
        else:
            self.waits.append(Wait(last + 1, last, Watch(then)))

    def cut_by(self, cuts: tuple[Cut, ...], settled: int, later: int = 0) -> bool:
        """The peer's mark will pass `settled` (wire number), these being undelivered, all but the last
        `later` of those reported: hand each cut to the record that its publication belongs to. Call before
        `marked`. False: more than can be true."""
        self.cuts += cuts
        if len(self.cuts) > CUTS + CUTS_EACH * (self.sent - self.settled):
            self.cuts.clear()
            return False
        now = self.cuts[: max(len(self.cuts) - later, 0)]
        if not now:
            return True
        del self.cuts[: len(now)]
        named = CutIndex(now)
        for wait in self.waits:
            if wait.first > settled + self.base:
                break
            gone: dict[int, list[Publication]] = {}
            for publication in self.between(wait.first, wait.last):
                if (reason := named.reason(publication)) is not None:
                    gone.setdefault(reason, []).append(publication)
            for reason, publications in gone.items():
                wait.record.cuts += cuts_of(publications, reason)
            if self.on_cut is not None and gone:
                self._tell_cut(wait, named)
        return True

    def _tell_cut(self, wait: Wait, named: CutIndex) -> None:
        assert self.on_cut is not None
        for publication, names in self.excluding(wait.first, wait.last):
            if (reason := named.reason(publication)) is not None:
                self.on_cut(publication, names, reason)

    # --- breaks ---------------------------------------------------------------------------------

    def resume(self, received: int, window: int) -> None:
        """The same epoch goes on: send again from the position after `received` (wire number), or after what
        we know already to be received: a greeting may have been long on its way. Nobody has received what was
        never sent."""
        self.sent = max(self.received, min(self.base + received, self.sent))
        self.limit = max(self.limit, self.settled + window)
        self._rewind()

    def new_epoch(self, window: int) -> None:
        """The peer lost what it had: everything unsettled again, in order, marked as sent before."""
        sent, self.sent = self.sent, self.settled
        self.received = self.base = self.settled
        self.cuts.clear()
        self.limit = self.settled + window
        self.retained = deque(
            _resent(chunk.part(self.settled + 1, chunk.last), sent) for chunk in self.retained
        )
        self._rewind()

    def report(self, which: Callable[[Publication], bool], reason: int) -> None:
        """Of what is not settled, these count as cut although the peer may settle them yet."""
        for wait in self.waits:
            unsettled = self.between(max(wait.first, self.settled + 1), wait.last)
            wait.record.cuts += cuts_of(filter(which, unsettled), reason)

    def _rewind(self) -> None:
        self._unsent = deque(chunk for chunk in self.retained if chunk.last > self.sent)

    def between(self, first: int, last: int) -> Iterator[Publication]:
        """Retained or queued publications at these positions."""
        for chunk in self._chunks(first, last):
            yield from chunk.publications

    def excluding(self, first: int, last: int) -> Iterator[tuple[Publication, Names]]:
        """The same, each with its exclude list."""
        for chunk in self._chunks(first, last):
            for names, publications in stretches(chunk.publications, chunk.exclusions):
                for publication in publications:
                    yield publication, names

    def _chunks(self, first: int, last: int) -> Iterator[Chunk]:
        for chunk in self.retained:
            if chunk.first <= last and chunk.last >= first:
                yield chunk.part(first, last)
        if last >= self.next:
            yield Chunk(self.next, self.queue, self.ids, self.exclusions).part(first, last)

    def give_up(self, reason: int = CUT_LINK_LOST) -> None:
        """The link is lost: its positions end as cut."""
        waits, self.waits = self.waits, deque()
        for wait in waits:
            first = max(wait.first, self.settled + 1)
            lost = self.between(first, wait.last)
            wait.record.cuts += cuts_of(
                filter(self.undeliverable, lost) if self.undeliverable else lost, reason
            )
        self.forget()
        for wait in waits:
            wait.record.release()

    def forget(self) -> None:
        """Drop all that is retained; positions go on."""
        self.settled = self.sent = self.received = self.counted = self.end()
        self.next = self.settled + 1
        self._clear()
        self.retained.clear()
        self._unsent.clear()
        self.cuts.clear()


def _resent(chunk: Chunk, sent: int) -> Chunk:
    if chunk.first > sent:
        return chunk
    marked = [
        replace(p, flags=p.flags | RESENT) if position <= sent else p
        for position, p in enumerate(chunk.publications, chunk.first)
    ]
    return Chunk(chunk.first, marked, chunk.ids, chunk.exclusions)
