"""The publisher's dispatcher asks a matcher who is to get a publication, and sends it to their homes (III-B).

* One question for each matcher and dimension at the end of a burst; only attributes travel.
* An answer counts if it is complete for every dispatcher that counts here, under a registration not older
  than that dispatcher has said (`placing`). Otherwise, and for refused positions, another candidate is asked;
  when all were, again after a moment. Nothing is dropped: what nobody can answer waits, bounded by the
  clients' windows.
* Asking twice costs time and never a duplicate: the first answer that counts is taken. So a matcher that is
  silent for too long is passed over without knowing whether it is dead.
* A match at a home that this dispatcher has given up is told to the publisher as cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from grapevine.filters.normal import Value
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.messages import CUT_LINK_LOST, DURABLE, Publication
from grapevine.wire.onehop import Ask, Matched, Point, Registered
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Client
from overlay.links.lane import Lane
from overlay.links.session import Session
from overlay.links.settling import Settling, cuts_of
from overlay.onehop.cluster import Cluster
from overlay.onehop.member import Member
from overlay.onehop.placing import Placing
from overlay.onehop.policies import Policy, pick_matcher
from overlay.onehop.publications import OneHopPublications
from overlay.onehop.reporting import Reporting
from overlay.onehop.sampling import Sampling
from overlay.onehop.segments import Candidate
from overlay.onehop.stage import Group, Homes, Slot, Source, Stage
from overlay.onehop.values import values_of

ASKED = 256  # publications in one question: a piece of a matcher's work
AGAIN_S = 0.05
USUAL = 8.0  # times a matcher's usual answer before it is passed over


NEVER = (1 << 64) - 1  # a registration that nobody gives: we have none there yet


def has_all(registered: Iterable[Registered], needed: Iterable[Registered]) -> bool:
    found = {one.home: one.registration for one in registered}
    return all(found.get(one.home, 0) >= one.registration for one in needed)


class Question(NamedTuple):
    candidate: Candidate
    slots: list[Slot]
    at: float


class Asking(Quiet):
    name = "asking"

    def __init__(
        self,
        cluster: Cluster,
        placing: Placing,
        reporting: Reporting,
        sampling: Sampling,
        publications: OneHopPublications,
    ) -> None:
        self.cluster, self.placing, self.reporting = cluster, placing, reporting
        self.sampling, self.publications = sampling, publications
        self.dimensions = cluster.table.dimensions
        self.ordered = publications.ordered
        publications.stage = self.stage
        self.stages: dict[Source, Stage] = {}
        self.questions: dict[int, Question] = {}
        self.asked = self.again = self.rejected = 0
        self.response_s = 0.0  # mean of the last answers
        self._unanswered: dict[int, int] = {}  # publications, by matcher
        self._silent: set[int] = set()  # matchers with a question that is too old
        self._usual_s: dict[int, float] = {}
        self._queued: dict[Candidate, list[Slot]] = {}
        self._waiting: list[Slot] = []  # nobody to ask now
        self._timer_set = self._watch_set = False
        self._numbers = count(1)

    def attach(self, core: Core) -> None:
        self.core = core
        self.settings = core.settings.onehop
        self.policy: Policy = self.settings.policy  # type: ignore[assignment]
        core.on(Matched, self.on_matched)
        self.cluster.ask = self._ask
        self.cluster.table_changed.append(self._table_changed)
        self.cluster.met.append(self._member_met)

    # --- in -------------------------------------------------------------------------------------------

    def stage(self, client: Client, publications: list[Publication], record: Settling, now: float) -> None:
        """What a local client has published; `record` is held by one until all of it is released."""
        if not publications:
            record.release()
            return
        stage = self._stage((client.id, client.incarnation), client)
        group = Group(record, len(publications))
        if self.publications.keep is None:  # without a journal none is durable
            for publication in publications:
                publication.flags &= ~DURABLE
        for publication in publications:
            values = self._values(publication)
            slot = Slot(publication, values, group, stage, now)
            stage.add(slot)
            if values is None:
                slot.matches = {}
                stage.answered(slot)
            else:
                self.sampling.see(values)
                self._choose(slot, values, now)
        self._release(stage, now)

    def _values(self, publication: Publication) -> Point | None:
        """None: attributes that nobody can read match nothing."""
        try:
            return values_of(decode_attributes(publication.attributes), self.dimensions)
        except WireError:
            self.core.refuse("attributes")
            return None

    def _stage(self, source: Source, side: Lane) -> Stage:
        stage = self.stages.get(source)
        if stage is None:
            stage = self.stages[source] = Stage(source, side, self.ordered)
        return stage

    # --- out to matchers ---------------------------------------------------------------------------------

    def _choose(self, slot: Slot, values: Sequence[Value | None], now: float) -> None:
        candidates = [
            candidate
            for candidate in self.cluster.table.candidates(values)
            if candidate not in slot.tried and self._usable(candidate.matcher)
        ]
        if not candidates:
            self._wait(slot, now)
            return
        lively = [one for one in candidates if one.matcher not in self._silent]
        chosen = pick_matcher(self.policy, lively or candidates, self.reporting.loads, now, self.core.random)
        slot.tried.add(chosen)
        self._queued.setdefault(chosen, []).append(slot)
        self._count(chosen, 1, now)
        member = self.cluster.get(chosen.matcher)
        assert member is not None
        member.touch()

    def _usable(self, matcher: int) -> bool:
        member = self.cluster.get(matcher)
        if member is None or not member.reachable:
            return False
        return self._unanswered.get(matcher, 0) < self.settings.window

    def _count(self, candidate: Candidate, publications: int, now: float) -> None:
        matcher = candidate.matcher
        self._unanswered[matcher] = self._unanswered.get(matcher, 0) + publications
        self.reporting.sent(matcher, candidate.dimension, publications, now)

    def _ask(self, member: Member) -> None:
        """At the end of a burst that has chosen this matcher."""
        now = self.core.now
        for candidate in [one for one in self._queued if one.matcher == member.id]:
            slots = self._queued.pop(candidate)
            if not member.reachable:
                self._ask_again(slots, now)
                continue
            self.asked += len(slots)
            self._put(member, candidate, slots, now)
        if not self._watch_set and self.questions:
            self._watch_set = True
            self.core.timers.at(now + self.settings.hedge_s / 2, self._watch)

    def _put(self, member: Member, candidate: Candidate, slots: list[Slot], now: float) -> None:
        """The question itself."""
        for start in range(0, len(slots), ASKED):
            part = slots[start : start + ASKED]
            number = next(self._numbers)
            self.questions[number] = Question(candidate, part, now)
            member.tell(Ask(number, candidate.dimension, [slot.publication.attributes for slot in part]))

    # --- answers ----------------------------------------------------------------------------------------

    def on_matched(self, member: Member, message: Matched, now: float) -> None:
        question = self.questions.get(message.number)
        if question is None or question.candidate.matcher != member.id:
            return
        del self.questions[message.number]
        self._ended(question, now)
        self.reporting.learn(member.id, message.load, now)
        slots = question.slots
        if not self._believed(member, message.registered):
            self.rejected += len(slots)
            self._ask_again(slots, now)
            return
        refused = {position for position in message.refused if position < len(slots)}
        fresh: dict[int, Homes] = {position: {} for position in range(len(slots)) if position not in refused}
        for home in message.matches:
            for position, clients in zip(home.positions, home.clients):
                if position in fresh:
                    fresh[position][home.home] = home.incarnation, clients
        stages: dict[Stage, None] = {}
        for position, homes in fresh.items():
            slot = slots[position]
            if slot.matches is None:
                slot.matches = homes
                slot.stage.answered(slot)
                stages[slot.stage] = None
        self._ask_again([slots[position] for position in sorted(refused)], now)
        for stage in stages:
            self._release(stage, now)

    def _ended(self, question: Question, now: float) -> None:
        matcher = question.candidate.matcher
        self._unanswered[matcher] -= len(question.slots)
        took = now - question.at
        self.response_s += (took - self.response_s) / 16
        usual = self._usual_s.get(matcher, took)
        self._usual_s[matcher] = usual + (took - usual) / 8
        self._silent.discard(matcher)

    def _believed(self, member: Member, registered: Iterable[Registered]) -> bool:
        """Whether the answer has every subscription that counts for us."""
        return has_all(registered, self.needs(member))

    def needs(self, member: Member) -> tuple[Registered, ...]:
        """The homes, and under which registration at the least, whose subscriptions count for us."""
        own = self.placing.registration_at(member.id)
        needed = [Registered(self.core.id, own or NEVER)]
        for other in self.cluster.dispatchers():
            if other.counts:
                least = self.placing.least.get((member.id, other.id), 0)
                needed.append(Registered(other.id, max(least, other.incarnation << 20)))
        return tuple(needed)

    def _ask_again(self, slots: Iterable[Slot], now: float) -> None:
        for slot in slots:
            if slot.matches is None:
                self.again += 1
                self._choose(slot, slot.values or (), now)

    def _wait(self, slot: Slot, now: float) -> None:
        """All candidates were tried: a table that changes, or a moment later, gives them another chance. Is
        one of them dead that cannot be asked?"""
        self._waiting.append(slot)
        self._suspect(slot, now)
        if not self._timer_set:
            self._timer_set = True
            self.core.timers.at(now + AGAIN_S, self._again)

    def _suspect(self, slot: Slot, now: float) -> None:
        for candidate in self.cluster.table.candidates(slot.values or ()):
            member = self.cluster.get(candidate.matcher)
            if member is None or not member.reachable or candidate.matcher in self._silent:
                self.cluster.suspect(candidate.matcher, now)

    def _again(self, now: float) -> None:
        self._timer_set = False
        waiting, self._waiting = self._waiting, []
        for slot in waiting:
            slot.tried.clear()
        self._ask_again(waiting, now)

    def _table_changed(self, now: float) -> None:
        if self._waiting:
            self._again(now)

    def _watch(self, now: float) -> None:
        """Questions that are too old are asked elsewhere too; their own answers still count."""
        self._watch_set = False
        old: list[Slot] = []
        for question in self.questions.values():
            matcher = question.candidate.matcher
            patience_s = max(self.settings.hedge_s, USUAL * self._usual_s.get(matcher, 0.0))
            if now - question.at >= patience_s and matcher not in self._silent:
                self._silent.add(matcher)
            if matcher in self._silent:
                old += [slot for slot in question.slots if slot.matches is None]
        self._hedge(old, now)
        if self.questions:
            self._watch_set = True
            self.core.timers.at(now + self.settings.hedge_s / 2, self._watch)

    def _hedge(self, slots: list[Slot], now: float) -> None:
        for slot in dict.fromkeys(slots):
            others = [
                candidate
                for candidate in self.cluster.table.candidates(slot.values or ())
                if candidate not in slot.tried
                and candidate.matcher not in self._silent
                and self._usable(candidate.matcher)
            ]
            if others:
                self.again += 1
                self._choose(slot, slot.values or (), now)
            else:
                self._suspect(slot, now)

    def _member_met(self, member: Member, now: float) -> None:
        """Answers that wait for their turn and name clients of its earlier life: these are gone, but its
        streams go on under other numbers."""
        stale = [
            slot
            for stage in self.stages.values()
            for slot in stage.slots
            if slot.matches and slot.matches.get(member.id, (member.incarnation,))[0] < member.incarnation
        ]
        for slot in stale:
            slot.matches = None
            slot.tried.clear()
        self._ask_again(stale, now)

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            self._ask_again(self._forget_questions(session), now)

    def _forget_questions(self, member: Member) -> list[Slot]:
        """All that this matcher was asked or was to be asked."""
        slots: list[Slot] = []
        for number in [n for n, q in self.questions.items() if q.candidate.matcher == member.id]:
            slots += self.questions.pop(number).slots
        self._unanswered.pop(member.id, None)
        self._silent.discard(member.id)
        for candidate in [one for one in self._queued if one.matcher == member.id]:
            slots += self._queued.pop(candidate)
        return slots

    def link_lost(self, session: Session, now: float) -> None:
        """A dispatcher is given up: whether its clients were owed what is not answered yet is not known any
        more, and the publishers hear that."""
        if isinstance(session, Member) and session.counts:
            for stage in self.stages.values():
                for slot in stage.slots:
                    if slot.matches is None:
                        slot.group.record.cuts += cuts_of([slot.publication], CUT_LINK_LOST)
                        self.publications.miss((slot.publication,), session.id)

    # --- out to homes ------------------------------------------------------------------------------------

    def _release(self, stage: Stage, now: float) -> None:
        """In order, what may go; each batch's record is held by every stream that it went to."""
        slots = stage.releasable()
        start = 0
        while start < len(slots):
            group, end = slots[start].group, start
            while end < len(slots) and slots[end].group is group:
                end += 1
            run = [(slot.publication, slot.matches or {}) for slot in slots[start:end]]
            self.publications.release(stage.side, run, group.record, now)
            group.release(end - start)
            start = end
        if not stage.slots:
            self.stages.pop(stage.source, None)

    @property
    def waiting(self) -> int:
        """Publications that nobody can answer for now."""
        return len(self._waiting)

    def status(self) -> Status:
        return {
            "asked": self.asked,
            "asked_again": self.again,
            "rejected": self.rejected,
            "unanswered": sum(map(len, self.stages.values())),
            "waiting": self.waiting,
            "response_ms": 1000 * self.response_s,
        }

    def validate(self) -> None:
        for stage in self.stages.values():
            assert stage.slots, stage.source
            if self.ordered:
                assert stage.slots[0].matches is None, "an answered prefix was not released"
        counted: dict[int, int] = {}
        for question in self.questions.values():
            counted[question.candidate.matcher] = counted.get(question.candidate.matcher, 0) + len(
                question.slots
            )
        for candidate, slots in self._queued.items():
            counted[candidate.matcher] = counted.get(candidate.matcher, 0) + len(slots)
        for matcher, number in self._unanswered.items():
            assert number == counted.get(matcher, 0), matcher
        assert not self.questions or self._watch_set
        assert not self._waiting or self._timer_set
