"""What this broker keeps for others: copies of what they have in custody, by owner.

It is freed when it is settled, not before; goes when the owner says so; or is *taken over*: then it is this
broker's own custody, in the order of its publishers' numbers, and the owner is told so should it come back.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from overlay.journal import record
from overlay.journal.bodies import Advert, CopyFreed, CopyState, Source, decode_body, decode_copy
from overlay.journal.custody import Custody, Held


class Copied:
    """Of one owner."""

    __slots__ = ("adverts", "custody", "name", "round", "taken", "taken_at")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.round = 0  # the newest that is complete
        self.custody = Custody()
        self.adverts: dict[Source, Advert] = {}
        self.taken: dict[Source, int] = {}
        self.taken_at = 0.0

    def body(self, owner: int, state: str = "kept") -> CopyState:
        marks = [(*source, sequence) for source, sequence in self.taken.items()]
        return CopyState(
            owner, self.name, self.round, list(self.adverts.values()), marks, self.taken_at, state
        )


class Copies:
    def __init__(self, own: Custody, adverts: dict[Source, Advert]) -> None:
        self.owners: dict[int, Copied] = {}
        self._own = own
        self._adverts = adverts

    @property
    def items(self) -> int:
        return sum(copied.custody.items for copied in self.owners.values())

    def of(self, owner: int) -> Copied:
        if (copied := self.owners.get(owner)) is None:
            copied = self.owners[owner] = Copied()
        return copied

    # --- the fold -----------------------------------------------------------------------------------

    def take(self, kind: int, position: int, summary: bytes) -> None:
        if kind == record.COPY:
            head = decode_copy(summary)
            custody = self.of(head.owner).custody
            for run in head.runs:
                custody.take(run.source, Held(position + run.start, run.items, run.first, run.last))
        elif kind == record.COPY_FREED:
            self._free(decode_body(summary, CopyFreed))
        else:
            self._take_state(decode_body(summary, CopyState))

    def _free(self, body: CopyFreed) -> None:
        copied = self.of(body.owner)
        for publisher, incarnation, sequence in body.marks:
            copied.custody.note((publisher, incarnation), sequence)
        if body.only:
            named = {(publisher, incarnation) for publisher, incarnation, _ in body.marks}
            for source in list(copied.custody.held):
                if source not in named:
                    copied.custody.forget(source)

    def _take_state(self, body: CopyState) -> None:
        copied = self.of(body.owner)
        copied.name = body.name
        copied.round = max(copied.round, body.round)
        copied.taken |= {(publisher, incarnation): last for publisher, incarnation, last in body.taken}
        copied.taken_at = body.taken_at
        for advert in body.adverts:
            copied.adverts[advert.publisher, advert.incarnation] = advert
        if body.state == "taken":
            self._take_over(copied)
        elif body.state == "gone":
            copied.round = 0
            copied.adverts.clear()
            for source in list(copied.custody.held):
                copied.custody.forget(source)
            if not copied.taken:
                del self.owners[body.owner]

    def _take_over(self, copied: Copied) -> None:
        """What its publisher has sent here itself meanwhile is there already, with all that is newer."""
        for source, pieces in copied.custody.held.items():
            own = self._own.held.get(source)
            for held in pieces:
                if not own or held.last < own[0].first:
                    self._own.take(source, held)
            if pieces and source in copied.adverts:
                self._adverts.setdefault(source, copied.adverts[source])
        copied.custody = Custody()
        copied.adverts.clear()

    def finish(self) -> None:
        """Everything has been read."""
        for owner, copied in list(self.owners.items()):
            copied.custody.finish()
            self.forget_adverts(copied)
            if not copied.custody.held and not copied.taken:
                del self.owners[owner]

    def forget_adverts(self, copied: Copied) -> None:
        copied.adverts = {s: advert for s, advert in copied.adverts.items() if s in copied.custody.held}

    # --- the rest -----------------------------------------------------------------------------------

    def checkpoint(self) -> Iterator[tuple[int, msgspec.Struct]]:
        for owner, copied in self.owners.items():
            yield record.COPY_STATE, copied.body(owner)
            if marks := copied.custody.marks():
                yield record.COPY_FREED, CopyFreed(owner, marks)

    def lose(self, first: int, last: int) -> list[int]:
        """These positions are not on disk, or cannot be read: the owners that are concerned. Their copies are
        not whole any more."""
        concerned = []
        for owner, copied in self.owners.items():
            if copied.custody.lose(first, last):
                copied.round = 0
                concerned.append(owner)
        return concerned

    def oldest(self) -> list[int | None]:
        return [copied.custody.oldest() for copied in self.owners.values()]
