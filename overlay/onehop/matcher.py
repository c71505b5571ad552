"""The matcher: holds copies, answers questions, grows and shrinks (BlueDove III-A to III-C).

* It answers for a value only if the value is in a segment of its own entry. What it is about to take is
  filled first: every home must place what meets it and say Filled; then the entry changes. So who is asked is
  complete for every home that it knows, and its answers name these.
* Questions wait in one queue for each dimension and are served round robin, one a piece of deferred work
  (III-B).
* What a question costs is reckoned from the size of the set and the matches: nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec.structs import replace

from grapevine.filters.normal import Value
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.onehop import (
    SERVING,
    Ask,
    Entry,
    Fill,
    Filled,
    LoadReport,
    Matched,
    Place,
    Placed,
    Registered,
    Remove,
    Segments,
    Span,
    Spans,
)
from matching.interface import Attributes, Matcher
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.onehop.cluster import Cluster
from overlay.onehop.effort import Effort, Meter
from overlay.onehop.member import Member
from overlay.onehop.segments import joined, owns, span_text, without
from overlay.onehop.sets import Sets
from overlay.onehop.splitting import SAMPLES
from overlay.onehop.values import ranges_of

TRIMMED = 256  # copies looked at in one piece of work


class Growth:
    """A part that is being filled; `done(now)` when it is this matcher's."""

    __slots__ = ("dimension", "done", "number", "span")

    def __init__(self, dimension: int, span: Span, number: int, done: Callable[[float], None]) -> None:
        self.dimension, self.span, self.number, self.done = dimension, span, number, done


