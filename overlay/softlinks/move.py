"""SPEC M7: a Delta-move. A broker gives up its parent and takes another within Delta hops (paper, 6).

`path` is the mover A, its old parent N, and the primary path from there to the new parent B.
  preparation     the coordinator permits the move and gives it its epoch
  initialisation  MoveInit goes along the path; each broker on it, and A, keeps everybody off itself
                  (bans.py); MoveReady comes back; A greets B over a link that is not of the tree yet
  update          A decides, writes down its new parent, and says MoveTurn: to B, which passes it on along
                  the path back to N. What lies behind A is announced over the new link in the ordinary
                  way, and on the path the word from the new side ends the one from the old; MoveTold
                  follows the last
  switch          each broker on the path moves its publishers to the new plane (planes.py) and reports it
                  by MoveSwitched, N first, up to A
  wrap-up         MoveEnd: the old plane is empty and dropped, the link between A and N ends, the bans are
                  lifted, the coordinator hears of it

Before A decides (undecided.py) anybody may refuse or fail, and all stays as it was. From then on it goes
forward: each step is repeated when a link comes back, to whoever restarted as well. A broker is on one path
at a time, so that a coordinator which forgets cannot do harm.
"""

from __future__ import annotations

from grapevine.wire.mesh import MoveBroken, MoveEnd, MoveSwitched, MoveTold, MoveTurn
from overlay.behaviour import Status
from overlay.core import Core
from overlay.links.session import Peer, Session
from overlay.softlinks.bans import Bans
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.softlinks.passage import Passage
from overlay.softlinks.planes import Planes
from overlay.softlinks.undecided import LOOK_S, Undecided
from overlay.tree.join import Join
from overlay.tree.publications import Publications
from overlay.tree.table import Key


