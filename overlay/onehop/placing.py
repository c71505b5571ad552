"""The home's side: where copies of its clients' subscriptions are, and when one is confirmed (III-A).

* A matcher says by Fill which segments it has or is about to have; the home places whatever meets them and
  says Filled, and goes on placing what comes later. Only the matcher's own word counts, never gossip.
* Each time that the link to a matcher comes up the home registers anew: a number that it never gives twice,
  and everything is placed again. Answers carry the number, and a dispatcher believes an answer only if it has
  every home's, not older than the home has said.
* When the link to a matcher goes down, every dispatcher that can be reached is sent from which registration
  on the matcher counts (Avoid), and says so. A subscription is confirmed when every matcher that it meets has
  it, and every dispatcher that is not given up has said so of those that cannot be reached: one whose link is
  down is waited for (DECISIONS 4). What is confirmed later than that cannot be missed by an answer under an
  old registration; what the next registration has is complete.
* A dispatcher that comes later is sent the same when its link comes up, before it counts.
* `onehop.spares`: where all copies lie on one matcher, its neighbours get one too (III-A). They are in no set
  and nothing waits for them: whoever takes a segment is filled by the homes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from typing import NamedTuple

from grapevine.filters.normal import Filter
from grapevine.wire.onehop import (
    DISPATCHER,
    Avoid,
    Avoided,
    Fill,
    Filled,
    Place,
    Placed,
    Placement,
    Remove,
    Segments,
)
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Client
from overlay.links.session import Session
from overlay.onehop.cluster import Cluster
from overlay.onehop.member import Member
from overlay.onehop.segments import is_inside, spare_places, touches
from overlay.onehop.values import Intervals, is_broad, ranges_of

LOOKED_AT = 512  # in one piece of work
Done = Callable[[float], None]


class Local:
    """A subscription of one of this home's clients."""

    __slots__ = ("client", "done", "filter", "holders", "label", "pending", "ranges", "serial")

    def __init__(
        self, serial: int, client: Client, label: int, filter: Filter, ranges: tuple[Intervals, ...]
    ) -> None:
        self.serial, self.client, self.label, self.filter = serial, client, label, filter
        self.ranges = ranges  # by dimension
        self.holders: set[int] = set()  # matchers that were sent a copy
        self.pending: set[int] = set()  # stamps of those that have not said Placed
        self.done: list[Done] = []  # who waits for its confirmation

    def meets(self, segments: Segments) -> bool:
        return any(spans and touches(spans, ranges) for spans, ranges in zip(segments, self.ranges))

    def placement(self, spare: bool = False) -> Placement:
        return Placement(self.serial, self.client.number, self.label, self.filter, spare)


class Job(NamedTuple):
    """A Fill that is being answered: what meets these segments is placed."""

    number: int
    segments: Segments
    left: Iterator[Local]  # to be looked at


class Registration:
    """This home at one matcher."""

    __slots__ = ("ended", "jobs", "number", "pending", "segments", "up")

    def __init__(self, number: int) -> None:
        self.number = number  # of the current registration, or of the next one while the link is down
        self.up = True
        self.ended = False  # there was an earlier one here: dispatchers must know that it does not count
        self.segments: Segments = ()
        self.jobs: deque[Job] = deque()
        self.pending: dict[int, Local] = {}  # stamp -> whose Placed is waited for


