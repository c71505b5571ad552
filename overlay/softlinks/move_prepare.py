"""A Delta-move up to its decision (move.py): preparation and initialisation.

Until the mover has decided anybody on the path may refuse, fail or take too long, and all stays as it was:
here nothing is altered that `_forget` does not put back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from grapevine.wire.mesh import (
    MoveAbort,
    MoveAnnounced,
    MoveBroken,
    MoveEnd,
    MoveInit,
    MoveReady,
    MoveSwitched,
)
from grapevine.wire.messages import Hello
from overlay.behaviour import Quiet
from overlay.coordinate.permissions import Operation
from overlay.core import Core
from overlay.links.handshake import STAGED
from overlay.softlinks.bans import Bans
from overlay.softlinks.move_state import Done, MoveState
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.tree.join import Join
from overlay.tree.peer import Peer, peers_of
from overlay.tree.router import TreeRouter

LOOK_S = 0.02
DECIDE_S = 15.0  # from the permission; a move that is not decided by then is given up
ENDED = 64  # moves that are remembered


class MovePreparation(Quiet):
    def __init__(self, join: Join, neighbourhoods: Neighbourhoods, router: TreeRouter, bans: Bans) -> None:
        self.join = join
        self.handshake = join.handshake
        self.staged = join.neighbours.staged
        self.neighbourhoods = neighbourhoods
        self.advertisements = router.advertisements
        self.bans = bans
        self.state: MoveState | None = None
        self.given_up = 0
        self.busy: Callable[[], str] = lambda: ""  # why this broker cannot take part now
        self.release: Callable[[Operation, float], None] = lambda operation, now: None
        self._ended: deque[Operation] = deque(maxlen=ENDED)
        self.staged.refuses = self._staged_refusal

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(MoveInit, self.on_init)
        core.on(MoveReady, self.on_ready)
        core.on(MoveAbort, self.on_abort)

    def _turn(self, state: MoveState, old: Peer | None, new: Peer, now: float) -> None:
        raise AssertionError("Moves decides what follows")

    def _peer(self, broker: int) -> Peer | None:
        return peers_of(self.core).get(broker)

    # --- the mover: preparation and initialisation --------------------------------------------------------

    def path_to(self, target: int) -> tuple[int, ...]:
        """The mover and the primary path to the target; empty if it is not on the map."""
        path = self.neighbourhoods.master.path(target)
        return (self.core.id, *path) if path else ()

    def refusal(self, target: int) -> str:
        """Why this broker cannot move there now; empty if it can."""
        path = self.path_to(target)
        parent = self.join.parent
        if parent is None:
            return f"{self.core.name} has no parent to leave: move another broker"
        if len(path) < 3:
            return "it is a neighbour already" if path else "it is not within overlay.delta hops"
        if path[1] != parent.id:
            return "it is below the broker that should move: only the link to a parent moves"
        return self._unfit(path, 0)

    def _unfit(self, path: tuple[int, ...], place: int) -> str:
        """Why this broker cannot take its place on the path."""
        if self.state is not None or self.staged.sessions:
            return f"{self.core.name} takes part in a move already"
        if self.core.leaving or self.bans.leaving or any(p.paused for p in peers_of(self.core).values()):
            return f"{self.core.name} or a neighbour of it is leaving"
        if not self.core.ready or any(not p.flowing for p in peers_of(self.core).values()):
            return f"{self.core.name} is not connected to all its neighbours"
        on_path = [path[place - 1]] if place else []
        on_path += [path[place + 1]] if place + 1 < len(path) else []
        if any(broker not in peers_of(self.core) for broker in on_path):
            return f"{self.core.name} sees another path"
        return self.busy()

    def begin(self, target: int, operation: Operation, done: Done, now: float) -> None:
        """The coordinator has permitted it."""
        if refusal := self.refusal(target):
            self.release(operation, now)
            done(refusal, now)
            return
        state = self.state = MoveState(operation, self.path_to(target), 0)
        state.done = done
        self._keep_off(state, now)
        self._pass_on(state, MoveInit(*operation, state.path))
        self.core.timers.at(now + DECIDE_S, lambda later: self._give_up(state, "it took too long", later))

    def _keep_off(self, state: MoveState, now: float) -> None:
        """Nobody may pass a broker of the path while the tables around it turn."""

        def banned(later: float) -> None:
            assert state.ban is not None
            state.banned = True
            if not self.bans.complete(state.ban):
                state.refusal = state.refusal or f"somebody near {self.core.name} cannot be reached"
            self._ready_if(state, later)

        state.ban = self.bans.ban(banned, now)

    def _ready_if(self, state: MoveState, now: float) -> None:
        if self.state is not state or not state.ready:
            return
        if state.place:
            if (peer := self._peer(state.old)) is not None:
                self.core.tell(MoveReady(*state.operation, state.refusal), peer)
        elif state.refusal:
            self._give_up(state, state.refusal, now)
        else:
            self._greet(state, now)

    def _greet(self, state: MoveState, now: float) -> None:
        def greeted(peer: Peer, later: float) -> None:
            if self.state is not state or peer.id != state.new:
                self.core.lose(peer, later)
            else:
                self._decide(state, later)

        def failed(reason: str, text: str, later: float) -> None:
            self._give_up(state, text, later)

        nearby = self.neighbourhoods.master.nearby.get(state.new)
        if nearby is None:
            self._give_up(state, "it is gone from the map", now)
        else:
            self.handshake.dial(nearby.addresses, greeted, failed, now, STAGED)

    def _staged_refusal(self, hello: Hello) -> str:
        state = self.state
        if state is None or not state.last or state.mover != hello.broker or state.turned:
            return f"{self.core.name} does not expect {hello.name}"
        return ""

    def _decide(self, state: MoveState, now: float) -> None:
        """Not before the old parent has confirmed all that was announced to it: who has heard that a
        subscription is confirmed must find it in the old plane too."""
        if self.state is not state or state.turned:
            return
        old, new = self._peer(state.old), self.staged.sessions.get(state.new)
        if old is None or not old.flowing or new is None or new.link is None:
            self._give_up(state, "a link broke", now)
        elif not self.advertisements.announcements.all_confirmed(old):
            self.core.timers.at(now + LOOK_S, lambda later: self._decide(state, later))
        else:
            self._turn(state, old, new, now)
            self.join.adopt(new, new.addresses[0] if new.addresses else "", now)

    def _give_up(self, state: MoveState, why: str, now: float) -> None:
        if self.state is not state or state.turned:
            return
        self.given_up += 1
        self._pass_on(state, MoveAbort(*state.operation))
        self._forget(state, now)
        self.staged.give_up(now)
        self.release(state.operation, now)
        text = f"{self.core.name} stays where it is: {why}"
        self.core.event(now, "move.refused", text, "warn", why=why)
        state.done(why, now)

    def _pass_on(self, state: MoveState, message: MoveInit | MoveAbort) -> None:
        """To the next on the path."""
        if not state.last and (peer := self._peer(state.path[state.place + 1])) is not None:
            self.core.tell(message, peer)

    # --- the path: initialisation ---------------------------------------------------------------------

    def on_init(self, peer: Peer, message: MoveInit, now: float) -> None:
        operation = (message.origin, message.incarnation, message.number)
        path = message.path
        place = self._place(path)
        if not place or path[place - 1] != peer.id:
            self.core.refuse("path")
            return
        if refusal := self._unfit(path, place):
            self.core.tell(MoveReady(*operation, refusal), peer)
            return
        state = self.state = MoveState(operation, path, place)
        state.onward = state.last
        self._keep_off(state, now)
        self._pass_on(state, message)
        lifetime = DECIDE_S + 2 * self.core.settings.links.lost_after_s
        self.core.timers.at(now + lifetime, lambda later: self._forget_undecided(state, later))

    def _place(self, path: tuple[int, ...]) -> int:
        """Ours on the path; 0 if we are not on it, or it is no path at all."""
        return path.index(self.core.id) if self.core.id in path and len(set(path)) == len(path) else 0

    def _forget_undecided(self, state: MoveState, now: float) -> None:
        if self.state is state and not state.turned:
            self._forget(state, now)

    def on_ready(self, peer: Peer, message: MoveReady, now: float) -> None:
        state = self._of(message)
        if state is not None and not state.last and peer.id == state.path[state.place + 1]:
            state.onward = True
            state.refusal = state.refusal or message.refusal
            self._ready_if(state, now)

    def on_abort(self, peer: Peer, message: MoveAbort, now: float) -> None:
        state = self._of(message)
        if state is not None and not state.turned and state.place and peer.id == state.old:
            self._pass_on(state, message)
            self._forget(state, now)
            self.staged.give_up(now)

    def _of(
        self, message: MoveReady | MoveAbort | MoveAnnounced | MoveSwitched | MoveEnd | MoveBroken
    ) -> MoveState | None:
        operation = (message.origin, message.incarnation, message.number)
        state = self.state
        return state if state is not None and state.operation == operation else None

    def _forget(self, state: MoveState, now: float) -> None:
        self.state = None
        self._ended.append(state.operation)
        if state.ban is not None:
            self.bans.allow(state.ban, now)
