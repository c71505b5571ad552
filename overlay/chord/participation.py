"""A broker's part in a reconfiguration (DYNATOPS 5.2; docs/adr/0011): five steps, each answered.

Init  nobody comes onto the ring or leaves it, if we are at rest. Overlay  the next plane is made, with our
place and our pointers. Pubsub  what is wanted here is said there. Finish  publications enter it. Nullify  the
old plane goes. A step that comes again is answered again.

Until Pubsub is answered this broker may give up by itself, and does when the manager is gone. From then on it
is in doubt: it keeps both planes, publications go by the old one and changes to both, until it hears how it
was decided, from the manager, from a neighbour (planes.py) or from an operator.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.chord import RingNode
from grapevine.wire.reconfiguration import (
    Process,
    RcfgAbort,
    RcfgDone,
    RcfgFinish,
    RcfgInit,
    RcfgNullify,
    RcfgOverlay,
    RcfgPubsub,
    Version,
)
from overlay.behaviour import Quiet, Status
from overlay.chord.planes import Planes
from overlay.chord.ring import Pointers
from overlay.chord.roots import Roots
from overlay.core import Core
from overlay.links.session import Session

LOOK_S = 0.05  # whether a step is done
AGAIN_S = 2.0  # an answer is repeated in doubt
NAMES = {
    RcfgInit.kind: "init",
    RcfgOverlay.kind: "overlay",
    RcfgPubsub.kind: "pubsub",
    RcfgFinish.kind: "finish",
    RcfgNullify.kind: "nullify",
    RcfgAbort.kind: "abort",
}
Step = RcfgInit | RcfgOverlay | RcfgPubsub | RcfgFinish | RcfgNullify | RcfgAbort


class Running:
    """The reconfiguration that we are in."""

    def __init__(self, init: RcfgInit, now: float) -> None:
        self.version = init.version
        self.plane = init.plane
        self.participants = frozenset(init.participants)
        self.step = RcfgInit.kind
        self.done = False  # and answered
        self.since = self.answered_at = now


class Participation(Quiet):
    name = "reconfiguration"
    after = ("Planes",)

    def __init__(self, planes: Planes) -> None:
        self.planes = planes
        self.running: Running | None = None
        self.finished = self.aborted = 0
        self.manage: Callable[[RcfgDone, float], None] = lambda done, now: None  # if we are the manager
        planes.closed = self._closed
        planes.on_rejoin.append(self._rejoined)
        planes.on_current.append(self._moved)
        planes.contacts.on_died.append(self._died)

    def attach(self, core: Core) -> None:
        self.core = core
        for step in Step.__args__:
            core.on(step, self.on_step)

    def start(self, now: float) -> None:
        self._again(now)

    def _again(self, now: float) -> None:
        self._look(now)
        self.core.timers.at(now + (LOOK_S if self.running is not None else 20 * LOOK_S), self._again)

    @property
    def in_doubt(self) -> bool:
        """Whether it may have been decided without our knowing."""
        running = self.running
        return running is not None and running.step == RcfgPubsub.kind and running.done

    def _closed(self, session: Session) -> bool:
        running = self.running
        return running is not None and Process(session.id, session.incarnation) not in running.participants

    # --- steps ------------------------------------------------------------------------------------------

    def on_step(self, session: Session, step: Step, now: float) -> None:
        if step.version.manager == session.id:
            self.take(step, now)

    def take(self, step: Step, now: float) -> None:
        running = self.running
        if running is None or running.version != step.version:
            self._strange(step, now)
        elif step.kind == running.step:
            if running.done:
                self._answer(step.version, step.kind)
        elif step.kind > running.step:
            self._go(running, step, now)
            self._look(now)

    def _strange(self, step: Step, now: float) -> None:
        """Of a version that we are not in: the first step begins it; what ends it is in order."""
        if not isinstance(step, RcfgInit):
            over = isinstance(step, RcfgFinish | RcfgNullify | RcfgAbort)
            self._answer(step.version, step.kind, "" if over else "not prepared")
        elif refusal := self._refusal(step):
            self._answer(step.version, step.kind, refusal)
        else:
            self.running = Running(step, now)
            self._tell_event(now, "began")
            self.running.done = True
            self._answer(step.version, step.kind)

    def _refusal(self, init: RcfgInit) -> str:
        planes, roots = self.planes, self.planes.roots
        before = planes.membership.predecessor
        if self.running is not None:
            return "another reconfiguration is not over here"
        if self.core.leaving:
            return "leaving"
        if planes.next is not None or init.plane != planes.current.number + 1:
            return f"the ring is plane {planes.current.number} here"
        if not planes.membership.member or before is None or roots.begin != before.position or roots.giving:
            return "the ring is not at rest here"
        return ""

    def _go(self, running: Running, step: Step, now: float) -> None:
        if isinstance(step, RcfgAbort):
            self._abort(now)
            self._answer(step.version, step.kind)
            return
        if isinstance(step, RcfgNullify):
            self._finish(now)
            self._answer(step.version, step.kind)
            return
        running.step, running.done, running.since = step.kind, False, now
        self._tell_event(now, NAMES[step.kind])
        if isinstance(step, RcfgOverlay):
            known = Pointers(step.predecessor, step.successors, step.fingers)
            self.planes.prepare(running.plane).membership.prepare(step.node, known, now)
        elif isinstance(step, RcfgPubsub):
            self.planes.begin(now)
        else:
            self.planes.switch(now)

    def _look(self, now: float) -> None:
        running = self.running
        if running is None:
            return
        if not running.done and self._is_done(running):
            running.done, running.answered_at = True, now
            self._answer(running.version, running.step)
        elif running.done and now - running.answered_at > AGAIN_S:
            running.answered_at = now
            self._answer(running.version, running.step)

    def _is_done(self, running: Running) -> bool:
        following = self.planes.next
        if following is None:
            return False
        if running.step == RcfgOverlay.kind:
            return all(map(self.planes.contacts.connected, following.membership.nodes()))
        if running.step == RcfgPubsub.kind:
            return all(following.wants.known.values()) and copied(following.roots)
        return self.planes.left_behind

    def _answer(self, version: Version, step: int, refusal: str = "") -> None:
        ring = self.planes.membership
        place = (ring.me, ring.predecessor) if step == RcfgInit.kind and not refusal else (None, None)
        done = RcfgDone(version, step, refusal, *place)
        if version.manager == self.core.id:
            self.core.timers.at(self.core.now, lambda now: self.manage(done, now))
        elif (session := self.core.peers.get(version.manager)) is not None:
            self.core.tell(done, session)

    # --- ends -------------------------------------------------------------------------------------------

    def _abort(self, now: float) -> None:
        """Not once publications have entered the next plane: whoever says so is wrong."""
        if not self.planes.switched:
            self._tell_event(now, "aborted")
            self.aborted += 1
            self.running = None
            self.planes.drop_next(now)

    def _finish(self, now: float) -> None:
        if self.planes.next is not None:
            self.planes.drop_current(now)

    def _moved(self, now: float) -> None:
        """The next plane is the ring."""
        if self.running is not None and self.planes.current.number == self.running.plane:
            self._tell_event(now, "finished")
            self.finished += 1
            self.running = None

    def _died(self, node: RingNode, now: float) -> None:
        running = self.running
        if running is not None and node.broker == running.version.manager:
            if running.step < RcfgPubsub.kind or (running.step == RcfgPubsub.kind and not running.done):
                self._abort(now)

    def _rejoined(self, now: float) -> None:
        """We were cut off from everybody."""
        if self.running is not None and not self.in_doubt and not self.planes.switched:
            self._abort(now)

    def decide(self, finish: bool, now: float) -> bool:
        """An operator's word, if we are in doubt."""
        if not self.in_doubt and not self.planes.switched:
            return False
        if finish:
            self._finish(now)
        else:
            self._abort(now)
        return True

    # --- what it looks like -----------------------------------------------------------------------------

    def _tell_event(self, now: float, what: str) -> None:
        running = self.running
        assert running is not None
        text = f"reconfiguration {running.version.number} to plane {running.plane}: {what}"
        self.core.event(now, "reconfiguration", text, plane=running.plane, step=what)

    def status(self) -> Status:
        running = self.running
        found: Status = {"plane": self.planes.current.number, "finished": self.finished}
        found |= {"aborted": self.aborted, "step": None}
        if running is not None:
            found |= {"step": NAMES[running.step], "done": running.done, "in_doubt": self.in_doubt}
            found |= {"version": list(running_version(running.version)), "next": running.plane}
        return found


def running_version(version: Version) -> tuple[str, int, int]:
    return f"{version.manager:016x}", version.incarnation, version.number


def copied(roots: Roots) -> bool:
    """Whether those who would take a root's place know all that it does."""
    holders = roots.holders
    known = holders.acknowledged
    return bool(holders.nodes) and all(0 < n <= known.get(node, 0) for node, n in holders.nodes.items())