class Matching(Quiet):
    name = "matcher"

    def __init__(self, cluster: Cluster, make: Callable[[], Matcher], effort: Effort) -> None:
        self.cluster = cluster
        self.dimensions = cluster.table.dimensions
        self.sets = Sets(self.dimensions, make)
        self.effort = effort
        self.growths: list[Growth] = []
        self.fill_number = 1  # of the last Fill sent
        self.entry_number = 1  # whoever has filled this one is complete for the entry
        self.answered = self.refused = 0
        self._queues: list[deque[tuple[Member, Ask]]] = [deque() for _ in self.dimensions]
        self._turn = 0
        self._working = False

    def attach(self, core: Core) -> None:
        self.core = core
        self.meter = Meter(len(self.dimensions))
        self.cluster.met.append(self._member_met)
        core.on(Place, self.on_place)
        core.on(Remove, self.on_remove)
        core.on(Filled, self.on_filled)
        core.on(Ask, self.on_ask)

    @property
    def entry(self) -> Entry:
        return self.cluster.own

    def own_everything(self, used: range, now: float) -> None:
        """The first matcher of a cluster, in the dimensions that are used."""
        nothing: Spans = ()
        segments = tuple((Span(),) if d in used else nothing for d in range(len(self.dimensions)))
        self.cluster.change(replace(self.entry, segments=segments, state=SERVING), now)
        self._ask_to_fill()

    # --- homes ---------------------------------------------------------------------------------------

    def _member_met(self, member: Member, now: float) -> None:
        """A dispatcher is to place what is ours."""
        if not member.is_dispatcher:
            return
        self.sets.link_up(member.id, member.incarnation)
        member.tell(Fill(self.fill_number, self.sets.segments))

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            self.sets.forget(session.id)
            self._drop_questions(session)
            self._check_growths(now)

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            self._drop_questions(session)

    def _drop_questions(self, member: Member) -> None:
        """It asks elsewhere."""
        for place, queue in enumerate(self._queues):
            if any(one is member for one, _ in queue):
                self._queues[place] = deque(waiting for waiting in queue if waiting[0] is not member)

    def on_place(self, member: Member, message: Place, now: float) -> None:
        if member.id not in self.sets.homes:
            self.core.refuse("placed by a stranger")
            return
        for placement in message.placements:
            self.sets.place(member.id, placement)
        self.core.effort_s += self.effort.placed_s * len(message.placements)
        if message.stamp:
            member.tell(Placed(message.stamp))

    def on_remove(self, member: Member, message: Remove, now: float) -> None:
        for serial in message.serials:
            self.sets.remove(member.id, serial)

    def on_filled(self, member: Member, message: Filled, now: float) -> None:
        if member.id in self.sets.homes and message.number <= self.fill_number:
            self.sets.filled(member.id, message.number, message.registration)
            self._check_growths(now)

    # --- segments --------------------------------------------------------------------------------------

    def grow(self, dimension: int, span: Span, done: Callable[[float], None], now: float) -> None:
        self.growths.append(Growth(dimension, span, self.fill_number + 1, done))
        self._ask_to_fill()
        self._check_growths(now)

    def shrink(self, dimension: int, span: Span, now: float) -> None:
        segments = list(self.entry.segments)
        segments[dimension] = joined(without(segments[dimension], span))
        self._publish(tuple(segments), now)
        self._ask_to_fill()
        self._trim()

    def _publish(self, segments: Segments, now: float) -> None:
        self.cluster.change(replace(self.entry, segments=segments), now)

    def _ask_to_fill(self) -> None:
        """Tell every home what to place here from now on."""
        self.fill_number += 1
        wanted = [list(spans) for spans in self.entry.segments]
        for growth in self.growths:
            wanted[growth.dimension].append(growth.span)
        segments = tuple(joined(spans) for spans in wanted)
        self.sets.set_segments(segments)
        for member in self.cluster.everybody():
            if member.id in self.sets.homes:
                member.tell(Fill(self.fill_number, segments))

    def _check_growths(self, now: float) -> None:
        """A part is ours when every home has filled it. Which of them can be reached does not matter: whoever
        does not answer keeps it waiting until it is back or lost."""
        for growth in list(self.growths):
            if growth in self.growths and all(h.filled >= growth.number for h in self.sets.homes.values()):
                self.growths.remove(growth)
                segments = list(self.entry.segments)
                segments[growth.dimension] = joined([*segments[growth.dimension], growth.span])
                self.entry_number = max(self.entry_number, growth.number)
                self._publish(tuple(segments), now)
                self._tell_taken(growth, now)
                growth.done(now)

    def _tell_taken(self, growth: Growth, now: float) -> None:
        dimension, span = self.dimensions[growth.dimension], growth.span
        text = f"{self.core.name} has taken {dimension} {span_text(span)}"
        self.core.event(now, "segment.taken", text, dimension=dimension, low=span.low, high=span.high)

    def _trim(self) -> None:
        """Drop what meets no segment any more, a few copies at a time."""
        waiting = deque((home, iter(list(known.copies))) for home, known in self.sets.homes.items())

        def piece(now: float) -> bool:
            while waiting:
                home, serials = waiting[0]
                if some := list(islice(serials, TRIMMED)):
                    self.sets.trim(home, some)
                    return True
                waiting.popleft()
            return False

        self.core.defer(piece)

    # --- questions --------------------------------------------------------------------------------------

    def on_ask(self, member: Member, message: Ask, now: float) -> None:
        if message.dimension >= len(self.dimensions):
            self.core.refuse("dimension")
            return
        self._queues[message.dimension].append((member, message))
        self.meter.arrive(message.dimension, len(message.attributes))
        if not self._working:
            self._working = True
            self.core.defer(self._piece)

    def _piece(self, now: float) -> bool:
        for step in range(1, len(self._queues) + 1):
            place = (self._turn + step) % len(self._queues)
            if self._queues[place]:
                self._turn = place
                self._answer(*self._queues[place].popleft(), now)
                break
        self._working = any(self._queues)
        return self._working

    def _answer(self, member: Member, ask: Ask, now: float) -> None:
        member.tell(self.match(ask))

    def match(self, ask: Ask) -> Matched:
        refused: list[int] = []
        contents = list(self._ours(ask, refused))
        matches = self.sets.match(ask.dimension, contents)
        found = sum(len(home.positions) for home in matches)
        cost_s = self.effort.of(self.sets.sizes()[ask.dimension], len(contents), found)
        self.meter.match(ask.dimension, len(ask.attributes), cost_s)
        self.core.effort_s += cost_s
        self.answered += len(contents)
        self.refused += len(refused)
        return Matched(ask.number, self.registered(), matches, refused, self.load())

    def registered(self) -> tuple[Registered, ...]:
        """The homes for which answers are complete."""
        return self.sets.registered(self.entry_number)

    def _ours(self, ask: Ask, refused: list[int]) -> Iterator[tuple[int, Attributes]]:
        name, spans = self.dimensions[ask.dimension], self.entry.segments[ask.dimension]
        for position, attributes in enumerate(ask.attributes):
            try:
                content = decode_attributes(attributes)
            except WireError:
                self.core.refuse("attributes")
                continue
            value = content.get(name)
            if owns(spans, value):
                yield position, content
            else:
                refused.append(position)

    def measure(self, window_s: float) -> LoadReport:
        """A window ends."""
        self.meter.turn(window_s)
        return self.load()

    def bounds(self, dimension: int) -> list[Value | None]:
        """Where the ranges of some copies begin."""
        name = self.dimensions[dimension]
        copies = (copy for home in self.sets.homes.values() for copy in home.copies.values())
        starts = (ranges_of(copy.filter, name) for copy in islice(copies, SAMPLES))
        return [low[1] for ranges in starts for (low, _) in ranges if low[2] == 0 and low[0]]

    def load(self) -> LoadReport:
        waiting = [sum(len(ask.attributes) for _, ask in queue) for queue in self._queues]
        return self.meter.report(waiting, self.sets.sizes(), self.effort)

    def status(self) -> Status:
        entry = self.entry
        return {
            "segments": {
                name: [[span.low, span.high] for span in spans]
                for name, spans in zip(self.dimensions, entry.segments)
            },
            "copies": dict(zip(self.dimensions, self.sets.sizes())),
            "homes": {
                self.core.names.get(home, str(home)): len(h.copies) for home, h in self.sets.homes.items()
            },
            "taking": len(self.growths),
            "answered": self.answered,
            "refused": self.refused,
        }

    def validate(self) -> None:
        self.sets.validate()
        for spans in self.entry.segments:
            assert joined(spans) == spans, spans
        for growth in self.growths:
            assert growth.number > self.entry_number or self.sets.homes, growth.number
