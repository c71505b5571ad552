"""Two planes of routing while a broker moves (ARCHITECTURE "Order", DECISIONS 19).

The brokers on the path of a move and the mover are *affected*. In the old plane what is for the mover's side
goes to where the mover was, in the new one to where it is. A publication's stamp says which plane it is in;
without one it is in the old, and everything else is routed alike in both. The tables turn entry by entry and
are the new plane; what they said when the turn began is kept beside them as the old one.

The first affected broker of a publication's way decides its plane. When the turn reaches it, it takes no more
from outside, until all that it has sent to other affected brokers is settled and the new tables are complete;
then it stamps. So each publisher's order holds, and the old plane runs empty. Should somebody who holds a
part of the old plane fail, what is not settled there is sent again in the new one, before anything newer.

All soft links of affected brokers, and all that pass one, are gone before (bans.py): here every hop is a
primary link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from grapevine.filters.normal import Filter
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.mesh import Exclusion
from grapevine.wire.messages import RESENT, Batch, ExcludingBatch, Publication, Publish
from matching.interface import Attributes, Matcher
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.path import Publications
from overlay.data.reroute import Unsettled, let_go, send_anew, unsettled
from overlay.data.routes import Hops, Side
from overlay.links.exclusions import of_batch, shifted
from overlay.links.lane import Lane
from overlay.links.outgoing import Outgoing
from overlay.links.session import Remote, Session
from overlay.softlinks.excludes import NONE, Excluded, Narrowed
from overlay.softlinks.forwarding import Forwarding
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import Soft
from overlay.tree.anchors import Group
from overlay.tree.peer import Peer
from overlay.tree.router import TreeRouter

PLANES = 65_535  # stamps; a move's number decides


class Waiting(NamedTuple):
    """Publications of one session that wait for the new plane, under its epoch."""

    epoch: int
    batch: Batch | Publish
    publications: list[Publication]
    exclusions: list[Exclusion]


class Plane:
    """`old` and `new` are where the mover's side was and is; at the mover itself, its neighbours then and
    now. Either may be missing for a while."""

    __slots__ = ("again", "complete", "gone", "mover", "new", "number", "old", "unsettled", "was", "waiting")

    def __init__(self, number: int, mover: int, old: Peer | None, new: Peer | None, was: Matcher) -> None:
        self.number = number
        self.mover = mover
        self.old = old
        self.new = new
        self.was = was  # what the tables said of the mover's side
        self.unsettled: set[Outgoing] = set()  # streams with something of the old plane that we sent
        self.complete = False  # the new tables are complete
        self.waiting: dict[Session, Waiting] | None = {}  # None: we stamp
        self.again: list[Unsettled] = []  # lost with the old plane
        self.gone = False  # nobody takes anything on the old side any more

    @property
    def affected(self) -> tuple[Peer | None, Peer | None]:
        return self.old, self.new


class Planes(Quiet):
    name = "planes"
    after = ("Publications", "Forwarding")

    def __init__(
        self,
        publications: Publications,
        router: TreeRouter,
        forwarding: Forwarding,
        shortcuts: Shortcuts,
    ) -> None:
        self.publications = publications
        self.router = router
        self.forwarding = forwarding
        self.shortcuts = shortcuts
        self.plane: Plane | None = None
        # Set by Moves: we stamp from now on; the tables were sent again on this link.
        self.switched: Callable[[float], None] = lambda now: None
        self.tables_sent_again: Callable[[Session], None] = lambda session: None
        self._looking = False

    def attach(self, core: Core) -> None:
        self.core = core
        if core.settings.overlay.delta > 1:
            self._forward = core.forward.wrap(self, self.forward)
            self._accept = core.accept.wrap(self, self.accept)
            self.router.subscriptions.unrouted = self._unrouted

    # --- beginning and end ------------------------------------------------------------------------------

    def begin(self, number: int, mover: int, old: Peer | None, new: Peer | None, now: float) -> None:
        """The turn has reached us."""
        was = self.router.subscriptions.matcher()
        if old is not None and mover != self.core.id:
            for place, filter in enumerate(self._behind(mover, old)):
                was.add(place, filter, 0)
        plane = self.plane = Plane(number % PLANES + 1, mover, old, new, was)
        plane.unsettled = {peer.out for peer in plane.affected if peer is not None}
        for out in list(plane.unsettled):
            out.when_settled(partial(self._settled, plane, out))
        self.forwarding.plane = plane.number
        self.router.in_plane = self._hops
        self._changed()

    def _behind(self, mover: int, old: Peer) -> Iterator[Filter]:
        """The filters of the mover's side as they are known from the old one."""
        for entry in self.router.subscriptions.table.of(old):
            if entry.source is old and mover in entry.item.path:
                yield entry.item.filter

    def relink(self, peer: Peer, new: bool) -> None:
        """A neighbour of the path is back, perhaps as another session."""
        if self.plane is not None and new:
            self.plane.new = peer
        elif self.plane is not None:
            self.plane.old = peer
        self._changed()

    def tables_complete(self, now: float) -> None:
        """All that lies behind the mover is known from the new side."""
        if self.plane is not None:
            self.plane.complete = True
            self._look_soon(now)

    def end(self, now: float) -> None:
        """The old plane is empty everywhere, or nobody is left to empty it: what waits goes by the tables."""
        plane, self.plane = self.plane, None
        if plane is None:
            return
        self.forwarding.plane = 0
        self.router.in_plane = None
        self._changed()
        self._send_again(plane, now)
        self._release(plane, now)

    def _changed(self) -> None:
        self.router.subscriptions.generation += 1

    # --- publications come in ---------------------------------------------------------------------------

    def forward(self, peer: Lane, batch: Batch, repeated: int, now: float) -> None:
        plane = self.plane
        if plane is None or peer in plane.affected:
            self._forward(peer, batch, repeated, now)
        elif plane.waiting is not None:
            self._wait(plane.waiting, peer.session, batch, repeated)
        else:
            self._stamp(batch.publications, plane)
            self._forward(peer, batch, repeated, now)

    def accept(self, client: Session, batch: Publish, repeated: int, now: float) -> None:
        plane = self.plane
        if plane is not None and plane.waiting is not None:
            self._wait(plane.waiting, client, batch, repeated)
            if batch.publications:
                self.publications.held[client.id, client.incarnation] = batch.publications[-1].sequence
            return
        self.publications.plane = 0 if plane is None else plane.number
        self._accept(client, batch, repeated, now)

    def _stamp(self, publications: list[Publication], plane: Plane) -> None:
        for publication in publications:
            publication.plane = plane.number

    def _wait(
        self, waiting: dict[Session, Waiting], session: Session, batch: Batch | Publish, repeated: int
    ) -> None:
        """No record covers these positions before they are routed, so they do not settle."""
        known = waiting.get(session)
        if known is None or known.epoch != session.epoch:
            known = waiting[session] = Waiting(session.epoch, batch, [], [])
        known.exclusions.extend(shifted(of_batch(batch, repeated), len(known.publications)))
        known.publications.extend(batch.publications[repeated:])
        session.touch()

    def _release(self, plane: Plane, now: float) -> None:
        """One batch for each session: its positions settle together."""
        waiting, plane.waiting = plane.waiting or {}, None
        self.publications.held.clear()
        for session, (epoch, batch, publications, exclusions) in waiting.items():
            if session.epoch != epoch or not self._is_here(session) or not publications:
                continue
            if isinstance(batch, Publish):
                self.accept(session, replace(batch, publications=publications), 0, now)
            elif isinstance(session, Remote):
                whole = ExcludingBatch(epoch, batch.first, 0, 0, 0, publications, exclusions)
                self.forward(session, whole, 0, now)
        self.router.subscriptions.routed(now)

    def _unrouted(self) -> bool:
        return self.plane is not None and self.plane.waiting is not None

    def _is_here(self, session: Session) -> bool:
        if isinstance(session, Client):
            return self.core.numbered.get(session.number) is session
        return not session.lost

    # --- which way ------------------------------------------------------------------------------------

    def _hops(self, side: Side | None, content: Attributes) -> Hops:
        plane = self.plane
        assert plane is not None
        excluded: Excluded = NONE
        stamp = plane.number
        if isinstance(side, Narrowed):
            excluded, stamp, side = side.excluded, side.plane, side.session
        elif side in plane.affected:
            stamp = 0
        back = side.back if isinstance(side, Soft) else side
        remote = self.router.subscriptions.remote
        found = [self.router.subscriptions.groups[number] for number in remote.groups(content)]
        groups = [group for group in found if group.side is not back]
        if self.core.id == plane.mover:
            groups = [group for group in groups if self._leaves_us(plane, back, group)]
        elif stamp == plane.number:
            groups = [group for group in groups if not self._turns(plane, group) or group.side is plane.new]
            if back is plane.new:
                groups += self._unheard(plane)
        else:
            groups = self._in_old(plane, back, groups, content)
        wanted = [group for group in groups if excluded.isdisjoint(group.path)]
        return self.shortcuts.table.copies(wanted, excluded, [])

    def _in_old(self, plane: Plane, back: object, groups: list[Group], content: Attributes) -> list[Group]:
        """As the tables were when the turn began."""
        kept = [group for group in groups if not self._turns(plane, group)]
        old = plane.old
        if old is not None and old is not back and not plane.gone and plane.was.groups(content):
            kept.append(Group(-1, (old.id,), old))
        return kept

    def _unheard(self, plane: Plane) -> list[Group]:
        """What lies behind the mover was announced anew, and should the old side's link be broken we may not
        have heard who wants it there: it gets everything that comes from the new side."""
        old = plane.old
        if old is None or old.retiring or old.lost or (old.link is not None and old.synced_by_peer):
            return []
        return [Group(-1, (old.id,), old)]

    def _turns(self, plane: Plane, group: Group) -> bool:
        """Whether it lies behind the mover."""
        return plane.mover in group.path and group.side in plane.affected

    def _leaves_us(self, plane: Plane, back: object, group: Group) -> bool:
        """At the mover: to the new neighbour alone, and nothing from one neighbour to the other."""
        return group.side is not plane.old and not (back in plane.affected and group.side is plane.new)

    # --- the switch -------------------------------------------------------------------------------------

    def _settled(self, plane: Plane, out: Outgoing) -> None:
        plane.unsettled.discard(out)
        self._look_soon(self.core.now)

    def _look_soon(self, now: float) -> None:
        """Not from inside what settles a stream, or turns a table."""
        if not self._looking:
            self._looking = True
            self.core.timers.at(now, self._look)

    def _look(self, now: float) -> None:
        self._looking = False
        plane = self.plane
        if plane is None or plane.waiting is None or not plane.complete or not self.empty(plane):
            return
        self._send_again(plane, now)
        self._changed()
        self._release(plane, now)
        self.switched(now)

    def empty(self, plane: Plane) -> bool:
        """Whether what we sent in the old plane is settled."""
        return not plane.unsettled

    # --- a part of the old plane is lost --------------------------------------------------------------

    def broken(self, now: float) -> None:
        """Take what is not settled of what came from outside by us; it is sent again in the new plane. What
        came from other affected brokers they take themselves."""
        plane = self.plane
        if plane is None:
            return
        if (old := plane.old) is not None:
            self._take_back(plane, old)
            if old.retiring or old.lost:
                plane.gone = True
                let_go(old)  # nobody will settle what is on it: its senders send it again
        plane.unsettled.clear()
        self._look_soon(now)
        if plane.waiting is None:
            self._send_again(plane, now)

    def _take_back(self, plane: Plane, old: Peer) -> None:
        inner = [None, *(peer.incoming for peer in plane.affected if peer is not None)]
        for one in unsettled(old):
            if one.record.incoming not in inner and one.publication.plane != plane.number:
                one.record.pending += 1  # until it is sent again
                plane.again.append(one)

    def _send_again(self, plane: Plane, now: float) -> None:
        """What nobody behind the mover wants any more was for others, and is not cut."""
        again, plane.again = plane.again, []
        send_anew(again, lambda one: self._new_hops(plane, one))
        for one in again:
            one.record.release()

    def _new_hops(self, plane: Plane, one: Unsettled) -> tuple[Lane, ...]:
        """The copies that serve the mover's side; at the mover, those that leave it."""
        publication, excluded = one.publication, frozenset(one.names)
        copy = replace(publication, flags=publication.flags | RESENT, plane=plane.number)
        try:
            content = decode_attributes(copy.attributes)
        except WireError:
            return ()
        subscriptions = self.router.subscriptions
        found = [subscriptions.groups[number] for number in subscriptions.remote.groups(content)]
        groups = [g for g in found if g.side is plane.new and excluded.isdisjoint(g.path)]
        if self.core.id != plane.mover:
            groups = [g for g in groups if plane.mover in g.path]
        hops, links = self.shortcuts.table.copies(groups, excluded, [])
        for queue in links if links is not None else [hop.out.queue for hop in hops]:
            queue.append(copy)
        return hops

    def link_up(self, session: Session, now: float) -> None:
        self.tables_sent_again(session)

    def link_down(self, session: Session, now: float) -> None:
        if self.plane is not None and session in self.plane.affected:
            self._changed()

    def link_lost(self, session: Session, now: float) -> None:
        plane = self.plane
        if plane is not None and plane.waiting is not None:
            plane.waiting.pop(session, None)

    def status(self) -> Status:
        plane = self.plane
        if plane is None:
            return {}
        return {"plane": plane.number, "waiting": plane.waiting is not None}

    def validate(self) -> None:
        assert (self.plane is None) == (self.router.in_plane is None)
        assert (self.plane.number if self.plane else 0) == self.forwarding.plane
