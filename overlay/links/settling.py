"""When may a broker say *settled*? When everything that it sent on because of a position is settled.

One record per drain and incoming link names only the outgoing positions that this link's own
publications produced: a record over the whole drain would never settle when two brokers send to each
other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from grapevine.wire.messages import Cut, Publication

if TYPE_CHECKING:
    from overlay.links.incoming import Incoming


class Settling:
    """The positions of `incoming` up to `last` wait for `pending` outgoing streams."""

    __slots__ = ("cuts", "incoming", "last", "pending")
    again = False  # whether its publications are sent once more, the oldest first (journal/stranded.py)

    def __init__(self, incoming: Incoming | None) -> None:
        self.incoming = incoming
        self.last = 0
        self.pending = 0
        self.cuts: list[Cut] = []

    parked = False  # whether nothing of it is under way, and it only waits to be sent again
    lasting = False  # whether what waits under it goes on although who sent it is gone

    @property
    def dropped(self) -> bool:
        """Whether who sent it is gone, and sends it again itself if it must be."""
        return self.incoming is None and not self.lasting

    def release(self) -> None:
        self.pending -= 1
        if not self.pending and self.incoming is not None:
            self.incoming.advance()


class Watch(Settling):
    """Waits for positions on behalf of nobody's publications: `then` is called when they are settled."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__(None)
        self._then = then

    def release(self) -> None:
        self._then()


def cuts_of(publications: Iterable[Publication], reason: int) -> list[Cut]:
    """The publications as ranges of their publishers' sequence numbers."""
    cuts: list[Cut] = []
    places: dict[tuple[int, int], int] = {}  # of each publisher's last range: publishers take turns
    for publication in publications:
        publisher, incarnation, sequence = (
            publication.publisher,
            publication.incarnation,
            publication.sequence,
        )
        place = places.get((publisher, incarnation))
        if place is not None and cuts[place].last + 1 == sequence:
            cuts[place] = Cut(publisher, incarnation, cuts[place].first, sequence, reason)
        else:
            places[publisher, incarnation] = len(cuts)
            cuts.append(Cut(publisher, incarnation, sequence, sequence, reason))
    return cuts


def common(cuts: Iterable[Cut], ranges: list[Cut]) -> list[Cut]:
    """What of the cuts is in these ranges of the same publisher."""
    both = ((cut, max(cut.first, r.first), min(cut.last, r.last)) for cut in cuts for r in ranges)
    return [Cut(cut.publisher, cut.incarnation, a, b, cut.reason) for cut, a, b in both if a <= b]


class CutIndex:
    """Which publications some cuts name. A frame may list thousands, and a window holds thousands."""

    __slots__ = ("_ranges",)

    def __init__(self, cuts: Iterable[Cut]) -> None:
        # By publisher: where each range begins, and of all that begin no later the one that ends last.
        self._ranges: dict[tuple[int, int], tuple[list[int], list[Cut]]] = {}
        for cut in sorted(cuts, key=lambda cut: cut.first):
            begins, widest = self._ranges.setdefault((cut.publisher, cut.incarnation), ([], []))
            begins.append(cut.first)
            widest.append(cut if not widest or cut.last > widest[-1].last else widest[-1])

    def reason(self, publication: Publication) -> int | None:
        """Why it is cut; None: it is not."""
        ranges = self._ranges.get((publication.publisher, publication.incarnation))
        if ranges is None:
            return None
        place = bisect_right(ranges[0], publication.sequence) - 1
        if place < 0 or ranges[1][place].last < publication.sequence:
            return None
        return ranges[1][place].reason
