"""DECISIONS 16: publishers that are recognised when they run again, also after this broker has restarted.

A writer that gives its own incarnation and sequence numbers asks for its numbers to be kept. From then on the
highest settled one is its *mark*: what comes again up to there counts as settled at once. The mark moves in
memory and is on disk when NumbersNoted says so; also when its writer's link breaks, and every second while
marks move: a broker that is killed soon after its writer was still knows how far that came. There is a bound,
and an age; the longest unused go first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from grapevine.wire.feeding import NoteNumbers, NumbersNoted
from grapevine.wire.messages import Publication, Publish
from overlay.behaviour import Quiet, Status
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.client import Client
from overlay.links.session import Session
from overlay.settings import CoreSettings, FeedingSettings

Source = tuple[int, int]  # (publisher, incarnation)
NOTE_S = 1.0  # marks that have moved are on disk after this


class Mark(msgspec.Struct, array_like=True, gc=False):
    publisher: int
    incarnation: int
    sequence: int  # everything up to it is settled
    used_at: float  # seconds since 1970


class Numbers(Quiet):
    after = ("Publications", "Planes")
    name = keeps = "numbers"

    def __init__(self, settings: FeedingSettings, attachments: Attachments) -> None:
        self.settings = settings
        self.marks: dict[Source, Mark] = {}
        self.repeated = 0  # publications that were settled before
        # Of those attached: (position, sequence number at it) of what is not settled yet.
        self._unsettled: dict[Session, deque[tuple[int, int]]] = {}
        self._moved: dict[Source, None] = {}  # since the last note
        attachments.drained.add(self, self._flushed)

    def attach(self, core: Core) -> None:
        self.core = core
        self._accept = core.accept.wrap(self, self.accept)
        core.on(NoteNumbers, self.on_note)

    def restore(self, rows: Mapping[str, bytes]) -> None:
        marks = [msgspec.json.decode(row, type=Mark) for row in rows.values()]
        for mark in sorted(marks, key=lambda mark: mark.used_at):
            self.marks[mark.publisher, mark.incarnation] = mark

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        self.settings = self.core.settings.feeding

    def accept(self, client: Session, batch: Publish, repeated: int, now: float) -> None:
        """In the data path: one look-up for who keeps no numbers."""
        mark = self.marks.get((client.id, client.incarnation))
        if mark is not None and len(batch.publications) > repeated:
            publications = batch.publications
            if publications[repeated].sequence <= mark.sequence:
                fresh = _first_after(publications, mark.sequence, repeated)
                self.repeated += fresh - repeated
                repeated = fresh
            waits = self._unsettled.setdefault(client, deque())
            waits.append((client.incoming.received, publications[-1].sequence))
        self._accept(client, batch, repeated, now)

    def _flushed(self, client: Client) -> None:
        """After each drain that touched a client: its mark follows what is settled."""
        waits = self._unsettled.get(client)
        if not waits:
            return
        mark = self.marks.get((client.id, client.incarnation))
        settled = client.incoming.settled
        while waits and waits[0][0] <= settled:
            _, sequence = waits.popleft()
            if mark is not None and sequence > mark.sequence:
                mark.sequence = sequence
                if not self._moved:
                    self.core.timers.at(self.core.now + NOTE_S, self._note)
                self._moved[mark.publisher, mark.incarnation] = None

    def _note(self, now: float) -> None:
        moved, self._moved = self._moved, {}
        for source in moved:
            self._write(source)

    def _write(self, source: Source) -> None:
        """As it is now; one that was forgotten ends."""
        self.core.keep(self.keeps, f"{source[0]} {source[1]}", self.marks.get(source))

    def on_note(self, client: Client, message: NoteNumbers, now: float) -> None:
        source = message.publisher, message.incarnation
        mark = self.marks.pop(source, None) or Mark(*source, 0, now)
        mark.used_at = now
        self.marks[source] = mark  # the longest unused comes first
        self._forget_old(now)
        self._note(now)
        self._write(source)
        self.core.tell(NumbersNoted(message.request, mark.sequence), client)

    def _forget_old(self, now: float) -> None:
        oldest = now - self.settings.keep_s
        for source, mark in list(self.marks.items()):
            if mark.used_at >= oldest and len(self.marks) <= self.settings.publishers:
                break
            del self.marks[source]
            self._write(source)

    def link_down(self, session: Session, now: float) -> None:
        if session in self._unsettled:
            self._note(now)

    def link_lost(self, session: Session, now: float) -> None:
        self._unsettled.pop(session, None)

    def status(self) -> Status:
        return {"publishers": len(self.marks), "repeated": self.repeated}

    def validate(self) -> None:
        assert len(self.marks) <= self.settings.publishers + 1
        for client, waits in self._unsettled.items():
            assert not client.lost, client
            assert list(waits) == sorted(waits), client


def _first_after(publications: list[Publication], sequence: int, low: int) -> int:
    """The index of the first publication after this sequence number; not every client counts upwards."""
    for index in range(low, len(publications)):
        if publications[index].sequence > sequence:
            return index
    return len(publications)