class Moves(Undecided):
    name = "move"

    def __init__(
        self,
        join: Join,
        neighbourhoods: Neighbourhoods,
        publications: Publications,
        bans: Bans,
        planes: Planes,
    ) -> None:
        super().__init__(join, neighbourhoods, publications, bans)
        self.sync = join.sync
        self.subscriptions = publications.subscriptions
        self.planes = planes
        self.moved = 0
        planes.switched = self._switched
        planes.told_again = self._repeat_told
        self.sync.forget_shadows.append(self._tables_sent)
        self.sync.forget_stale.append(self._synced)
        self.advertisements.turned = self._advertisement_turned

    def attach(self, core: Core) -> None:
        super().attach(core)
        core.on(MoveTurn, self.on_turn)
        core.on(MoveTold, self.on_told)
        core.on(MoveSwitched, self.on_switched)
        core.on(MoveEnd, self.on_end)
        core.on(MoveBroken, self.on_broken)

    # --- update ---------------------------------------------------------------------------------------

    def on_turn(self, peer: Peer, message: MoveTurn, now: float) -> None:
        operation = (message.origin, message.incarnation, message.number)
        path = message.path
        if operation in self._ended and (self.passage is None or self.passage.operation != operation):
            self.core.tell(MoveSwitched(*operation), peer)  # we are through
            return
        if not self._place(path):
            self.core.refuse("path")
            return
        passage = self.passage
        if passage is None or passage.operation != operation:
            if passage is not None:
                self._make_room(passage, now)
            passage = self.passage = Passage(operation, path, self._place(path))
        if passage.new != peer.id:
            self.core.refuse("path")
        elif not passage.turned:
            self._turn(passage, self._peer(passage.old), peer, now)
        elif passage.switched:
            self._report_if(passage)

    def _make_room(self, passage: Passage, now: float) -> None:
        """Another move has been decided, and we did not remember that we are on its path."""
        if passage.turned:
            self._end(passage, now)
        elif passage.place:
            self._forget(passage, now)
        else:
            self._give_up(passage, "another move came first", now)

    def _turn(self, passage: Passage, old: Peer | None, new: Peer, now: float) -> None:
        """From here on it goes forward."""
        passage.turned = True
        passage.incarnations = {p.id: p.incarnation for p in (old, new) if p is not None}
        self.subscriptions.table.takes_over = self.advertisements.table.takes_over = self._takes_over
        if old is not None and passage.place <= 1:
            old.heir = new
        if passage.place > 1 and old is not None:
            self.core.tell(MoveTurn(*passage.operation, passage.path), old)
        self.planes.begin(passage.operation[2], passage.mover, old, new, now)
        if new.id in self.greeting.apart.sessions:
            self.greeting.apart.admit(new, now)
        self.sync.remember()
        self.sync.check_all(now)
        if old is None or (passage.place <= 1 and old.link is None):
            self._broken(passage, None, now)

    def _takes_over(self, old: Session, new: Session) -> bool:
        """On the path what the new side says ends what the old side said."""
        passage = self.passage
        if passage is None or not passage.turned or passage.place <= 1:
            return False
        return (
            isinstance(old, Peer) and isinstance(new, Peer) and (old.id, new.id) == (passage.old, passage.new)
        )

    def _advertisement_turned(self, key: Key, before: Session) -> None:
        if self.passage is not None:
            self.passage.turned_advertisements.append((key, before))

    def _tables_sent(self, peer: Peer, now: float) -> None:
        """The new parent's advertisements are in, and it was told the subscriptions that overlap them."""
        passage = self.passage
        if passage is not None and passage.turned and not passage.place and peer.id == passage.new:
            self.core.tell(MoveTold(*passage.operation), peer)

    def _synced(self, peer: Peer, now: float) -> None:
        """The new parent's tables are in, at the mover, and whoever must know of its side does. At the new
        parent the mover's are: one that has restarted does not know that it should say so."""
        passage = self.passage
        if passage is not None and passage.turned and peer.id == passage.new:
            if not passage.place or passage.last:
                self._told(passage, now)

    def on_told(self, peer: Peer, message: MoveTold, now: float) -> None:
        passage = self._of(message)
        if passage is not None and passage.turned and peer.id == passage.new:
            self._told(passage, now)

    def _told(self, passage: Passage, now: float) -> None:
        """What the new side has not repeated is no longer called for here."""
        passage.told = True
        if passage.place > 1 and (old := self._peer(passage.old)) is not None:
            for entry in self.subscriptions.table.of(old):
                if entry.source is old and passage.mover in entry.item.path:
                    self.subscriptions.forget(entry, old, now)
            self.core.tell(MoveTold(*passage.operation), old)
        self.planes.tables_told(now)

    # --- switch and wrap-up ---------------------------------------------------------------------------

    def _switched(self, now: float) -> None:
        if self.passage is not None:
            self.passage.switched = True
            self._report_if(self.passage)
            self._finish_if(self.passage, now)

    def _report_if(self, passage: Passage) -> None:
        if passage.place and passage.switched and passage.behind_switched:
            if (peer := self._peer(passage.new)) is not None:
                self.core.tell(MoveSwitched(*passage.operation), peer)

    def on_switched(self, peer: Peer, message: MoveSwitched, now: float) -> None:
        passage = self._of(message)
        if passage is None:
            self.core.tell(MoveEnd(message.origin, message.incarnation, message.number), peer)
        elif passage.turned and peer.id == (passage.old if passage.place else passage.new):
            passage.behind_switched = True
            self._report_if(passage)
            self._finish_if(passage, now)

    def _finish_if(self, passage: Passage, now: float) -> None:
        """At the mover: all have switched, and so have we."""
        if not passage.place and passage.switched and passage.behind_switched:
            self._end(passage, now)

    def on_end(self, peer: Peer, message: MoveEnd, now: float) -> None:
        passage = self._of(message)
        if passage is not None and passage.turned and passage.place and peer.id == passage.new:
            self._end(passage, now)

    def _end(self, passage: Passage, now: float) -> None:
        """Drop the old plane and what was kept for it."""
        self._forget(passage, now)
        self.subscriptions.table.takes_over = self.advertisements.table.takes_over = None
        old, new = self._peer(passage.old), self._peer(passage.new)
        onward = new if passage.place == 0 else old if passage.place > 1 else None
        if onward is not None:
            self.core.tell(MoveEnd(*passage.operation), onward)
        for key, before in passage.turned_advertisements:
            self.advertisements.relieve(key, before, now)
        self.planes.end(now)
        if old is not None and old.retiring:
            self.core.lose(old, now)
        if passage.place == 0:
            self.moved += 1
            self.release(passage.operation, now)
            passage.done("", now)

    # --- what fails -----------------------------------------------------------------------------------

    def on_broken(self, peer: Peer, message: MoveBroken, now: float) -> None:
        passage = self._of(message)
        if passage is not None and passage.turned:
            self._broken(passage, peer, now)

    def _broken(self, passage: Passage, source: Peer | None, now: float) -> None:
        """Somebody has lost a part of the old plane: all others must know before anything of it settles."""
        brokers = (passage.old, passage.new) if passage.place > 1 else (passage.new,)
        told = [p for p in map(self._peer, brokers) if p is not None and p is not source]
        if told:
            self.core.tell(MoveBroken(*passage.operation), *told)
        self.planes.broken(now)

    def link_up(self, session: Session, now: float) -> None:
        """Before the tables: the neighbour must know whose word counts."""
        passage = self.passage
        if passage is None or not passage.turned or not isinstance(session, Peer):
            return
        if session.id not in (passage.old, passage.new):
            return
        self.planes.relink(session, session.id == passage.new)
        if session.id == passage.new and passage.place == 0:
            self.core.tell(MoveTurn(*passage.operation, passage.path), session)
        elif session.id == passage.old and passage.place > 1:
            self.core.tell(MoveTurn(*passage.operation, passage.path), session)
        elif session.id == passage.new:
            self._report_if(passage)
        if passage.incarnations.get(session.id) != session.incarnation:
            passage.incarnations[session.id] = session.incarnation
            self._broken(passage, session, now)

    def _repeat_told(self, session: Session) -> None:
        """After the tables."""
        passage = self.passage
        if passage is not None and passage.told and passage.place > 1 and session.id == passage.old:
            self.core.tell(MoveTold(*passage.operation), session)

    def link_down(self, session: Session, now: float) -> None:
        passage = self.passage
        if isinstance(session, Peer) and self.greeting.apart.sessions.get(session.id) is session:
            self.core.timers.at(now, lambda later: self.core.lose(session, later))
            if passage is not None and not passage.place:
                self._give_up(passage, "the new link broke", now)
        elif passage is not None and passage.turned and passage.place <= 1 and session.id == passage.old:
            self._broken(passage, None, now)  # nobody will dial it again

    def link_lost(self, session: Session, now: float) -> None:
        passage = self.passage
        if passage is None or not isinstance(session, Peer):
            return
        if not passage.turned:
            if not passage.place and session.id == passage.old:
                self._give_up(passage, "the old link is lost", now)
        elif session.id == passage.new:
            # When the tables have forgotten it: what waits here must not be sent to who is lost.
            self.core.timers.at(now, lambda later: self._end_without(passage, later))
        elif session.id == passage.old and passage.place > 1:
            self._broken(passage, None, now)
            passage.behind_switched = True
            self._report_if(passage)

    def _end_without(self, passage: Passage, now: float) -> None:
        if self.passage is passage:
            self._end(passage, now)

    def leave(self, now: float) -> None:
        """A broker on a path leaves when the move is over."""
        if self.passage is not None:
            self.core.timers.at(now + LOOK_S, self.leave)
        else:
            self.bans.leave(now)

    def status(self) -> Status:
        passage = self.passage
        found: Status = {"moved": self.moved, "given_up": self.given_up}
        if passage is not None:
            found |= {"place": passage.place, "turned": passage.turned, "switched": passage.switched}
        return found

    def validate(self) -> None:
        passage = self.passage
        assert (passage is not None and passage.turned) == (self.planes.plane is not None)
        if passage is not None:
            assert passage.path[passage.place] == self.core.id
