"""Two streams of publications, one each way, with their marks: a session is one, and may have further ones.

Credit comes back when a publication is settled end to end. On a tree the links' dependencies have no cycle
and lane 0, the session itself, is enough. Where a way may come round to a link again it changes to a higher
lane before it does, and each lane has positions, marks and a window of its own (ARCHITECTURE "Lanes").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from grapevine.wire.messages import Batch, ExcludingBatch, HomeBatch, LaneBatch, LaneMarks, Marks
from matching.routes import RouteCache
from overlay.links.incoming import Incoming
from overlay.links.outgoing import Chunk, Outgoing

if TYPE_CHECKING:
    from overlay.core import Core
    from overlay.links.session import Link, Session
    from overlay.timers import Timer


MARKS_S = 0.002  # between two marks to one side, if nothing presses
LANE_SHARE = 4
PRESSING = 8  # marks leave at once when this part of the window was settled since the last


class Lane:
    """What every lane has. `session` is whose it is: itself, if this is lane 0."""

    __slots__ = (
        "core",
        "cuts_seen",
        "incoming",
        "lane_number",
        "marks_at",
        "marks_timer",
        "name",
        "out",
        "received_total",
        "routes",
        "session",
    )

    session: Session

    def __init__(self, core: Core, name: str, lane_number: int, window: int, out: Outgoing) -> None:
        self.core = core
        self.name = name
        self.lane_number = lane_number
        self.out = out
        self.incoming = Incoming(window, self.touch)
        self.cuts_seen = 0
        self.routes = RouteCache()
        self.received_total = 0
        self.marks_at = 0.0  # not before, if nothing presses
        self.marks_timer: Timer | None = None

    def touch(self) -> None:
        """Something is to leave at the end of this drain."""
        self.core.dirty[self] = None

    @property
    def flowing(self) -> bool:
        """Whether publications may be sent now."""
        return self.session.flowing

    def flush(self) -> None:
        raise AssertionError("a lane is a client's or another broker's")

    def new_epoch(self, window: int) -> None:
        """The other side lost what it had, or is met for the first time."""
        self.cuts_seen = 0
        self.incoming.new_epoch()
        self.out.new_epoch(window)

    # --- marks ----------------------------------------------------------------------------------------

    def take_marks(self, marks: Marks) -> None:
        """What the other side says of our stream: first who is cut, then how far it is settled."""
        if marks.epoch != self.session.epoch:
            return
        fresh = marks.cuts[max(0, self.cuts_seen - marks.cuts_first) :]
        if not self.out.cut_by(fresh, marks.settled, marks.cuts_open):
            self.core.refuse("cuts")
        self.cuts_seen = max(self.cuts_seen, marks.cuts_first + len(marks.cuts))
        self.incoming.cuts_taken(marks.cuts_seen)
        if not self.out.marked(marks.received, marks.settled, marks.credit):
            self.core.refuse("marks")
        if marks.cuts and (link := self.session.link) is not None:
            self.send_marks(link)  # also of those seen before: the other side may wait for it
        self.touch()

    def flush_marks(self, link: Link, flows: bool) -> None:
        """Marks that nothing will carry (`flows`: publications will) leave by themselves, but not for each
        single publication: who sends one after the other hears of several at once."""
        incoming, now = self.incoming, self.core.now
        if not incoming.moved or (flows and not incoming.cuts and not incoming.kept_moved):
            return
        if incoming.cuts or now >= self.marks_at or incoming.unacknowledged * PRESSING >= incoming.window:
            self.send_marks(link)
        elif self.marks_timer is None:
            self.marks_timer = self.core.timers.at(self.marks_at, self._marks_due)

    def _marks_due(self, now: float) -> None:
        self.marks_timer = None
        self.touch()

    def carried(self) -> None:
        """Publications leave with the marks of now."""
        self.incoming.acknowledge()
        self.marks_at = self.core.now + MARKS_S

    def send_marks(self, link: Link) -> None:
        self.marks_at = self.core.now + MARKS_S
        marks = self.incoming.marks(self.session.epoch, self.cuts_seen)
        if self.lane_number:
            marks = on_lane(marks, self.lane_number)
        self.core.out.sends.append((marks, (link.number,)))


def flush_batches(lane: Lane) -> None:
    """Send a neighbour what its credit and the link allow, and the marks that nothing else carries."""
    out, core, session = lane.out, lane.core, lane.session
    most = core.settings.links.batch_publications
    out.seal(most)
    link = session.link
    if link is None:
        if session.lost:
            out.give_up()  # a tombstone's
        return
    flows = lane.flowing and out.sendable and not (out.heavy and out.still_heavy)
    lane.flush_marks(link, flows)
    if flows:
        incoming, base = lane.incoming, out.base
        for chunk in out.take(most):
            head = (
                session.epoch,
                chunk.first - base,
                incoming.received,
                incoming.settled,
                incoming.credit,
            )
            core.out.batch(link.number, _batch(lane.lane_number, head, chunk), chunk)
            lane.carried()


def _batch(lane: int, head: tuple[int, int, int, int, int], chunk: Chunk) -> Batch:
    if chunk.ids:
        return HomeBatch(*head, chunk.publications, chunk.ids, lane)
    if lane:
        return LaneBatch(*head, chunk.publications, lane, list(chunk.exclusions))
    if chunk.exclusions:
        return ExcludingBatch(*head, chunk.publications, list(chunk.exclusions))
    return Batch(*head, chunk.publications)


def on_lane(marks: Marks, lane: int) -> LaneMarks:
    return LaneMarks(**asdict(marks), lane=lane)


def share(window: int) -> int:
    """A further lane has this part of the session's window."""
    return window // LANE_SHARE or 1


class FurtherLane(Lane):
    """A lane of a session with another broker beside the first; it exists from its first use on."""

    __slots__ = ()

    def __init__(self, session: Session, lane_number: int) -> None:
        links = session.core.settings.links
        out = Outgoing(share(links.window_bytes))
        super().__init__(session.core, session.name, lane_number, share(links.window), out)
        self.session = session

    def __repr__(self) -> str:
        return f"<lane {self.lane_number} of {self.session!r}>"

    def flush(self) -> None:
        flush_batches(self)
