"""Segments change hands: join by splitting, leave, moves of a boundary, and gaps that the dead have left
(III-C).

* One step for all of it: Offer of a part, the taker fills it and makes it its own, Taken, the giver shrinks.
  It answers for the part until then. Each step may be repeated; what is lost with a link leaves two owners,
  which is harmless, and the higher id gives the part up when it sees the other's entry.
* A newcomer asks in each dimension the owner with the most work (IV-E), or one for all (III-C), to split at
  the median of what is published there (`sampling`).
* A gap in the table is taken by the owner before it, the first one by the owner after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Literal, NamedTuple

from msgspec.structs import replace

from grapevine.wire.onehop import JOINING, LEAVING, MATCHER, SERVING, Entry, Offer, Span, Split, Taken
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.onehop.boundaries import GAIN, LEAST, covered, part_to_give, row_of, wanted_moves
from overlay.onehop.cluster import Cluster
from overlay.onehop.matcher import Matching
from overlay.onehop.member import Member
from overlay.onehop.reporting import Reporting
from overlay.onehop.sampling import Sampling
from overlay.onehop.segments import interval, is_empty, is_gone, is_inside, owns, span_text
from overlay.onehop.splitting import Weighted, givers_each, givers_one
from overlay.onehop.values import BOTTOM, TOP, Interval, intersection

MOVE_S = 10.0  # between two looks at a boundary


class Given(NamedTuple):
    """Until it is taken or refused, or the link to the taker is down: filling a part may take minutes."""

    to: int
    span: Span


class Handover(Quiet):
    name = "handover"

    def __init__(
        self,
        cluster: Cluster,
        matching: Matching,
        reporting: Reporting,
        sampling: Sampling,
        placement: str,
    ) -> None:
        self.cluster, self.matching, self.reporting = cluster, matching, reporting
        self.sampling = sampling
        self.placement = placement
        self.dimensions = range(len(cluster.table.dimensions))
        self.given: dict[int, Given] = {}  # by dimension: offered and not taken yet
        self.leaving = False
        self.gone = False  # nothing is left to hand over
        self.moves = 0
        self._asked: dict[int, set[int]] = {d: set() for d in self.dimensions}  # who had nothing to give
        self._numbers = count(1)
        self._overlaps: set[tuple[int, Span]] = set()  # that were there at the last look
        self._move_at = 0.0
        self._started = False  # others have had time to say what they own
        self.join: Literal["each", "one"] = "each"

    def attach(self, core: Core) -> None:
        self.core = core
        self.settings = core.settings.onehop
        self.join = self.settings.join  # type: ignore[assignment]
        self.cluster.table_changed.append(self._table_changed)
        core.on(Split, self.on_split)
        core.on(Offer, self.on_offer)
        core.on(Taken, self.on_taken)

    def start(self, now: float) -> None:
        if not self.cluster.seeds() or self.placement == "replicate":
            self.matching.own_everything(self._used(), now)
        self._move_at = now + MOVE_S
        self.core.timers.at(now + self.settings.probe_s, self._tick)

    @property
    def own(self) -> Entry:
        return self.cluster.own

    def _entries(self) -> list[Entry]:
        """Matchers that may own something."""
        entries = self.cluster.table.entries.values()
        return [entry for entry in entries if entry.roles & MATCHER and not is_gone(entry)]

    def _tick(self, now: float) -> None:
        self._started = True
        if self.leaving:
            if not self.gone:
                self._hand_all_over(now)
        elif self.placement != "replicate":
            self._fill_gaps(now)
            self._settle_overlaps(now)
            self._ask_for_parts(now)
            if now >= self._move_at:
                self._move_at = now + MOVE_S
                self._move_boundaries(now)
        if not self.core.finished:
            self.core.timers.at(now + self.settings.probe_s, self._tick)

    # --- join ------------------------------------------------------------------------------------------

    def _used(self) -> range:
        return self.dimensions if self.placement == "partition" else range(1)

    def _ask_for_parts(self, now: float) -> None:
        """A newcomer, or one that has lost its part of a dimension."""
        lacking = [d for d in self._used() if not self.own.segments[d] and not self._taking(d)]
        if not lacking:
            return
        work: list[dict[int, float]] = [{} for _ in self.dimensions]
        for entry in self._entries():
            for d in lacking:
                if entry.segments[d] and entry.owner != self.core.id:
                    work[d][entry.owner] = self.reporting.work(entry.owner, d)
        orders = (givers_each if self.join == "each" else givers_one)(work)
        for d in lacking:
            left = [giver for giver in orders[d] if giver not in self._asked[d]]
            if not left:
                self._asked[d].clear()
                continue
            self._asked[d].add(left[0])
            if (giver := self.cluster.get(left[0])) is not None and giver.reachable:
                giver.tell(Split(d))

    def _taking(self, dimension: int) -> bool:
        return any(growth.dimension == dimension for growth in self.matching.growths)

    def on_split(self, member: Member, message: Split, now: float) -> None:
        d = message.dimension
        span = None
        if d < len(self.dimensions) and not self.leaving and d not in self.given and not self._taking(d):
            span = self._upper_half(d)
        if span is not None:
            self.given[d] = Given(member.id, span)
        member.tell(Offer(next(self._numbers), d, span))

    def _upper_half(self, dimension: int) -> Span | None:
        """Of our last segment, by publications."""
        spans = self.own.segments[dimension]
        if not spans:
            return None
        sample = [(value, weight) for value, weight in self._sample(dimension) if owns(spans[-1:], value)]
        total = sum(weight for _, weight in sample)
        return part_to_give(spans[-1], sample, total / 2, upper=True, gain=0.0)

    def _sample(self, dimension: int) -> list[Weighted]:
        """What is published; before anything was, the bounds of what is subscribed to."""
        sample = self.sampling.sample(dimension)
        return sample if len(sample) > 1 else [(value, 1.0) for value in self.matching.bounds(dimension)]

    def on_offer(self, member: Member, message: Offer, now: float) -> None:
        d, span = message.dimension, message.span
        if span is None or d >= len(self.dimensions) or is_empty(span):
            return
        if self.leaving or self._taking(d):
            member.tell(Taken(message.number, d, span, False))
            return
        self._asked[d].clear()
        owner, number = member.id, message.number

        def taken(later: float) -> None:
            self._serve(later)
            if (giver := self.cluster.get(owner)) is not None:
                giver.tell(Taken(number, d, span))

        self.matching.grow(d, span, taken, now)

    def _serve(self, now: float) -> None:
        if self.own.state == JOINING:
            self.cluster.change(replace(self.own, state=SERVING), now)
            self.core.event(now, "serving", f"{self.core.name} owns segments and is asked from now on")

    def on_taken(self, member: Member, message: Taken, now: float) -> None:
        d, span = message.dimension, message.span
        if d >= len(self.dimensions):
            return
        given = self.given.get(d)
        if given is None or given.to != member.id or given.span != span:
            return  # forgotten: there are two owners until one of them sees it
        del self.given[d]
        if message.taken and any(is_inside(span, mine) for mine in self.own.segments[d]):
            self.matching.shrink(d, span, now)
            self.moves += 1
            dimension = self.cluster.table.dimensions[d]
            text = f"{self.core.name} has given {dimension} {span_text(span)} to {member.name}"
            self.core.event(now, "segment.given", text, dimension=dimension, to=member.name)

    # --- leave ---------------------------------------------------------------------------------------------

    def leave(self, now: float) -> None:
        """Everything to the neighbours; then this matcher may end."""
        if not self.leaving:
            self.leaving = True
            self.cluster.change(replace(self.own, state=LEAVING), now)
            self._hand_all_over(now)

    def _hand_all_over(self, now: float) -> None:
        others = [e for e in self._entries() if e.owner != self.core.id and e.state == SERVING]
        nothing = not any(self.own.segments) and not self.matching.growths  # what is under way is ours soon
        if self.placement == "replicate" or not others or nothing:
            self.gone = True
            return
        for d in self.dimensions:
            for span in self.own.segments[d][:1]:
                if d not in self.given:
                    self._offer(d, span, self._beside(d, span, others), now)

    def _beside(self, dimension: int, span: Span, others: list[Entry]) -> int:
        """The owner of what lies just below, or above the first; whoever has least if there is none."""
        low, high = interval(span)
        for edge, wanted in ((1, low), (0, high)):
            for entry in others:
                if any(interval(one)[edge] == wanted for one in entry.segments[dimension]):
                    return entry.owner
        return min(others, key=lambda entry: (len(entry.segments[dimension]), entry.owner)).owner

    def _offer(self, dimension: int, span: Span, to: int, now: float) -> None:
        member = self.cluster.get(to)
        if member is not None and member.reachable:
            self.given[dimension] = Given(to, span)
            member.tell(Offer(next(self._numbers), dimension, span))

    def link_down(self, session: Session, now: float) -> None:
        for dimension, given in list(self.given.items()):
            if given.to == session.id:
                del self.given[dimension]

    # --- gaps and overlaps ----------------------------------------------------------------------------------

    def _fill_gaps(self, now: float) -> None:
        alive = [e.owner for e in self._entries() if e.state != LEAVING]
        for d in self._used():
            if self._taking(d):
                continue
            for gap in self.cluster.table.covers[d].gaps():
                if self._is_ours(d, gap, alive):
                    self.matching.grow(d, _span(gap), self._serve, now)
                    break

    def _table_changed(self, now: float) -> None:
        if not self.leaving and self.placement != "replicate":
            self._fill_gaps(now)

    def _is_ours(self, dimension: int, gap: Interval, alive: list[int]) -> bool:
        if gap == (BOTTOM, TOP):
            return self.core.id == min(alive, default=0) and self._started
        mine = [interval(span) for span in self.own.segments[dimension]]
        if gap[0] == BOTTOM:
            return any(low == gap[1] for low, _ in mine)
        return any(high == gap[0] for _, high in mine)

    def _settle_overlaps(self, now: float) -> None:
        """Of two owners of one part the higher id gives it up. Not at first sight: who has just taken a part
        sees the entry of the giver change a moment later."""
        before, self._overlaps = self._overlaps, set()
        for d, part in self._overlapping():
            if (d, part) in before:
                self.matching.shrink(d, part, now)
                return
            self._overlaps.add((d, part))

    def _overlapping(self) -> Iterator[tuple[int, Span]]:
        for d in self._used():
            for entry in self._entries():
                other = self.cluster.get(entry.owner)
                if entry.owner >= self.core.id or other is None or not other.reachable or d in self.given:
                    continue
                theirs = [interval(span) for span in entry.segments[d]]
                for both in intersection(map(interval, self.own.segments[d]), theirs):
                    yield d, _span(both)

    # --- boundaries -----------------------------------------------------------------------------------------

    def _move_boundaries(self, now: float) -> None:
        """A segment with more than twice its share of the publications gives to a neighbour."""
        for d in self._used():
            if self.own.segments[d] and d not in self.given and not self._taking(d):
                self._move_boundary(d, now)

    def _move_boundary(self, dimension: int, now: float) -> None:
        entries = {entry.owner: entry for entry in self._entries()}
        row, sample = row_of(entries.values(), dimension), self.sampling.sample(dimension)
        if not row or len(sample) < LEAST:
            return
        publications, owners = covered(row, sample), [segment.owner for segment in row]
        gain = GAIN * sum(publications) / max(1, len(set(owners)))
        for move in wanted_moves(owners, publications, self.core.id):
            to = owners[move.place + 1 if move.upper else move.place - 1]
            part = part_to_give(row[move.place].span, sample, move.publications, move.upper, gain)
            if part is not None and entries[to].state == SERVING:
                self._offer(dimension, part, to, now)
                return

    def status(self) -> Status:
        return {"moves": self.moves, "leaving": self.leaving, "offered": len(self.given)}


def _span(gap: Interval) -> Span:
    low, high = gap
    return Span(None if low == BOTTOM else low[1], None if high == TOP else high[1])
