"""A neighbour or a client as the broker knows it: one session over many links.

A link is what the driver sees: it comes up, carries frames, goes down. A session is who is at its
other end: two streams of publications with their marks, and what waits for an answer from there. A
session without a link is *suspended*; when it is given up it is *lost*.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from grapevine.wire.messages import Batch, ExcludingBatch, Marks
from matching.routes import RouteCache
from overlay.links.incoming import Incoming
from overlay.links.outgoing import Outgoing

if TYPE_CHECKING:
    from overlay.core import Core
    from overlay.gather import Gather
    from overlay.timers import Timer


MARKS_S = 0.002  # between two marks to one side, if nothing presses
PRESSING = 8  # marks leave at once when this part of the window was settled since the last


class Kind(IntEnum):
    PEER = 0
    CLIENT = 1
    ADMIN = 2
    BACKEND = 3
    SOFT = 4  # only of sessions: its links are a peer's


class Link:
    """A transport connection. `dial` is the number of the Open it answers, 0 if the other side dialled;
    `peer` is what the driver knows for certain: the authenticated key, or the address dialled."""

    __slots__ = (
        "challenged_at",
        "challenger",
        "dial",
        "heard_at",
        "kind",
        "number",
        "peer",
        "session",
        "since",
        "watched",
    )

    def __init__(self, number: int, peer: str, kind: Kind, dial: int, now: float) -> None:
        self.number = number
        self.peer = peer
        self.kind = kind
        self.dial = dial
        self.session: Session | None = None
        self.watched: Session | None = None  # whose silence ends the link
        self.challenged_at: float | None = None  # another incarnation claimed the name of who is here,
        self.challenger = 0  # this one
        self.since = self.heard_at = now


class Session:
    """What peers and clients share."""

    __slots__ = (
        "core",
        "cuts_seen",
        "epoch",
        "gathers",
        "id",
        "incarnation",
        "incoming",
        "kind",
        "link",
        "lost",
        "lost_timer",
        "marks_at",
        "marks_timer",
        "name",
        "number",
        "out",
        "round_trip_s",
        "routes",
        "sent_at",
        "writable",
    )

    def __init__(self, core: Core, kind: Kind, peer: int, name: str, window: int, out: Outgoing) -> None:
        self.core = core
        self.kind = kind
        self.id = peer
        self.name = name
        self.number = next(core.session_numbers)
        self.incarnation = 0
        self.epoch = 0
        self.link: Link | None = None
        self.out = out
        self.incoming = Incoming(window, self.touch)
        self.cuts_seen = 0
        self.gathers: dict[Gather, None] = {}
        self.routes = RouteCache()
        self.round_trip_s = 0.0
        self.lost_timer: Timer | None = None
        self.lost = False
        self.sent_at = 0.0
        self.marks_at = 0.0  # not before, if nothing presses
        self.marks_timer: Timer | None = None
        self.writable = True

    def __repr__(self) -> str:
        return f"<{self.kind.name.lower()} {self.name}{'' if self.link else ' (suspended)'}>"

    def touch(self) -> None:
        """Something is to leave at the end of this drain."""
        self.core.dirty[self] = None

    @property
    def flowing(self) -> bool:
        """Whether publications may be sent now."""
        return self.link is not None and self.writable

    def flush(self) -> None:
        raise AssertionError("a session is a peer's or a client's")

    def take_marks(self, marks: Marks) -> None:
        """What the other side says of our stream: first who is cut, then how far it is settled."""
        if marks.epoch != self.epoch:
            return
        fresh = marks.cuts[max(0, self.cuts_seen - marks.cuts_first) :]
        if not self.out.cut_by(fresh, marks.settled, marks.cuts_open):
            self.core.refuse("cuts")
        self.cuts_seen = max(self.cuts_seen, marks.cuts_first + len(marks.cuts))
        self.incoming.cuts_taken(marks.cuts_seen)
        if not self.out.marked(marks.received, marks.settled, marks.credit):
            self.core.refuse("marks")
        if marks.cuts and self.link is not None:  # also of those seen before: the other side may wait for it
            self.send_marks(self.link)
        self.touch()

    def flush_marks(self, link: Link, flows: bool) -> None:
        """Marks that nothing will carry (`flows`: publications will) leave by themselves, but not for each
        single publication: who sends one after the other hears of several at once."""
        incoming, now = self.incoming, self.core.now
        if not incoming.moved or (flows and not incoming.cuts):
            return
        if incoming.cuts or now >= self.marks_at or incoming.untold * PRESSING >= incoming.window:
            self.send_marks(link)
        elif self.marks_timer is None:
            self.marks_timer = self.core.timers.at(self.marks_at, self._marks_due)

    def _marks_due(self, now: float) -> None:
        self.marks_timer = None
        self.touch()

    def send_marks(self, link: Link) -> None:
        self.marks_at = self.core.now + MARKS_S
        self.core.out.sends.append((self.incoming.marks(self.epoch, self.cuts_seen), (link.number,)))


class Remote(Session):
    """Another broker, whatever the link to it is for."""

    __slots__ = ("addresses", "held", "received_total", "window")

    def __init__(self, core: Core, kind: Kind, broker: int, name: str) -> None:
        super().__init__(core, kind, broker, name, core.settings.links.window, Outgoing())
        self.addresses: tuple[str, ...] = ()
        self.window = 0  # what the other side takes unsettled
        self.held = False  # publications for it wait here
        self.received_total = 0

    def flush(self) -> None:
        self.out.seal(self.core.settings.links.batch_publications)
        link = self.link
        if link is None:
            return
        incoming = self.incoming
        flows = self.flowing and self.out.sendable
        self.flush_marks(link, flows)
        if flows:
            base = self.out.base
            for chunk in self.out.take(self.core.settings.links.batch_publications):
                head = (self.epoch, chunk.first - base, incoming.received, incoming.settled, incoming.credit)
                batch = (
                    ExcludingBatch(*head, chunk.publications, list(chunk.exclusions))
                    if chunk.exclusions
                    else Batch(*head, chunk.publications)
                )
                self.core.out.batch(link.number, batch, chunk)
                incoming.tell()


class Peer(Remote):
    """A neighbour on the tree. `held`: it leaves, publications for it wait for its heirs. `heir`: a move
    gives this link's place to that neighbour's, what is on it is the last."""

    __slots__ = (
        "dialled",
        "root_path",
        "ever_synced",
        "heir",
        "heirs",
        "shadows",
        "sync_number",
        "sync_pending",
        "synced_by_peer",
        "synced_by_us",
        "tables_epoch",
        "tables_received",
    )

    def __init__(self, core: Core, peer: int, name: str) -> None:
        super().__init__(core, Kind.PEER, peer, name)
        self.dialled = False  # by us: this is our parent
        self.heir: Peer | None = None
        self.heirs: tuple[int, ...] = ()  # of one that leaves: who will be our neighbours in its place
        self.root_path: tuple[int, ...] = ()
        # SyncDone (DECISIONS 11): see links/sync.py
        self.ever_synced = False  # in this incarnation of ours
        self.sync_number = 0
        self.sync_pending = 0
        self.shadows = 0
        self.tables_received = False
        self.tables_epoch = 0  # of the link on which tables were last exchanged
        self.synced_by_us = False
        self.synced_by_peer = False

    @property
    def flowing(self) -> bool:
        return self.link is not None and self.synced_by_peer and self.writable and not self.held

    @property
    def live(self) -> bool:
        """Whether what it told us still stands on its own."""
        return self.link is not None and not self.going

    @property
    def retiring(self) -> bool:
        return self.heir is not None

    @property
    def going(self) -> bool:
        """Others will tell what it has told."""
        return self.held or self.heir is not None

    def may_be_told(self, source: Session) -> bool:
        """Whether what came from `source` is to be told here: not over a link that ends, and what came over
        such a link is known behind the one in its place."""
        return self.heir is None and not (isinstance(source, Peer) and source.heir is self)

    def will_tell(self, source: Session) -> bool:
        """Whether this neighbour itself tells what came from `source`, a leaver whose place it takes."""
        return isinstance(source, Peer) and source.held and self.id in source.heirs

    def begin_sync(self) -> None:
        self.sync_number += 1
        self.end_sync()

    def end_sync(self) -> None:
        self.sync_pending = 0
        self.tables_received = self.synced_by_us = self.synced_by_peer = False
