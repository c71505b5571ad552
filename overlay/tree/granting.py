"""Who may take which parent (E5, J1, J2 of the model): the root lets one edge change at a time, and no cycle.

A broker with others below it that joins somewhere else than where it was is not taken at once. Whom it dials
(the *target*) asks on its behalf: JoinAsk climbs from parent to parent to the real root, which grants it or
not. If it meets the asker on the way, the target is below it. A grant lasts until the edge is there and its
tables are exchanged, or until its lease ends; meanwhile the root grants nobody at another target, nor looks
for a parent itself. A root that looks for one gives that up if it is the better of the two, and grants;
otherwise two roots that ask each other would never be free. Who starts grants nothing for the time of a
lease: it may have granted something before.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.edges import Edge, JoinAnswer, JoinAsk
from grapevine.wire.messages import Hello, Refuse
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.tree.edges import KnownEdges
from overlay.tree.join import ASKING, Join
from overlay.tree.peer import Peer

LEASE_S = 2.0  # of a target, to take the asker
ROOT_LEASE_S = 2 * LEASE_S  # of the root: it outlives the target's
QUESTIONS = 4_096  # that pass here at once


class Question:
    """Of a target: `granted` is None until it is answered."""

    __slots__ = ("granted", "incarnation", "number", "until")

    def __init__(self, number: int, incarnation: int, until: float) -> None:
        self.number = number
        self.incarnation = incarnation
        self.until = until
        self.granted: bool | None = None


class Grant:
    """For those that come to one target: as when a broker leaves, they may come at once."""

    __slots__ = ("askers", "target", "until")

    def __init__(self, target: int) -> None:
        self.target = target
        self.askers: dict[int, tuple[int, int]] = {}  # incarnation and number of the edge
        self.until = 0.0


class Granting(Quiet):
    name = "granting"

    def __init__(self, join: Join, edges: KnownEdges) -> None:
        self.join = join
        self.edges = edges
        edges.changed.append(self._edge_changed)
        join.locked = self.locked
        self.grant: Grant | None = None
        self.granted = self.refused = 0
        # Set by Healing: whether a root that has a question of its own out gives it up for this asker.
        self.yields: Callable[[int, float], bool] = lambda asker, now: True
        self._questions: dict[int, Question] = {}  # by asker
        self._came: dict[tuple[int, int], Peer] = {}  # questions that passed here, and from whom
        self._number = 0

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(JoinAsk, self.on_ask)
        core.on(JoinAnswer, self.on_answer)

    # --- the target -------------------------------------------------------------------------------------

    def refusal(self, hello: Hello, now: float) -> Refuse | None:
        """None: it may come in. Otherwise it is asked for, and may dial again."""
        question = self._questions.get(hello.broker)
        if question is None or question.incarnation != hello.incarnation or question.until <= now:
            question = self._ask(hello, now)
        if question.granted:
            return None
        if question.granted is None:
            return Refuse(ASKING, f"{self.core.name} asks for {hello.name}")
        del self._questions[hello.broker]
        return Refuse("not-granted", f"{hello.name} may not join at {self.core.name} now")

    def _ask(self, hello: Hello, now: float) -> Question:
        self._number += 1
        question = Question(self._number, hello.incarnation, now + LEASE_S)
        self._questions[hello.broker] = question
        self.core.timers.at(now + LEASE_S, self._end_questions)
        known = self.edges.by_broker.get(hello.broker)
        edge = known.number if known is not None and known.incarnation == hello.incarnation else 0
        ask = JoinAsk(self.core.id, self._number, hello.broker, hello.incarnation, edge)
        self._climb(ask, now)
        return question

    def _end_questions(self, now: float) -> None:
        self._questions = {asker: one for asker, one in self._questions.items() if one.until > now}

    # --- the way up -------------------------------------------------------------------------------------

    def on_ask(self, peer: Peer, message: JoinAsk, now: float) -> None:
        if peer is self.join.parent or len(self._came) >= QUESTIONS:
            self.core.tell(JoinAnswer(message.target, message.number, False), peer)
            return
        self._came[message.target, message.number] = peer
        self.core.timers.at(now + LEASE_S, lambda later: self._forget(message))
        self._climb(message, now)

    def _forget(self, message: JoinAsk) -> None:
        self._came.pop((message.target, message.number), None)

    def _climb(self, ask: JoinAsk, now: float) -> None:
        parent = self.join.parent
        if ask.asker == self.core.id:
            self._answer(JoinAnswer(ask.target, ask.number, False), now)
        elif parent is None or parent.link is None:
            granted = self._decide(ask, now)
            self.granted += granted
            self.refused += not granted
            self._answer(JoinAnswer(ask.target, ask.number, granted), now)
        elif parent.speaks(JoinAsk):
            self.core.tell(ask, parent)
        else:
            self._answer(JoinAnswer(ask.target, ask.number, True), now)  # as it was before there were grants

    def _answer(self, answer: JoinAnswer, now: float) -> None:
        if answer.target == self.core.id:
            for question in self._questions.values():
                if question.number == answer.number:
                    question.granted = answer.granted
                    question.until = now + LEASE_S
                    self.core.timers.at(question.until, self._end_questions)
        elif (peer := self._came.pop((answer.target, answer.number), None)) is not None:
            self.core.tell(answer, peer)

    def on_answer(self, peer: Peer, message: JoinAnswer, now: float) -> None:
        if peer is self.join.parent:
            self._answer(message, now)

    # --- the root ---------------------------------------------------------------------------------------

    def locked(self, now: float) -> bool:
        """Whether a grant is out, or may be from an earlier life."""
        return self.grant is not None and self.grant.until > now

    def _decide(self, ask: JoinAsk, now: float) -> bool:
        if self.join.known and now < self.core.started_at + ROOT_LEASE_S:
            return False
        self._expire(now)
        if self.grant is not None and self.grant.target != ask.target:
            if self.grant.askers.keys() != {ask.asker}:
                return False
            self.grant = None  # whom it was to join is gone as well, and it asks elsewhere
        if not self.yields(ask.asker, now):
            return False
        self.grant = self.grant or Grant(ask.target)
        self.grant.askers[ask.asker] = ask.incarnation, ask.edge
        self._lease(self.grant, now + ROOT_LEASE_S)
        return True

    def _lease(self, grant: Grant, until: float) -> None:
        grant.until = max(grant.until, until)
        self.core.timers.at(grant.until, self._expire)

    def _expire(self, now: float) -> None:
        if self.grant is not None and self.grant.until <= now:
            self.grant = None

    def _edge_changed(self, before: Edge | None, edge: Edge, now: float) -> None:
        grant = self.grant
        if grant is None or edge.broker not in grant.askers:
            return
        incarnation, number = grant.askers[edge.broker]
        if edge.incarnation > incarnation or (edge.number > number and edge.synced):
            del grant.askers[edge.broker]
            self.grant = grant if grant.askers else None
        elif edge.number > number:  # it is there; its tables may take a while
            self._lease(grant, now + self.core.settings.links.lost_after_s)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self._came = {ask: peer for ask, peer in self._came.items() if peer is not session}

    def status(self) -> Status:
        return {"granted": self.granted, "refused": self.refused}
