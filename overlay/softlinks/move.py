"""SPEC M7: a Delta-move. A broker gives up its parent and takes another within Delta hops (paper, 6).

`path` is the mover A, its old parent N, and the primary path from there to the new parent B.
  preparation     the coordinator permits the move and gives it its epoch
  initialisation  MoveInit goes along the path; each broker on it, and A, keeps everybody off itself
                  (bans.py); MoveReady comes back; A greets B over a link that is not of the tree yet
  update          A decides, writes down its new parent, and says MoveTurn: to B, which passes it on along
                  the path back to N. What lies behind A is announced over the new link in the ordinary
                  way, and on the path the word from the new side ends the one from the old; MoveAnnounced
                  follows the last
  switch          each broker on the path moves its publishers to the new plane (planes.py) and reports it
                  by MoveSwitched, N first, up to A
  wrap-up         MoveEnd: the old plane is empty and dropped, the link between A and N ends, the bans are
                  lifted, the coordinator hears of it

Before A decides (move_prepare.py) anybody may refuse or fail, and all stays as it was. From then on it goes
forward: each step is repeated when a link comes back, to whoever restarted as well. A broker is on one path
at a time, so that a coordinator which forgets cannot do harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grapevine.wire.mesh import MoveAnnounced, MoveBroken, MoveEnd, MoveSwitched, MoveTurn
from overlay.behaviour import Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.softlinks.bans import Bans
from overlay.softlinks.move_prepare import LOOK_S, MovePreparation
from overlay.softlinks.move_state import MoveState, Step
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.softlinks.planes import Planes
from overlay.tree.join import Join
from overlay.tree.peer import Peer
from overlay.tree.router import TreeRouter
from overlay.tree.table import Key


class Moves(MovePreparation):
    name = "move"

    def __init__(
        self,
        join: Join,
        neighbourhoods: Neighbourhoods,
        router: TreeRouter,
        bans: Bans,
        planes: Planes,
    ) -> None:
        super().__init__(join, neighbourhoods, router, bans)
        self.sync = join.sync
        self.subscriptions = router.subscriptions
        self.planes = planes
        self.moved = 0
        self.has_streams: Callable[[], bool] = lambda: False  # set by the profile
        planes.switched = self._switched
        planes.tables_sent_again = self._repeat_announced
        self.sync.forget_shadows.append(self._tables_sent)
        self.sync.forget_stale.append(self._synced)
        self.advertisements.turned = self._advertisement_turned

    def attach(self, core: Core) -> None:
        super().attach(core)
        core.on(MoveTurn, self.on_turn)
        core.on(MoveAnnounced, self.on_announced)
        core.on(MoveSwitched, self.on_switched)
        core.on(MoveEnd, self.on_end)
        core.on(MoveBroken, self.on_broken)

    # --- update ---------------------------------------------------------------------------------------

    def on_turn(self, peer: Peer, message: MoveTurn, now: float) -> None:
        operation = (message.origin, message.incarnation, message.number)
        path = message.path
        if operation in self._ended and (self.state is None or self.state.operation != operation):
            self.core.tell(MoveSwitched(*operation), peer)  # we are through
            return
        if not self._place(path):
            self.core.refuse("path")
            return
        state = self.state
        if state is None or state.operation != operation:
            if state is not None:
                self._make_room(state, now)
            state = self.state = MoveState(operation, path, self._place(path))
        if state.new != peer.id:
            self.core.refuse("path")
        elif not state.turned:
            self._turn(state, self._peer(state.old), peer, now)
        elif state.switched:
            self._report_if(state)

    def _make_room(self, state: MoveState, now: float) -> None:
        """Another move has been decided, and we did not remember that we are on its path."""
        if state.turned:
            self._end(state, now)
        elif state.place:
            self._forget(state, now)
        else:
            self._give_up(state, "another move came first", now)

    def _turn(self, state: MoveState, old: Peer | None, new: Peer, now: float) -> None:
        """From here on it goes forward."""
        state.enter(Step.TURNED)
        if not state.place:
            before = old.name if old is not None else "nobody"
            text = f"{self.core.name} moves from {before} to {new.name}, {len(state.path) - 1} hops"
            fields: dict[str, Any] = {"from": before, "to": new.name, "hops": len(state.path) - 1}
            self.core.event(now, "move.started", text, **fields)
        state.incarnations = {p.id: p.incarnation for p in (old, new) if p is not None}
        self.subscriptions.table.takes_over = self.advertisements.table.takes_over = self._takes_over
        if old is not None and state.place <= 1:
            old.heir = new
        if state.place > 1 and old is not None:
            self.core.tell(MoveTurn(*state.operation, state.path), old)
        self.planes.begin(state.operation[2], state.mover, old, new, now)
        if new.id in self.staged.sessions:
            self.staged.admit(new, now)
        self.sync.remember()
        self.sync.check_all(now)
        if old is None or (state.place <= 1 and old.link is None):
            self._broken(state, None, now)

    def _takes_over(self, old: Session, new: Session) -> bool:
        """On the path what the new side says ends what the old side said."""
        state = self.state
        if state is None or not state.turned or state.place <= 1:
            return False
        return isinstance(old, Peer) and isinstance(new, Peer) and (old.id, new.id) == (state.old, state.new)

    def _advertisement_turned(self, key: Key, before: Session) -> None:
        if self.state is not None:
            self.state.turned_advertisements.append((key, before))

    def _tables_sent(self, peer: Peer, now: float) -> None:
        """The new parent's advertisements are in, and it has heard the subscriptions that overlap them."""
        state = self.state
        if state is not None and state.turned and not state.place and peer.id == state.new:
            self.core.tell(MoveAnnounced(*state.operation), peer)

    def _synced(self, peer: Peer, now: float) -> None:
        """The new parent's tables are in, at the mover, and whoever must know of its side does. At the new
        parent the mover's are: one that has restarted does not know that it should say so."""
        state = self.state
        if state is not None and state.turned and peer.id == state.new:
            if not state.place or state.last:
                self._announced(state, now)

    def on_announced(self, peer: Peer, message: MoveAnnounced, now: float) -> None:
        state = self._of(message)
        if state is not None and state.turned and peer.id == state.new:
            self._announced(state, now)

    def _announced(self, state: MoveState, now: float) -> None:
        """What the new side has not repeated is no longer called for here."""
        if state.step is Step.TURNED:
            state.enter(Step.ANNOUNCED)
        self._leave_torn_path(state, now)
        if state.place > 1 and (old := self._peer(state.old)) is not None:
            for entry in self.subscriptions.table.of(old):
                if entry.source is old and state.mover in entry.item.path:
                    self.subscriptions.forget(entry, old, now)
            self.core.tell(MoveAnnounced(*state.operation), old)
        self.planes.tables_complete(now)

    # --- switch and wrap-up ---------------------------------------------------------------------------

    def _switched(self, now: float) -> None:
        if self.state is not None:
            self.state.enter(Step.SWITCHED)
            self._report_if(self.state)
            self._finish_if(self.state, now)

    def _report_if(self, state: MoveState) -> None:
        if state.place and state.through:
            if (peer := self._peer(state.new)) is not None:
                self.core.tell(MoveSwitched(*state.operation), peer)

    def on_switched(self, peer: Peer, message: MoveSwitched, now: float) -> None:
        state = self._of(message)
        if state is None:
            self.core.tell(MoveEnd(message.origin, message.incarnation, message.number), peer)
        elif state.turned and peer.id == (state.old if state.place else state.new):
            state.behind_switched = True
            self._report_if(state)
            self._finish_if(state, now)
            self._leave_torn_path(state, now)

    def _leave_torn_path(self, state: MoveState, now: float) -> None:
        """At the mover: whoever can be reached by the path is through, and a part of it is lost. The turn may
        never have come to N; should those behind the tear have joined elsewhere, our two links close a cycle,
        and we wait for a SyncDone that nobody can say. N takes the link's end for a broken one, or sends
        again what it had sent."""
        old = self._peer(state.old)
        if not state.place and state.torn and not state.switched and old is not None and old.retiring:
            old.heir = None  # what only N knew of may be out of reach: it is given up, and not handed on
            self.core.lose(old, now)

    def _finish_if(self, state: MoveState, now: float) -> None:
        """At the mover: all have switched, and so have we."""
        if not state.place and state.through:
            self._end(state, now)

    def on_end(self, peer: Peer, message: MoveEnd, now: float) -> None:
        state = self._of(message)
        if state is not None and state.turned and state.place and peer.id == state.new:
            self._end(state, now)

    def _end(self, state: MoveState, now: float) -> None:
        """Drop the old plane and what was kept for it."""
        self._forget(state, now)
        self.subscriptions.table.takes_over = self.advertisements.table.takes_over = None
        old, new = self._peer(state.old), self._peer(state.new)
        onward = new if state.place == 0 else old if state.place > 1 else None
        if onward is not None:
            self.core.tell(MoveEnd(*state.operation), onward)
        for key, before in state.turned_advertisements:
            self.advertisements.relieve(key, before, now)
        self.planes.end(now)
        if old is not None and old.retiring:
            self.core.lose(old, now)
        if state.place == 0:
            self.moved += 1
            parent = new.name if new is not None else ""
            self.core.event(now, "move.done", f"{self.core.name} has moved below {parent}", to=parent)
            self.release(state.operation, now)
            state.done("", now)

    # --- what fails -----------------------------------------------------------------------------------

    def on_broken(self, peer: Peer, message: MoveBroken, now: float) -> None:
        state = self._of(message)
        if state is not None and state.turned:
            state.torn = True
            self._broken(state, peer, now)

    def _broken(self, state: MoveState, source: Peer | None, now: float) -> None:
        """Somebody has lost a part of the old plane: all others must know before anything of it settles."""
        brokers = (state.old, state.new) if state.place > 1 else (state.new,)
        others = [p for p in map(self._peer, brokers) if p is not None and p is not source]
        if others:
            self.core.tell(MoveBroken(*state.operation), *others)
        self.planes.broken(now)

    def link_up(self, session: Session, now: float) -> None:
        """Before the tables: the neighbour must know whose word counts."""
        state = self.state
        if state is None or not state.turned or not isinstance(session, Peer):
            return
        if session.id not in (state.old, state.new):
            return
        self.planes.relink(session, session.id == state.new)
        if session.id == state.new and state.place == 0:
            self.core.tell(MoveTurn(*state.operation, state.path), session)
        elif session.id == state.old and state.place > 1:
            self.core.tell(MoveTurn(*state.operation, state.path), session)
        elif session.id == state.new:
            self._report_if(state)
        if state.incarnations.get(session.id) != session.incarnation:
            state.incarnations[session.id] = session.incarnation
            self._broken(state, session, now)

    def _repeat_announced(self, session: Session) -> None:
        """After the tables."""
        state = self.state
        if state is None or state.place <= 1 or session.id != state.old:
            return
        if state.step in (Step.ANNOUNCED, Step.SWITCHED):
            self.core.tell(MoveAnnounced(*state.operation), session)

    def link_down(self, session: Session, now: float) -> None:
        state = self.state
        if isinstance(session, Peer) and self.staged.sessions.get(session.id) is session:
            self.core.timers.at(now, lambda later: self.core.lose(session, later))
            if state is not None and not state.place:
                self._give_up(state, "the new link broke", now)
        elif state is not None and state.turned and state.place <= 1 and session.id == state.old:
            self._broken(state, None, now)  # nobody will dial it again

    def link_lost(self, session: Session, now: float) -> None:
        state = self.state
        if state is None or not isinstance(session, Peer):
            return
        if not state.turned:
            if not state.place and session.id == state.old:
                self._give_up(state, "the old link is lost", now)
        elif session.id == state.new:
            # When the tables have forgotten it: what waits here must not be sent to who is lost.
            self.core.timers.at(now, lambda later: self._end_without(state, later))
        elif session.id == state.old and state.place > 1:
            self._broken(state, None, now)
            state.behind_switched = True
            self._report_if(state)

    def _end_without(self, state: MoveState, now: float) -> None:
        if self.state is state:
            self._end(state, now)

    def leave(self, now: float) -> None:
        """A broker on a path leaves when the move is over. Who has streams stays: they are owed what is
        published, and would never let it go."""
        if self.has_streams():
            self.core.event(now, "leaving", f"{self.core.name} stays: it has streams, end them first")
        elif self.state is not None:
            self.core.timers.at(now + LOOK_S, self.leave)
        else:
            self.bans.leave(now)

    def status(self) -> Status:
        state = self.state
        found: Status = {"moved": self.moved, "given_up": self.given_up}
        if state is not None:
            found |= {"place": state.place, "step": state.step.value}
        return found

    def validate(self) -> None:
        state = self.state
        assert (state is not None and state.turned) == (self.planes.plane is not None)
        if state is not None:
            assert state.path[state.place] == self.core.id
