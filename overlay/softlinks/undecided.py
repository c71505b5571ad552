"""A Delta-move up to its decision (move.py): preparation and initialisation.

Until the mover has decided anybody on the path may refuse, fail or take too long, and all stays as it was:
here nothing is altered that `_forget` does not put back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from grapevine.wire.mesh import (
    MoveAbort,
    MoveBroken,
    MoveEnd,
    MoveInit,
    MoveReady,
    MoveSwitched,
    MoveTold,
)
from grapevine.wire.messages import Hello
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Peer
from overlay.softlinks.bans import Bans, Operation
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.softlinks.passage import Done, Passage
from overlay.tree.join import Join
from overlay.tree.publications import Publications

LOOK_S = 0.02
DECIDE_S = 15.0  # from the permission; a move that is not decided by then is given up
ENDED = 64  # moves that are remembered


class Undecided(Quiet):
    def __init__(
        self, join: Join, neighbourhoods: Neighbourhoods, publications: Publications, bans: Bans
    ) -> None:
        self.join = join
        self.greeting = join.greeting
        self.neighbourhoods = neighbourhoods
        self.advertisements = publications.advertisements
        self.bans = bans
        self.passage: Passage | None = None
        self.given_up = 0
        self.busy: Callable[[], str] = lambda: ""  # why this broker cannot take part now
        self.release: Callable[[Operation, float], None] = lambda operation, now: None
        self._ended: deque[Operation] = deque(maxlen=ENDED)
        self.greeting.apart.refusal = self._apart_refusal

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(MoveInit, self.on_init)
        core.on(MoveReady, self.on_ready)
        core.on(MoveAbort, self.on_abort)

    def _turn(self, passage: Passage, old: Peer | None, new: Peer, now: float) -> None:
        raise AssertionError("Moves decides what follows")

    def _peer(self, broker: int) -> Peer | None:
        return self.core.peers.get(broker)

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
        if self.passage is not None or self.greeting.apart.sessions:
            return f"{self.core.name} takes part in a move already"
        if self.greeting.leaving or self.bans.leaving or any(p.held for p in self.core.peers.values()):
            return f"{self.core.name} or a neighbour of it is leaving"
        if not self.core.ready or any(not p.flowing for p in self.core.peers.values()):
            return f"{self.core.name} is not connected to all its neighbours"
        on_path = [path[place - 1]] if place else []
        on_path += [path[place + 1]] if place + 1 < len(path) else []
        if any(broker not in self.core.peers for broker in on_path):
            return f"{self.core.name} sees another path"
        return self.busy()

    def begin(self, target: int, operation: Operation, done: Done, now: float) -> None:
        """The coordinator has permitted it."""
        if refusal := self.refusal(target):
            self.release(operation, now)
            done(refusal, now)
            return
        passage = self.passage = Passage(operation, self.path_to(target), 0)
        passage.done = done
        self._keep_off(passage, now)
        self._pass_on(passage, MoveInit(*operation, passage.path))
        self.core.timers.at(now + DECIDE_S, lambda later: self._give_up(passage, "it took too long", later))

    def _keep_off(self, passage: Passage, now: float) -> None:
        """Nobody may pass a broker of the path while the tables around it turn."""

        def banned(later: float) -> None:
            assert passage.ban is not None
            passage.banned = True
            if not self.bans.complete(passage.ban):
                passage.refusal = passage.refusal or f"somebody near {self.core.name} cannot be reached"
            self._ready_if(passage, later)

        passage.ban = self.bans.ban(banned, now)

    def _ready_if(self, passage: Passage, now: float) -> None:
        if self.passage is not passage or passage.turned or not (passage.banned and passage.onward):
            return
        if passage.place:
            if (peer := self._peer(passage.old)) is not None:
                self.core.tell(MoveReady(*passage.operation, passage.refusal), peer)
        elif passage.refusal:
            self._give_up(passage, passage.refusal, now)
        else:
            self._greet(passage, now)

    def _greet(self, passage: Passage, now: float) -> None:
        def greeted(peer: Peer, later: float) -> None:
            if self.passage is not passage or peer.id != passage.new:
                self.core.lose(peer, later)
            else:
                self._decide(passage, later)

        def failed(reason: str, text: str, later: float) -> None:
            self._give_up(passage, text, later)

        nearby = self.neighbourhoods.master.nearby.get(passage.new)
        if nearby is None:
            self._give_up(passage, "it is gone from the map", now)
        else:
            self.greeting.dial(nearby.addresses, greeted, failed, now, apart=True)

    def _apart_refusal(self, hello: Hello) -> str:
        passage = self.passage
        if passage is None or not passage.last or passage.mover != hello.broker or passage.turned:
            return f"{self.core.name} does not expect {hello.name}"
        return ""

    def _decide(self, passage: Passage, now: float) -> None:
        """Not before the old parent has confirmed all that it was told: who has been told a subscription is
        confirmed must find it in the old plane too."""
        if self.passage is not passage or passage.turned:
            return
        old, new = self._peer(passage.old), self.greeting.apart.sessions.get(passage.new)
        if old is None or not old.flowing or new is None or new.link is None:
            self._give_up(passage, "a link broke", now)
        elif not self.advertisements.announcements.all_confirmed(old):
            self.core.timers.at(now + LOOK_S, lambda later: self._decide(passage, later))
        else:
            self._turn(passage, old, new, now)
            self.join.adopt(new, new.addresses[0] if new.addresses else "", now)

    def _give_up(self, passage: Passage, why: str, now: float) -> None:
        if self.passage is not passage or passage.turned:
            return
        self.given_up += 1
        self._pass_on(passage, MoveAbort(*passage.operation))
        self._forget(passage, now)
        self.greeting.apart.give_up(now)
        self.release(passage.operation, now)
        passage.done(why, now)

    def _pass_on(self, passage: Passage, message: MoveInit | MoveAbort) -> None:
        """To the next on the path."""
        if not passage.last and (peer := self._peer(passage.path[passage.place + 1])) is not None:
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
        passage = self.passage = Passage(operation, path, place)
        passage.onward = passage.last
        self._keep_off(passage, now)
        self._pass_on(passage, message)
        lifetime = DECIDE_S + 2 * self.core.settings.links.lost_after_s
        self.core.timers.at(now + lifetime, lambda later: self._forget_undecided(passage, later))

    def _place(self, path: tuple[int, ...]) -> int:
        """Ours on the path; 0 if we are not on it, or it is no path at all."""
        return path.index(self.core.id) if self.core.id in path and len(set(path)) == len(path) else 0

    def _forget_undecided(self, passage: Passage, now: float) -> None:
        if self.passage is passage and not passage.turned:
            self._forget(passage, now)

    def on_ready(self, peer: Peer, message: MoveReady, now: float) -> None:
        passage = self._of(message)
        if passage is not None and not passage.last and peer.id == passage.path[passage.place + 1]:
            passage.onward = True
            passage.refusal = passage.refusal or message.refusal
            self._ready_if(passage, now)

    def on_abort(self, peer: Peer, message: MoveAbort, now: float) -> None:
        passage = self._of(message)
        if passage is not None and not passage.turned and passage.place and peer.id == passage.old:
            self._pass_on(passage, message)
            self._forget(passage, now)
            self.greeting.apart.give_up(now)

    def _of(
        self, message: MoveReady | MoveAbort | MoveTold | MoveSwitched | MoveEnd | MoveBroken
    ) -> Passage | None:
        operation = (message.origin, message.incarnation, message.number)
        passage = self.passage
        return passage if passage is not None and passage.operation == operation else None

    def _forget(self, passage: Passage, now: float) -> None:
        self.passage = None
        self._ended.append(passage.operation)
        if passage.ban is not None:
            self.bans.allow(passage.ban, now)
