"""When may a broker say *settled*? When everything that it sent on because of a position is settled.

One record per drain and incoming link names only the outgoing positions that this link's own
publications produced: a record over the whole drain would never settle when two brokers send to each
other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from grapevine.wire.messages import Cut, Publication

if TYPE_CHECKING:
    from overlay.links.incoming import Incoming


class Settling:
    """The positions of `incoming` up to `last` wait for `pending` outgoing streams."""

    __slots__ = ("cuts", "incoming", "last", "pending")

    def __init__(self, incoming: Incoming) -> None:
        self.incoming: Incoming | None = incoming
        self.last = 0
        self.pending = 0
        self.cuts: list[Cut] = []

    def release(self) -> None:
        self.pending -= 1
        if not self.pending and self.incoming is not None:
            self.incoming.advance()


def cuts_of(publications: Iterable[Publication], reason: int) -> list[Cut]:
    """The publications as ranges of their publishers' sequence numbers."""
    cuts: list[Cut] = []
    for publication in publications:
        last = cuts[-1] if cuts else None
        if (
            last is not None
            and last.publisher == publication.publisher
            and last.incarnation == publication.incarnation
            and last.last + 1 == publication.sequence
        ):
            cuts[-1] = Cut(last.publisher, last.incarnation, last.first, publication.sequence, reason)
        else:
            sequence = publication.sequence
            cuts.append(Cut(publication.publisher, publication.incarnation, sequence, sequence, reason))
    return cuts
