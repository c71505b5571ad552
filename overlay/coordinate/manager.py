"""The reconfiguration manager (DYNATOPS 5): reports, the reconfigurability test, the search, the five steps.

It is one broker of the ring, by its role. Every `report_s` it asks all brokers what they want and what they
have sent; every `every_s` it looks whether other positions would save more than they cost, and if so leads
everybody through a reconfiguration (attempt.py). What it must not forget is on its disk before it is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from grapevine.wire.chord import RingNode
from grapevine.wire.reconfiguration import (
    RcfgAbort,
    RcfgDone,
    RcfgFinish,
    RcfgInit,
    RcfgOverlay,
    RcfgPubsub,
    Version,
)
from overlay.administration.census import Census
from overlay.behaviour import Quiet, Status
from overlay.chord.participation import NAMES, Participation, Step
from overlay.chord.planes import Planes
from overlay.coordinate.attempt import Attempt, Kept
from overlay.coordinate.interests import QUESTION, Survey
from overlay.coordinate.planning import Proposal, search
from overlay.core import Core
from overlay.links.session import Session
from overlay.settings import ReconfigurationSettings

LOOK_S = 0.2
RUNNING = "running"  # the key of the row on disk
PAPER, OFF = "paper", "off"


class Manager(Quiet):
    name = "manager"
    keeps = "reconfiguration"
    after = ("Participation",)

    def __init__(
        self,
        settings: ReconfigurationSettings,
        planes: Planes,
        participation: Participation,
        census: Census,
    ) -> None:
        self.settings, self.planes, self.census = settings, planes, census
        self.participation = participation
        self.contacts = planes.contacts
        self.survey = Survey(settings.alpha)
        self.attempt: Attempt | None = None
        self.last: dict[str, Any] | None = None  # of attempts that are over
        self.proposal: Proposal | None = None
        self.computing = False
        self.asked_at = 0.0
        self._numbers = 0
        self._restored: Kept | None = None
        participation.manage = self._done
        self.contacts.on_died.append(self._died)

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(RcfgDone, self.on_done)

    def restore(self, rows: Mapping[str, bytes]) -> None:
        if RUNNING in rows:
            self._restored = msgspec.json.decode(rows[RUNNING], type=Kept)

    def start(self, now: float) -> None:
        self._tested_at = now
        if self._restored is not None:
            self.attempt = Attempt.again(self._restored, now)
            self._event(now, f"taken up again: {NAMES[self.attempt.step.kind]}")
            self._say_all(now)
        self._again(now)

    def _again(self, now: float) -> None:
        if self.attempt is not None:
            self._look(self.attempt, now)
        elif self.planes.membership.member:
            self._survey(now)
        self.core.timers.at(now + LOOK_S, self._again)

    # --- reports and the search -------------------------------------------------------------------------

    def _survey(self, now: float) -> None:
        settings = self.settings
        if now - self.asked_at >= settings.report_s or not self.asked_at:
            self.ask(now)
        if settings.rule == PAPER and now - self._tested_at >= settings.every_s:
            self._tested_at = now
            self.survey.end_period()
            if not self.unfit(now, settings.calm_s):
                self.plan(now, apply=True)

    def ask(self, now: float) -> None:
        self.asked_at = now
        self.census.ask(
            QUESTION, None, now, self.survey.take, deadline_s=max(self.settings.report_s / 2, 1.0)
        )

    def plan_afresh(self, now: float) -> None:
        """Ask everybody, then search."""
        if self.computing or self.attempt is not None:
            return
        self.computing, self.proposal = True, None
        self.asked_at = now

        def asked(reports: list[dict[str, Any]], later: float) -> None:
            self.survey.take(reports, later)
            self.computing = False
            if not self.unfit(later):
                self.plan(later)

        self.census.ask(QUESTION, None, now, asked)

    def plan(self, now: float, apply: bool = False) -> None:
        """Search in slices; `apply`: and go, if it pays."""
        if self.computing or self.attempt is not None:
            return
        self.computing = True
        slices = search(self.survey, self.settings, self.planes.settings.base)

        def piece(later: float) -> bool:
            try:
                next(slices)
            except StopIteration as end:
                self.computing = False
                self._found(end.value, apply, later)
                return False
            return True

        self.core.defer(piece)

    def _found(self, proposal: Proposal, apply: bool, now: float) -> None:
        self.proposal = proposal
        if apply and proposal.worth and proposal.plan.pays:
            self.begin(proposal, now)

    # --- the steps --------------------------------------------------------------------------------------

    def unfit(self, now: float, calm_s: float = 0.0) -> str:
        """An operator need not wait until nobody has come or gone for long; the manager does."""
        if self.attempt is not None:
            return "a reconfiguration is running"
        return self.survey.unfit(now, calm_s)

    def begin(self, proposal: Proposal, now: float) -> str:
        """Why not; empty: it has begun."""
        refusal = self.unfit(now)
        if not refusal and tuple(self.survey.nodes()) != proposal.nodes:
            refusal = "the ring has changed since it was planned"
        if not refusal and not proposal.moves:
            refusal = "every broker is where it should be"
        if not refusal:
            self._numbers += 1
            version = Version(self.core.id, self.core.incarnation, self._numbers)
            plane = self.planes.current.number + 1
            self.attempt = Attempt(version, plane, proposal.nodes, proposal.target(), now)
            self.proposal = None
            self._keep(self.attempt)
            self._event(now, f"begins: {len(proposal.moves)} of {len(proposal.nodes)} brokers move")
            self._say_all(now)
        return refusal

    def _keep(self, attempt: Attempt) -> None:
        self.core.keep(self.keeps, RUNNING, attempt.kept())

    def _say_all(self, now: float) -> None:
        assert self.attempt is not None
        for broker in sorted(self.attempt.waiting):
            self._say(self.attempt, broker, now)

    def _say(self, attempt: Attempt, broker: int, now: float) -> None:
        message = attempt.message(broker, self.planes.settings.successors, self.planes.settings.base)
        node = attempt.nodes[broker]
        if broker == self.core.id:
            self.core.timers.at(now, lambda later: self._to_ourselves(message, later))
        elif not self.contacts.tell(node, message):
            self.contacts.want(node, now)
        else:
            attempt.messages += 1

    def _to_ourselves(self, message: Step, now: float) -> None:
        self.participation.take(message, now)

    def link_up(self, session: Session, now: float) -> None:
        """What was on its way when a link broke may be lost."""
        if self.attempt is not None and session.id in self.attempt.waiting:
            self._say(self.attempt, session.id, now)

    def on_done(self, session: Session, done: RcfgDone, now: float) -> None:
        attempt = self.attempt
        if attempt is not None and done.version == attempt.version:
            if self.contacts.session(attempt.nodes.get(session.id, self.planes.membership.me)) is session:
                self._take(attempt, session.id, done, now)
        elif done.step in (RcfgPubsub.kind, RcfgOverlay.kind, RcfgInit.kind) and not done.refusal:
            # Of an attempt that is over: had it been decided, this broker would not have been left behind.
            if done.version.manager == self.core.id:
                self.core.tell(RcfgAbort(done.version), session)

    def _done(self, done: RcfgDone, now: float) -> None:
        """Our own part of it."""
        if self.attempt is not None:
            self._take(self.attempt, self.core.id, done, now)

    def _take(self, attempt: Attempt, broker: int, done: RcfgDone, now: float) -> None:
        if reason := attempt.answered(broker, done):
            self.abort(reason, now)
        elif done.step < attempt.step.kind and broker in attempt.waiting:
            self._say(attempt, broker, now)  # it repeats the step before: it has not heard of this one
        else:
            self._look(attempt, now)

    def _look(self, attempt: Attempt, now: float) -> None:
        """Go on when nobody is waited for; give up what takes too long, as long as it may be given up."""
        self._give_up_the_lost(attempt, now)
        if not attempt.over and now - attempt.since > self.settings.step_s:
            names = ", ".join(sorted(attempt.nodes[broker].name for broker in attempt.waiting)[:3])
            self.abort(f"{names}: no answer to {NAMES[attempt.step.kind]} in {self.settings.step_s:g} s", now)
        elif not attempt.waiting:
            self._turn(attempt, now)

    def _give_up_the_lost(self, attempt: Attempt, now: float) -> None:
        """Once it only goes forward, or back: who has restarted has no plane to finish or to drop."""
        for broker in sorted(attempt.waiting if attempt.over else ()):
            node = attempt.nodes[broker]
            if broker != self.core.id and self.contacts.dead(node):
                restarted = broker in self.core.peers
                since = attempt.lost_at.setdefault(broker, now)
                if restarted or now - since > self.settings.step_s:
                    attempt.waiting.discard(broker)
                else:
                    self.contacts.redial(node, now)

    def _turn(self, attempt: Attempt, now: float) -> None:
        if attempt.step is RcfgInit and (gap := attempt.gaps()):
            self.abort(gap, now)
            return
        following = attempt.following()
        if following is None:
            self._over(attempt, now)
            return
        if following is RcfgFinish:
            self._decide(attempt, now)
        attempt.turn(following, now)
        self._event(now, NAMES[following.kind])
        self._say_all(now)

    def _decide(self, attempt: Attempt, now: float) -> None:
        """On the disk before anybody hears of it: a drain's journal goes before its messages."""
        attempt.decided = True
        self._keep(attempt)

    def abort(self, reason: str, now: float) -> bool:
        attempt = self.attempt
        if attempt is None or attempt.over:
            return False
        attempt.reason = reason
        attempt.turn(RcfgAbort, now)
        self._event(now, f"aborted: {reason}", "warning")
        self._say_all(now)
        return True

    def _over(self, attempt: Attempt, now: float) -> None:
        self.attempt = None
        self.last = attempt.row(now) | {"waiting_for": []}
        self.core.keep(self.keeps, RUNNING, None)
        if attempt.decided:
            self._event(now, f"done in {now - attempt.began_at:.2f} s")
        self.asked_at = 0.0

    def _died(self, node: RingNode, now: float) -> None:
        attempt = self.attempt
        if attempt is not None and node.broker in attempt.nodes and not attempt.over:
            self.abort(f"{attempt.nodes[node.broker].name} is lost", now)

    # --- what it looks like -----------------------------------------------------------------------------

    def _event(self, now: float, what: str, level: str = "info") -> None:
        number = self.attempt.version.number if self.attempt is not None else self._numbers
        text = f"reconfiguration {number}: {what}"
        self.core.event(now, "reconfiguration", text, level)
        self.core.note(now, text)

    def status(self) -> Status:
        return {
            "rule": self.settings.rule,
            "reports": len(self.survey.answers),
            "missing": list(self.survey.missing),
            "unfit": self.unfit(self.core.now),
            "computing": self.computing,
            "running": None if self.attempt is None else self.attempt.row(self.core.now),
            "last": self.last,
        }
