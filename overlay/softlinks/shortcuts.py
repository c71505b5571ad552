"""Soft links as sessions: they are activated, carry publications, are drained, and break.

In ordered mode the path to an anchor changes only when nothing is under way on the old one (DECISIONS 18):
  activating  it is on the map, and its publications wait here until the old hop has settled what it had
  draining    nothing more is sent; when what was sent is settled, what waited goes to the next hop
On one side of the tree one link is activated or drained at a time, so that the old hop is one stream. A link
that breaks leaves the map at once: what is unsettled is sent again over the next hop, before anything newer;
one that is activating behind it, having sent nothing yet, follows. (Any other that is activating stays on the
map: what is sent again must not pass what waits there.) With a side's primary link all its soft links break.
Without order a link is active or on standby at once. A draining link closes when nothing unsettled is on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from grapevine.filters.normal import Filter
from grapevine.wire import decode_attributes
from grapevine.wire.mesh import SoftReady
from grapevine.wire.messages import Hello
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.reroute import Unsettled, cut, reroute, unsettled
from overlay.links.handshake import SOFT
from overlay.links.lane import Lane
from overlay.links.session import Session
from overlay.softlinks.excludes import Excluded
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.softlinks.soft import WAITING, Soft, SoftSessions, Stage
from overlay.softlinks.table import WorkingTable
from overlay.tree.anchors import Group
from overlay.tree.peer import Peer, peers_of
from overlay.tree.router import TreeRouter
from overlay.tree.sync import Sync

LOOK_S = 0.01  # between two looks at links that are activating or draining
AGAIN_S = 5.0  # a broker that could not be reached is not dialled again before


class Shortcuts(Quiet):
    def __init__(
        self, softs: SoftSessions, sync: Sync, neighbourhoods: Neighbourhoods, router: TreeRouter
    ) -> None:
        self.softs = softs
        self.neighbourhoods = neighbourhoods
        self.router = router
        self.banned: dict[int, int] = {}  # broker -> bans that name it (softlinks/bans.py)
        self.on_removed: Callable[[Soft, float], None] = lambda soft, now: None
        self.gains: dict[int, float] = {}  # of the last round, for who reads of it
        self.rested: set[int] = set()  # brokers whose links stay on standby for now
        self._dialling: dict[int, None] = {}
        self._failed_at: dict[int, float] = {}
        self._looking = False
        neighbourhoods.changed.append(self._map_changed)
        sync.readiness.on_ready.append(self._now_ready)

    def attach(self, core: Core) -> None:
        self.core = core
        self.ordered = core.settings.overlay.ordered
        self.table = WorkingTable(core, self.router, self.neighbourhoods.master, self.softs)
        if core.settings.overlay.delta > 1:
            self.router.choose = self.table.choose
            self.router.subscriptions.left = self._left
        self.softs.refuses = self._refusal
        core.on(SoftReady, self.on_soft_ready)

    # --- dialling and being dialled -------------------------------------------------------------------

    def open(self, broker: int, now: float) -> None:
        """Dial a broker of the map; the link is activated when it is ready."""
        master = self.neighbourhoods.master
        path = master.path(broker)
        if len(path) < 2 or broker in self.softs.out or broker in self._dialling or self.barred(path):
            return
        if now - self._failed_at.get(broker, -AGAIN_S) < AGAIN_S:
            return
        self._dialling[broker] = None

        def greeted(soft: Soft, later: float) -> None:
            self._dialling.pop(broker, None)
            self._failed_at.pop(broker, None)
            if soft.id != broker or self.barred(path) or master.path(broker) != path:
                self.core.lose(soft, later)

        def failed(reason: str, text: str, later: float) -> None:
            self._dialling.pop(broker, None)
            if broker in master:
                self._failed_at[broker] = later

        self.softs.handshake.dial(master.nearby[broker].addresses, greeted, failed, now, SOFT, path=path)

    def barred(self, path: tuple[int, ...]) -> bool:
        """Whether somebody on this path moves or leaves, or we do."""
        return any(broker in self.banned for broker in (*path, self.core.id))

    def _refusal(self, hello: Hello) -> str:
        """Both sides must see the same primary path between them."""
        if not self._agrees(hello.broker, hello.root_path):
            return f"{self.core.name} sees {hello.name} elsewhere, or not yet"
        return "a broker on the way moves" if self.barred((*hello.root_path, hello.broker)) else ""

    def _agrees(self, dialler: int, path: tuple[int, ...]) -> bool:
        """Whether the dialler's path to us is ours to it, and one side alone names it."""
        master = self.neighbourhoods.master
        back = master.path(dialler)
        return (*path[-2::-1], dialler) == back and master.sides(dialler) == [back[0]]

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self.table.rebuild()
        elif isinstance(session, Soft) and not session.dialled:
            session.back = peers_of(self.core).get(session.path[-2])
            if self.core.ready:
                self.core.tell(SoftReady(), session)

    def _now_ready(self, now: float) -> None:
        self.core.tell(SoftReady(), *self.softs.into.values())

    def on_soft_ready(self, soft: Soft, message: SoftReady, now: float) -> None:
        if soft.dialled and not soft.ready:
            soft.ready = True
            self._look_soon(now)

    # --- activating -----------------------------------------------------------------------------------

    def _side(self, soft: Soft) -> list[Soft]:
        """The links of the same side of the tree, itself included."""
        return [other for other in self.softs.out.values() if other.path[:1] == soft.path[:1]]

    def _quiet(self, soft: Soft) -> bool:
        """Nothing else changes on this side, and nobody next to us leaves."""
        still = all(other.stage in (Stage.STANDBY, Stage.ACTIVE) for other in self._side(soft))
        return still and not any(peer.paused for peer in peers_of(self.core).values())

    def _activate(self, soft: Soft, now: float) -> None:
        peer = peers_of(self.core).get(soft.path[0])
        if soft.leaving or soft.id in self.rested or self.barred(soft.path) or soft.link is None:
            return
        if peer is None or not peer.synced_by_peer or not peer.synced_by_us:
            return
        if not self.ordered:
            soft.enter(Stage.ACTIVE)
            self.table.rebuild()
            self._tell("soft.promoted", soft, now)
        elif self._quiet(soft):
            old = next((self.table.mapped[b] for b in reversed(soft.path) if b in self.table.mapped), peer)
            soft.waits_for = (old, old.out.end())
            soft.enter(Stage.ACTIVATING)
            self.table.rebuild()

    def _activated(self, soft: Soft, now: float) -> None:
        soft.enter(Stage.ACTIVE)
        soft.touch()
        self._tell("soft.promoted", soft, now)

    def _tell(self, kind: str, soft: Soft, now: float, why: str = "") -> None:
        """An event: which link, past whom, and what it is worth."""
        nearby, here = self.neighbourhoods.master.nearby, self.core.name
        names = [nearby[b].name if b in nearby else f"{b:016x}" for b in soft.path[:-1]]
        gain = round(self.gains.get(soft.id, 0.0), 1)
        verb = "carries" if kind == "soft.promoted" else "no longer carries"
        text = f"soft link {here} → {soft.name} {verb} publications past {', '.join(names)}"
        text += f": gain {gain:g}" if kind == "soft.promoted" else f": {why}" if why else ""
        fields: dict[str, Any] = {"from": here, "to": soft.name, "bypasses": names, "gain": gain}
        self.core.event(now, kind, text, **fields, **({"why": why} if why else {}))

    # --- draining -------------------------------------------------------------------------------------

    def close(self, soft: Soft, now: float) -> None:
        """Take the link off the map and end it when nothing is left on it."""
        soft.leaving = True
        self._look_soon(now)

    def rest(self, broker: int, now: float) -> None:
        """Serve its anchors by nearer links until `rouse`; the connection stays."""
        self.rested.add(broker)
        self._look_soon(now)

    def rouse(self, broker: int, now: float) -> None:
        self.rested.discard(broker)
        self._look_soon(now)

    def _drain(self, soft: Soft, now: float) -> None:
        if not self.ordered:
            soft.enter(Stage.STANDBY)
            self.table.rebuild()
            self._tell("soft.demoted", soft, now, self._why(soft))
        elif soft.stage is Stage.ACTIVATING:
            self._remove([soft], now)
        elif self._quiet(soft):
            soft.enter(Stage.DRAINING)

    def _remove(self, softs: list[Soft], now: float) -> None:
        """Off the map; what is unsettled or waits goes to the next hop, each publisher's in its order."""
        for soft in softs:
            if soft.stage in (Stage.ACTIVE, Stage.DRAINING):
                self._tell("soft.demoted", soft, now, self._why(soft))
            soft.enter(Stage.STANDBY)
        self.table.rebuild()
        self._cut_left(softs)
        reroute(softs, self._send_again)
        for soft in softs:
            self.on_removed(soft, now)

    def _left(self, filter: Filter, before: Group, after: Group) -> None:
        """A subscription has another path since: what is unsettled or waits on a link past its old one was
        for it too, and no other copy was. That link's other end may still serve it; no next hop does."""
        for soft in self.table.mapped.values():
            if soft.out.unsettled and soft.leads(before.path) and not soft.leads(after.path):
                if soft.left is None:
                    soft.left = self.router.subscriptions.matcher()
                soft.left.add(len(soft.left), filter, 0)

    def _cut_left(self, softs: list[Soft]) -> None:
        """Newer ones may have gone by the new path, and would make older ones their duplicates."""
        for soft in softs:
            left, soft.left = soft.left, None
            if left is not None:
                cut(
                    one
                    for one in unsettled(soft)
                    if left.groups(decode_attributes(one.publication.attributes))
                )

    def _why(self, soft: Soft) -> str:
        if self.barred(soft.path):
            return "a broker on its way moves or leaves"
        if soft.link is None:
            return "its link broke"
        return "the uplink is full" if soft.id in self.rested else "its gain is too low, or the tree changed"

    def _send_again(self, one: Unsettled) -> Iterable[Lane]:
        excluded = frozenset(one.names)
        numbers = self.router.subscriptions.remote.groups(decode_attributes(one.publication.attributes))
        groups = [g for n in numbers if _carried(one.lane, g := self.table.groups[n], excluded)]
        hops, links = self.table.copies(groups, excluded, [])
        for queue in links if links is not None else [hop.out.queue for hop in hops]:
            queue.append(one.publication)
        return hops

    # --- what happens to links ------------------------------------------------------------------------

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self._drop_side(session, now)
        if not isinstance(session, Soft):
            return
        if session.dialled:
            behind = [s for s in self._side(session) if s.waits_for is not None and s.waits_for[0] is session]
            self._remove([session, *behind], now)
        # Not from inside the call that may be losing it already.
        self.core.timers.at(now, lambda later: self.core.lose(session, later))

    def _drop_side(self, peer: Peer, now: float) -> None:
        """What we know of a side is whole only while its primary link is: a copy that waits for that link
        must not exclude anybody, since there may be subscriptions that we have not heard of."""
        softs = [soft for soft in self.softs.out.values() if soft.path[0] == peer.id]
        if softs:
            self._remove(softs, now)
            for soft in softs:
                self.core.timers.at(now, lambda later, gone=soft: self.core.lose(gone, later))  # type: ignore[misc]

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self.table.rebuild()
        elif isinstance(session, Soft) and session.dialled:
            self.table.rebuild()
            self.on_removed(session, now)

    def _map_changed(self, now: float) -> None:
        master = self.neighbourhoods.master
        self._failed_at = {b: at for b, at in self._failed_at.items() if b in master}
        for soft in self.softs.out.values():
            if master.path(soft.id) != soft.path:
                self.close(soft, now)
        # Who moved in the tree has sent under the old map: it sends again what is unsettled, over the new.
        for soft in [s for s in self.softs.into.values() if not self._agrees(s.id, s.path)]:
            self.core.lose(soft, now)
        self.table.rebuild()

    def _look_soon(self, now: float) -> None:
        if not self._looking:
            self._looking = True
            self.core.timers.at(now + LOOK_S, self._look)

    def _look(self, now: float) -> None:
        """Move every link that can go on; look again while one cannot."""
        self._looking = False
        for soft in list(self.softs.out.values()):
            if not soft.lost:
                self._advance(soft, now)
        if any(self._unfinished(soft) for soft in self.softs.out.values()):
            self._look_soon(now)

    def _wanted(self, soft: Soft) -> bool:
        return not soft.leaving and soft.id not in self.rested

    def _unfinished(self, soft: Soft) -> bool:
        if soft.stage in WAITING:
            return True
        return soft.leaving or (soft.ready and (soft.stage is Stage.ACTIVE) != self._wanted(soft))

    def _advance(self, soft: Soft, now: float) -> None:
        if soft.stage is Stage.ACTIVATING and soft.waits_for is not None:
            old, position = soft.waits_for
            if old.out.settled >= position:
                self._activated(soft, now)
        if soft.mapped and not self._wanted(soft) and soft.stage is not Stage.DRAINING:
            self._drain(soft, now)
        if soft.stage is Stage.DRAINING and soft.out.settled >= soft.out.sent:
            self._remove([soft], now)
        if soft.stage is Stage.STANDBY and soft.leaving and not soft.out.unsettled:
            self.core.lose(soft, now)
        elif soft.stage is Stage.STANDBY and soft.ready:
            self._activate(soft, now)

    def mapped(self) -> Iterator[Soft]:
        return (soft for soft in self.softs.out.values() if soft.mapped)

    def status(self) -> Status:
        return {"incoming": len(self.softs.into)}

    def validate(self) -> None:
        for soft in self.softs.out.values():
            assert not soft.lost and (soft.link is not None or not soft.mapped), soft
            assert soft.paused == (soft.stage in WAITING), (soft, soft.stage)
            assert soft.mapped or not soft.out.unsettled or not self.ordered, soft
            assert soft.mapped == (self.table.mapped.get(soft.id) is soft), soft
        for group in self.table.groups:
            leading = (self.table.mapped[b] for b in group.path if b in self.table.mapped)
            far = next((soft for soft in leading if soft.leads(group.path)), group.side)
            assert group.hop is far, (group.path, group.hop)


def _carried(soft: Lane, group: Group, excluded: Excluded) -> bool:
    """Whether the copy was for this group as well: the link is on its path, and nobody there is excluded. Not
    whether another link leads there: as printed, who gets a copy serves all beyond itself."""
    return isinstance(soft, Soft) and soft.leads(group.path) and excluded.isdisjoint(group.path)
