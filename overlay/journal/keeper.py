"""Copies of what others have in custody, in this broker's journal (DP-D3).

A copy counts when it is on this disk; it is freed when its owner says that it is settled, and not before. The
limits of custody are those of copies. An administrator who knows that an owner's disk is gone has it *taken
over*: the copies become this broker's custody, and stand-ins publish them, marked as sent before. Nobody
else decides that: a timer cannot tell a dead disk from a broken link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grapevine.wire import WireError, decode_publications, encode_publications
from grapevine.wire.keeping import (
    KEEP_ASK,
    KEEP_DROP,
    KEEP_FETCH,
    KEEP_FREE,
    Keep,
    KeepOrder,
    Kept,
    KeptPublisher,
    KeptUpTo,
)
from grapevine.wire.limits import KEPT_PUBLISHERS
from grapevine.wire.messages import CUT_ROTTEN, Publication
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.journal.bodies import CopyFreed, Source, encode_body
from overlay.journal.contents import Kept as Small
from overlay.journal.copied import Copied
from overlay.journal.copying import Copying
from overlay.journal.custody import Held
from overlay.journal.journal import Journal
from overlay.journal.record import COPY_FREED, COPY_STATE
from overlay.journal.regaining import advert_of, introduction
from overlay.journal.stand_in import StandIns
from overlay.links.session import Session

SWEEP_S = 60.0
PIECE_BYTES = 256 * 1024  # given back at a time


class Keeper(Quiet):
    name = "keeper"
    after = ("Journal", "Copying", "StandIns")

    def __init__(self, journal: Journal, copying: Copying, stand_ins: StandIns) -> None:
        self.journal = journal
        self.copies = journal.contents.copies
        self.copying = copying
        self.stand_ins = stand_ins
        self.taken_over = 0  # publications
        self._freed: dict[int, dict[Source, int]] = {}  # by owner, to be written
        self._refused: set[int] = set()  # owners some of whose copies are not on disk
        journal.riding(self._small)
        journal.copies_lost = self._lost

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Keep, self.on_keep)
        core.on(Kept, self.on_kept)
        core.on(KeepOrder, self.on_order)

    def start(self, now: float) -> None:
        self.core.timers.at(now + SWEEP_S, self._sweep)

    # --- kept ---------------------------------------------------------------------------------------

    def on_keep(self, peer: Session, keep: Keep, now: float) -> None:
        if keep.returned:
            self.copying.regaining.returned(peer, keep, now)
            return
        if self.journal.full or self._too_much():
            self.core.tell(Kept(keep.round, room=False), peer)
            return
        try:
            publications = decode_publications(keep.publications) if keep.publications else []
        except WireError:
            self.core.refuse("copies")
            return
        copied = self.copies.of(peer.id)
        copied.name = peer.name
        news = [publisher for publisher in keep.publishers if self._introduce(copied, publisher)]
        custody = copied.custody
        lacking = [p for p in publications if not custody.has((p.publisher, p.incarnation), p.sequence)]
        if lacking:
            self.journal.copy(peer.id, lacking)
        if keep.complete:
            copied.round = keep.round
        if news or keep.complete:
            self.journal.keep(COPY_STATE, encode_body(copied.body(peer.id)))
        link = peer.link

        def on_disk(later: float) -> None:
            if peer.id in self._refused:
                self._refused.discard(peer.id)
                self.core.tell(Kept(keep.round, room=False), peer)
            elif peer.link is link and link is not None:
                self.core.send(Kept(keep.round, keep.position, keep.complete), link)

        self.journal.when_kept(self.journal.next - 1, on_disk)

    def _introduce(self, copied: Copied, publisher: KeptPublisher) -> bool:
        advert = advert_of(publisher)
        source = publisher.publisher, publisher.incarnation
        if copied.adverts.get(source) == advert:
            return False
        copied.adverts[source] = advert
        return True

    def _too_much(self) -> bool:
        return self.copies.items * self.journal.average_bytes > self.core.settings.journal.custody_bytes

    def _lost(self, owners: list[int], reason: int) -> None:
        """Not on disk, or not readable: the owner gives them once more."""
        self._refused.update(owners)
        if reason == CUT_ROTTEN:
            for owner in owners:
                if (peer := self.core.peers.get(owner)) is not None:
                    self._refused.discard(owner)
                    self.core.tell(Kept(0, room=False), peer)

    def on_kept(self, peer: Session, kept: Kept, now: float) -> None:
        self.copying.acknowledged(peer, kept, now)

    # --- what an owner orders -------------------------------------------------------------------------

    def on_order(self, peer: Session, order: KeepOrder, now: float) -> None:
        if order.order == KEEP_ASK:
            self.core.tell(self._answer(peer.id), peer)
        elif order.order == KEEP_FREE:
            self._free(peer.id, order)
        elif order.order == KEEP_DROP:
            self.drop(peer.id)
        elif order.order == KEEP_FETCH:
            self._give_back(peer, order.position)

    def _answer(self, owner: int) -> Kept:
        copied = self.copies.owners.get(owner)
        if copied is None:
            return Kept(0, answers=True)
        return Kept(copied.round, answers=True, items=copied.custody.items)

    def taken_of(self, owner: int) -> list[KeptUpTo]:
        """What was taken over, and whether anything of it is under way."""
        copied = self.copies.owners.get(owner)
        taken = copied.taken.items() if copied is not None else ()
        found = [KeptUpTo(*source, last, self._done(source, last)) for source, last in taken]
        return found[:KEPT_PUBLISHERS]

    def _done(self, source: Source, last: int) -> bool:
        pieces = self.journal.contents.custody.held.get(source)
        return not pieces or pieces[0].first > last

    def _free(self, owner: int, order: KeepOrder) -> None:
        if (copied := self.copies.owners.get(owner)) is None:
            return
        marks = {(one.publisher, one.incarnation): one.sequence for one in order.settled}
        for source, sequence in marks.items():
            copied.custody.settle(source, sequence)
        if order.only:
            body = CopyFreed(owner, [(*source, sequence) for source, sequence in marks.items()], True)
            self.journal.keep(COPY_FREED, encode_body(body))
            copied.custody.finish()
        else:
            self._freed.setdefault(owner, {}).update(marks)
            self.journal.ride(self.core.now)
        self.copies.forget_adverts(copied)

    def _small(self) -> Iterator[Small]:
        freed, self._freed = self._freed, {}
        for owner, marks in freed.items():
            body = CopyFreed(owner, [(*source, sequence) for source, sequence in marks.items()])
            yield Small(COPY_FREED, encode_body(body))

    def drop(self, owner: int) -> None:
        if (copied := self.copies.owners.get(owner)) is not None:
            self._freed.pop(owner, None)
            self.journal.keep(COPY_STATE, encode_body(copied.body(owner, "gone")))

    def _give_back(self, peer: Session, behind: int) -> None:
        """The next of what is kept, in the order of this journal."""
        copied = self.copies.owners.get(peer.id)
        pieces = sorted(_pieces(copied, behind)) if copied is not None else []
        publications: list[Publication] = []
        sources: dict[Source, None] = {}
        size, last = 0, behind
        for position, held, source in pieces:
            if size > PIECE_BYTES:
                break
            found = [p for read in self._read(held) for p in read]
            size += sum(len(p.payload) + len(p.attributes) for p in found)
            publications += found
            sources[source] = None
            last = position
        told = tuple(
            introduction(copied.adverts[source])
            for source in sources
            if copied is not None and source in copied.adverts
        )
        complete = not pieces or last == pieces[-1][0]
        encoded = bytes(encode_publications(publications))
        self.core.tell(Keep(0, last, encoded, told, complete, returned=True), peer)

    def _read(self, held: Held) -> Iterator[list[Publication]]:
        for read in self.journal.reader.read(held.position, held.items):
            if read.publications is not None:
                yield read.publications

    # --- taken over -----------------------------------------------------------------------------------

    def kept_for(self, owner: int) -> Copied | None:
        return self.copies.owners.get(owner)

    def alive(self, owner: int) -> bool:
        """Whether its owner is there."""
        peer = self.core.peers.get(owner)
        return owner == self.core.id or (peer is not None and peer.link is not None)

    def take_over(self, owner: int, now: float) -> int:
        """Its disk is gone, somebody says who knows: publish what is here. How much that is."""
        copied = self.copies.owners[owner]
        items, sources = copied.custody.items, list(copied.custody.held)
        taken = {source: pieces[-1].last for source, pieces in copied.custody.held.items() if pieces}
        copied.taken |= taken
        copied.taken_at = now
        self._freed.pop(owner, None)
        name = copied.name
        position = self.journal.keep(COPY_STATE, encode_body(copied.body(owner, "taken")))
        self.taken_over += items
        self.journal.when_kept(position, lambda later: self._publish(sources, later))
        text = f"{name} is given up: its custody of {items} publications is published from here"
        self.core.event(now, "copies.taken", text, "warn", broker=name, publications=items)
        return items

    def _publish(self, sources: Iterable[Source], now: float) -> None:
        for source in sources:
            if source in self.journal.contents.custody.held and not self.copying.holding.sends(source):
                self.stand_ins.take_up(source, now)
        self.copying.renew()

    # --- limits ---------------------------------------------------------------------------------------

    def _sweep(self, now: float) -> None:
        """What was taken over is remembered as long as custody may last."""
        oldest = now - self.core.settings.journal.custody_s
        for owner, copied in list(self.copies.owners.items()):
            if copied.taken and copied.taken_at < oldest:
                copied.taken.clear()
            if not copied.custody.held and not copied.taken and not self.alive(owner):
                self.journal.keep(COPY_STATE, encode_body(copied.body(owner, "gone")))
        self.core.timers.at(now + SWEEP_S, self._sweep)

    def status(self) -> Status:
        rows = [
            {"owner": copied.name, "publications": copied.custody.items, "complete": copied.round > 0}
            for copied in self.copies.owners.values()
            if copied.custody.items
        ]
        return {"owners": rows, "taken_over": self.taken_over}


def _pieces(copied: Copied, behind: int) -> Iterator[tuple[int, Held, Source]]:
    for source, pieces in copied.custody.held.items():
        for held in pieces:
            if held.position > behind:
                yield held.position, held, source