class Placing(Quiet):
    name = "subscriptions"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.dimensions = cluster.table.dimensions
        self.subscriptions: dict[int, Local] = {}
        self.at: dict[int, Registration] = {}
        self.least: dict[tuple[int, int], int] = {}  # (matcher, home) -> what homes have said to us
        self.live: dict[int, int] = {}  # clients' numbers -> their subscriptions
        self.broad = 0
        self._waiting: dict[Local, None] = {}  # for their confirmation
        self._acknowledged: dict[tuple[int, int], int] = {}  # (matcher, dispatcher) -> what it has said
        self._unacknowledged: dict[int, tuple[int, int, int]] = {}  # stamp -> matcher, dispatcher, number
        self._stamps = count(1)

    def attach(self, core: Core) -> None:
        self.core = core
        self._numbers = count((core.incarnation << 20) + 1)
        self.cluster.met.append(self._member_met)
        core.on(Fill, self.on_fill)
        core.on(Placed, self.on_placed)
        core.on(Avoid, self.on_avoid)
        core.on(Avoided, self.on_avoided)

    # --- what clients want ----------------------------------------------------------------------------

    def subscribe(self, client: Client, label: int, filter: Filter, now: float) -> int:
        serial = self.core.serial()
        ranges = tuple(ranges_of(filter, name) for name in self.dimensions)
        mine = self.subscriptions[serial] = Local(serial, client, label, filter, ranges)
        self.broad += any(map(is_broad, ranges))
        self.live[client.number] = self.live.get(client.number, 0) + 1
        for matcher in self.at:
            self._place(mine, matcher)
        for matcher in self._spare_places(mine):
            self._place_some(matcher, [mine.placement(spare=True)], [mine])
        return serial

    def when_confirmed(self, serial: int, done: Done, now: float) -> None:
        mine = self.subscriptions[serial]
        mine.done.append(done)
        self._waiting[mine] = None
        self._confirm(mine, now)

    def unsubscribe(self, serial: int, now: float) -> None:
        """Whoever waits for its confirmation waits no longer."""
        mine = self.subscriptions.pop(serial)
        number = mine.client.number
        self.live[number] -= 1
        if not self.live[number]:
            del self.live[number]
        done, mine.done = mine.done, []
        for call in done:
            call(now)
        self.broad -= any(map(is_broad, mine.ranges))
        self._waiting.pop(mine, None)
        for matcher in mine.holders:
            if (registration := self.at.get(matcher)) is not None:
                for stamp in mine.pending & registration.pending.keys():
                    del registration.pending[stamp]
            if (member := self.cluster.get(matcher)) is not None:
                member.tell(Remove((serial,)))

    def _place(self, mine: Local, matcher: int) -> None:
        registration, member = self.at[matcher], self.cluster.get(matcher)
        if registration.up and member is not None and mine.meets(registration.segments):
            stamp = next(self._stamps)
            registration.pending[stamp] = mine
            mine.pending.add(stamp)
            mine.holders.add(matcher)
            member.tell(Place(stamp, [mine.placement()]))

    def _place_some(self, matcher: int, placements: list[Placement], placed: Iterable[Local]) -> None:
        """Without an answer: a Fill is answered as a whole, and nothing waits for spares."""
        registration, member = self.at.get(matcher), self.cluster.get(matcher)
        if placements and registration is not None and registration.up and member is not None:
            for mine in placed:
                mine.holders.add(matcher)
            member.tell(Place(0, placements))

    def _spare_places(self, mine: Local) -> set[int]:
        if not self.core.settings.onehop.spares:
            return set()
        covers = self.cluster.table.covers
        owners = [cover.meeting(ranges) for cover, ranges in zip(covers, mine.ranges)]
        return {candidate.matcher for candidate in spare_places(owners, covers)}

    def on_placed(self, member: Member, message: Placed, now: float) -> None:
        registration = self.at.get(member.id)
        if registration is not None and (mine := registration.pending.pop(message.stamp, None)) is not None:
            mine.pending.discard(message.stamp)
            self._confirm(mine, now)

    def _confirm(self, mine: Local, now: float) -> None:
        if mine in self._waiting and not mine.pending and not self._unsafe():
            del self._waiting[mine]
            done, mine.done = mine.done, []
            for call in done:
                call(now)

    def _confirm_all(self, now: float) -> None:
        if self._waiting and not self._unsafe():
            for mine in list(self._waiting):
                self._confirm(mine, now)

    def _unsafe(self) -> bool:
        """Whether some dispatcher may still believe a matcher under a registration that has ended."""
        dispatchers = [member.id for member in self.cluster.dispatchers()]
        return any(
            self._acknowledged.get((matcher, dispatcher), 0) < registration.number
            for matcher, registration in self.at.items()
            for dispatcher in dispatchers
            if registration.ended
        )

    # --- matchers ---------------------------------------------------------------------------------------

    def _member_met(self, member: Member, now: float) -> None:
        if member.is_dispatcher and member is not self.cluster.itself:
            self._dispatcher_met(member)
        if member.is_matcher and self.cluster.roles & DISPATCHER:
            self._matcher_met(member)

    def _matcher_met(self, member: Member) -> None:
        """Its Fill follows."""
        registration = self.at.get(member.id)
        if registration is None:
            self.at[member.id] = Registration(next(self._numbers))
        else:
            registration.up = True

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            registration = self.at.get(session.id)
            if registration is not None and registration.up:
                self._end(session.id, registration)
            self._confirm_all(now)

    def _end(self, matcher: int, registration: Registration) -> None:
        """What the matcher has is no longer kept up to date."""
        registration.up, registration.ended = False, True
        registration.number = next(self._numbers)
        registration.segments = ()
        registration.jobs.clear()
        pending, registration.pending = registration.pending, {}
        for stamp, mine in pending.items():
            mine.pending.discard(stamp)
        for member in self.cluster.dispatchers():
            if member.reachable:
                self._tell(matcher, member)

    def _tell(self, matcher: int, member: Member) -> None:
        stamp, number = next(self._stamps), self.at[matcher].number
        self._unacknowledged[stamp] = (matcher, member.id, number)
        member.tell(Avoid(stamp, matcher, number))

    def _dispatcher_met(self, member: Member) -> None:
        """Control may have been lost with its link: it hears all again, and that it was all."""
        self._unacknowledged = {
            stamp: sent for stamp, sent in self._unacknowledged.items() if sent[1] != member.id
        }
        for matcher in self.at:
            self._tell(matcher, member)
        member.tell(Avoid(0, 0, 0))

    def on_avoided(self, member: Member, message: Avoided, now: float) -> None:
        if (sent := self._unacknowledged.pop(message.stamp, None)) is not None and sent[1] == member.id:
            matcher, _, number = sent
            self._acknowledged[matcher, member.id] = max(
                self._acknowledged.get((matcher, member.id), 0), number
            )
            self._confirm_all(now)

    def on_avoid(self, member: Member, message: Avoid, now: float) -> None:
        if not message.matcher:
            member.trusted = True
            return
        key = message.matcher, member.id
        self.least[key] = max(self.least.get(key, 0), message.least)
        member.tell(Avoided(message.stamp))

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            for mine in self.subscriptions.values() if session.is_matcher else ():
                mine.holders.discard(session.id)
            self._unacknowledged = {
                stamp: sent for stamp, sent in self._unacknowledged.items() if sent[1] != session.id
            }
            self._confirm_all(now)

    def registration_at(self, matcher: int) -> int:
        """From which registration on the matcher's answers have our own clients; 0: none yet."""
        registration = self.at.get(matcher)
        return 0 if registration is None else registration.number

    # --- filling ------------------------------------------------------------------------------------------

    def on_fill(self, member: Member, message: Fill, now: float) -> None:
        registration = self.at.get(member.id)
        if registration is None or len(message.segments) != len(self.dimensions):
            self.core.refuse("fill")
            return
        before, registration.segments = registration.segments, message.segments
        added = _added(before, message.segments)
        changes = any(added) or any(_added(message.segments, before))
        # All that are there now: those that come later are placed as they come.
        looked_at = list(self.subscriptions.values()) if changes else []
        registration.jobs.append(Job(message.number, added, iter(looked_at)))
        if len(registration.jobs) == 1:
            number = registration.number
            self.core.defer(lambda later: self._piece(member, registration, number))

    def _piece(self, member: Member, registration: Registration, number: int) -> bool:
        """Place some; when none is left say so. The end of the registration ends this too."""
        if not registration.up or registration.number != number or not registration.jobs:
            return False
        job = registration.jobs[0]
        if drawn := list(islice(job.left, LOOKED_AT)):
            self._fill(member, registration, job, [one for one in drawn if one.serial in self.subscriptions])
            return True
        member.tell(Filled(job.number, number))
        registration.jobs.popleft()
        return bool(registration.jobs)

    def _fill(self, member: Member, registration: Registration, job: Job, some: list[Local]) -> None:
        """What meets the segments of the Fill; and of the rest, what is spare and what is held no longer."""
        wanted = [mine for mine in some if mine.meets(job.segments)]
        self._place_some(member.id, [mine.placement() for mine in wanted], wanted)
        spares: list[Local] = []
        removed: list[int] = []
        for mine in some:
            is_spare = member.id in self._spare_places(mine)
            if (is_spare or member.id in mine.holders) and not mine.meets(registration.segments):
                if is_spare:
                    spares.append(mine)
                else:
                    removed.append(mine.serial)
                    mine.holders.discard(member.id)
        self._place_some(member.id, [mine.placement(spare=True) for mine in spares], spares)
        if removed:
            member.tell(Remove(tuple(removed)))

    def status(self) -> Status:
        count_ = len(self.subscriptions)
        copies = sum(len(mine.holders) for mine in self.subscriptions.values())
        return {
            "count": count_,
            "copies_each": copies / count_ if count_ else 0.0,
            "broad": self.broad,
            "unconfirmed": len(self._waiting),
            "avoided": [self.core.names.get(m, str(m)) for m, r in self.at.items() if not r.up],
        }

    def validate(self) -> None:
        for registration in self.at.values():
            for stamp, mine in registration.pending.items():
                assert stamp in mine.pending and mine.serial in self.subscriptions, mine.serial
            assert registration.up or not registration.pending
        for mine in self._waiting:
            assert mine.serial in self.subscriptions and mine.done, mine.serial


def _added(before: Segments, after: Segments) -> Segments:
    """The segments that were not there before, whole."""
    if not before:
        return after
    return tuple(
        tuple(span for span in spans if not any(is_inside(span, old) for old in known))
        for spans, known in zip(after, before)
    )
