"""A neighbour or a client as the broker knows it: one session over many links.

A link is what the driver sees: it comes up, carries frames, goes down. A session is who is at its
other end: two streams of publications with their marks, and what waits for an answer from there. A
session without a link is *suspended*; when it is given up it is *lost*.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from grapevine.wire.messages import PROTOCOL_OLDEST, Marks, Message, Resume
from overlay.links.lane import FurtherLane, Lane, flush_batches, share
from overlay.links.outgoing import Outgoing

if TYPE_CHECKING:
    from overlay.core import Core
    from overlay.gather import Gather
    from overlay.timers import Timer

LANES = 64  # of one session; a neighbour that names a higher one is wrong


class Kind(IntEnum):
    PEER = 0
    CLIENT = 1
    ADMIN = 2
    BESIDE = 3  # links to one broker that has a role
    SOFT = 4  # only of sessions: its links are a peer's


class Link:
    """A transport connection. `dial` is the number of the Open it answers, 0 if the other side dialled;
    `peer` is what the driver knows for certain: the authenticated key, or the address dialled."""

    __slots__ = (
        "address",
        "answered",
        "challenged_at",
        "challenger",
        "dial",
        "heard_at",
        "kind",
        "number",
        "peer",
        "protocol",
        "session",
        "since",
        "watched",
    )

    def __init__(self, number: int, peer: str, kind: Kind, dial: int, now: float) -> None:
        self.number = number
        self.peer = peer
        self.kind = kind
        self.dial = dial
        self.protocol = PROTOCOL_OLDEST  # what both sides speak, once the other has said what it does
        self.session: Session | None = None
        self.watched: Session | None = None  # whose silence ends the link
        self.challenged_at: float | None = None  # another incarnation claimed the name of who is here,
        self.challenger = 0  # this one
        self.answered = 0.0  # when the last ping was sent that the other side has answered
        self.since = self.heard_at = now
        self.address = ""  # where the other side is, if the driver knows

    def agree(self, ours: int, theirs: int) -> None:
        """Both sides have said the newest protocol that they speak; who is too old is still told so."""
        self.protocol = max(PROTOCOL_OLDEST, min(ours, theirs))


class Session(Lane):
    """What peers and clients share; the session itself is its lane 0."""

    __slots__ = (
        "epoch",
        "gathers",
        "id",
        "incarnation",
        "kind",
        "link",
        "lost",
        "lost_timer",
        "number",
        "round_trip_s",
        "sent_at",
        "writable",
    )

    def __init__(self, core: Core, kind: Kind, peer: int, name: str, window: int, out: Outgoing) -> None:
        super().__init__(core, name, 0, window, out)
        self.session = self
        self.kind = kind
        self.id = peer
        self.number = next(core.session_numbers)
        self.incarnation = 0
        self.epoch = 0
        self.link: Link | None = None
        self.gathers: dict[Gather, None] = {}
        self.round_trip_s = 0.0
        self.lost_timer: Timer | None = None
        self.lost = False
        self.sent_at = 0.0
        self.writable = True

    def __repr__(self) -> str:
        return f"<{self.kind.name.lower()} {self.name}{'' if self.link else ' (suspended)'}>"

    @property
    def flowing(self) -> bool:
        return self.link is not None and self.writable

    def speaks(self, message: type[Message]) -> bool:
        """Whether the other side knows such a message; nothing newer is sent (`Core.send`), so who depends
        on an answer asks before."""
        return self.link is not None and message.gate.since <= self.link.protocol

    def lane(self, number: int) -> Lane | None:
        """None: there is no such lane here."""
        return self if not number else None

    def every_lane(self) -> tuple[Lane, ...]:
        return (self,)


class Remote(Session):
    """Another broker, whatever the link to it is for."""

    __slots__ = ("addresses", "dialled", "greeted", "lanes", "paused", "window")

    def __init__(self, core: Core, kind: Kind, broker: int, name: str) -> None:
        super().__init__(
            core, kind, broker, name, core.settings.links.window, Outgoing(core.settings.links.window_bytes)
        )
        self.addresses: tuple[str, ...] = ()
        self.dialled = False  # by us
        self.greeted = 0  # the newest greeting of its dials that was taken: numbers rise within a life
        self.window = 0  # what the other side takes unsettled
        self.paused = False  # nothing is sent to it; publications for it wait here
        self.lanes: dict[int, FurtherLane] = {}

    def flush(self) -> None:
        flush_batches(self)

    @property
    def synced(self) -> bool:
        """Whether the other side is ready for publications."""
        return True

    @property
    def going(self) -> bool:
        """Whether others are about to take its place."""
        return self.paused

    @property
    def retiring(self) -> bool:
        """Whether another link has taken the place of this one."""
        return False

    @property
    def connected(self) -> bool:
        """Whether what one side accepts now is owed on the other."""
        return self.link is not None

    # --- lanes ----------------------------------------------------------------------------------------

    def lane(self, number: int) -> Lane | None:
        if not number:
            return self
        if (lane := self.lanes.get(number)) is None and number < LANES:
            lane = self.lanes[number] = FurtherLane(self, number)
            lane.out.new_epoch(share(self.window))
        return lane

    def every_lane(self) -> tuple[Lane, ...]:
        return (self, *self.lanes.values()) if self.lanes else (self,)

    def window_of(self, lane: Lane) -> int:
        """What the other side takes unsettled on it."""
        return self.window if lane is self else share(self.window)

    # --- epochs ---------------------------------------------------------------------------------------

    def begin_epoch(self, epoch: int) -> None:
        """One of the two sides has restarted, or they meet for the first time."""
        self.epoch = epoch
        self.new_epoch(self.window)
        for lane in self.lanes.values():
            lane.new_epoch(share(self.window))

    def resume_state(self) -> tuple[Resume, tuple[tuple[int, Resume], ...]]:
        """What we still know of the epoch: of this lane, and of the others."""
        others = ((number, lane.incoming.resume(self.epoch)) for number, lane in self.lanes.items())
        return self.incoming.resume(self.epoch), tuple(others)

    def resume(self, first: Resume, others: tuple[tuple[int, Resume], ...]) -> None:
        """Both sides are alive: the epoch goes on after what was received. A lane of which the other side
        says nothing has received nothing there."""
        known = dict(others)
        nothing = Resume(first.epoch, 0, 0)
        for number in {*known, *self.lanes}:
            if (lane := self.lane(number)) is not None and number:
                _resume(lane, known.get(number, nothing), share(self.window))
        _resume(self, first, self.window)


def _resume(lane: Lane, resume: Resume, window: int) -> None:
    credit, cuts = resume.settled + window, (resume.cuts, resume.cuts_first)
    lane.take_marks(
        Marks(resume.epoch, resume.received, resume.settled, credit, 0, *cuts, 0, resume.cuts_open)
    )
    lane.out.resume(resume.received, window)
    lane.incoming.moved = False
    lane.incoming.mark()
