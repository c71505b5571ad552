"""Before the tree changes around a broker, nobody may pass it (paper, 6: the initialisation of a move).

The broker that is about to leave or move has everybody within Delta hops drop the soft links that pass it or
end at it, and make no new ones. Each answers when its own are closed, when what left on that side with their
names in its exclude list is settled, and when those behind it have answered. From then on what is under way
to that region travels on primary links alone. A ban ends with a word of the broker, when the broker is gone
from the map, or after a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from grapevine.wire.mesh import BypassAllowed, BypassBan, BypassGone
from overlay.behaviour import Quiet
from overlay.coordinate.permissions import Operation
from overlay.core import Core
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import Soft
from overlay.tree.peer import Peer, peers_of

DEADLINE_S = 10.0  # for all answers; whoever is silent is taken as gone


class Ban:
    """`complete` while everybody that should has obeyed: nobody was out of reach or silent."""

    __slots__ = ("asked", "broker", "complete", "done", "others_done", "unsettled")

    def __init__(self, broker: int, done: Callable[[float], None]) -> None:
        self.broker = broker
        self.done: Callable[[float], None] | None = done
        self.others_done = False
        self.complete = True
        self.asked: list[Peer] = []
        self.unsettled = 0  # streams that must have settled what was sent before


class Bans(Quiet):
    def __init__(self, neighbourhoods: Neighbourhoods, shortcuts: Shortcuts) -> None:
        self.neighbourhoods = neighbourhoods
        self.shortcuts = shortcuts
        self.leave_tree: Callable[[float], None] = lambda now: None
        self._bans: dict[Operation, Ban] = {}
        self._gathers: dict[Operation, Gather] = {}
        self._number = 0
        self.leaving = False
        shortcuts.on_removed = self._removed
        neighbourhoods.changed.append(self._map_changed)

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(BypassBan, self.on_ban)
        core.on(BypassGone, self.on_gone)
        core.on(BypassAllowed, self.on_allowed)

    # --- the broker that leaves or moves ----------------------------------------------------------------

    def leave(self, now: float) -> None:
        """Leave the overlay when nobody passes us any more."""
        if self.leaving:
            return
        self.leaving = True
        if self.core.settings.overlay.delta == 1:
            self.leave_tree(now)
        else:
            self.ban(self.leave_tree, now)

    def ban(self, done: Callable[[float], None], now: float) -> Operation:
        """Have everybody within Delta hops keep off this broker; `done` when they do."""
        self._number += 1
        core = self.core
        operation = (core.id, core.incarnation, self._number)
        self._begin(operation, core.id, core.settings.overlay.delta, None, done, now)
        return operation

    def complete(self, operation: Operation) -> bool:
        """Whether all have obeyed, nobody being out of reach; asked when the ban is done."""
        ban = self._bans.get(operation)
        return ban is not None and ban.complete

    def allow(self, operation: Operation, now: float) -> None:
        self._end(operation, self.core.settings.overlay.delta)

    # --- everybody ----------------------------------------------------------------------------------

    def on_ban(self, peer: Peer, message: BypassBan, now: float) -> None:
        operation = (message.origin, message.incarnation, message.number)
        link = peer.link

        def answer(later: float) -> None:
            if link is not None and peer.link is link:
                self.core.send(BypassGone(*operation, self.complete(operation)), link)

        if operation in self._bans:  # on a cycle it comes round
            answer(now)
        else:
            self._begin(operation, message.broker, message.hops - 1, peer, answer, now)

    def _begin(
        self,
        operation: Operation,
        broker: int,
        hops: int,
        source: Peer | None,
        done: Callable[[float], None],
        now: float,
    ) -> None:
        ban = self._bans[operation] = Ban(broker, done)
        banned = self.shortcuts.banned
        banned[broker] = banned.get(broker, 0) + 1
        for soft in list(self.shortcuts.softs.out.values()):
            if self._passes(soft, broker):
                self.shortcuts.close(soft, now)
                self._tell(soft, broker, now)
        gather = self._gathers[operation] = Gather(
            lambda gather, later: self._others(operation, gather, later)
        )
        due = [p for p in peers_of(self.core).values() if p is not source and hops > 0]
        ban.asked = [p for p in due if p.link is not None]
        ban.complete = len(due) == len(ban.asked)
        for peer in ban.asked:
            gather.wait_for(peer)
        if ban.asked:
            self.core.tell(BypassBan(*operation, broker, hops), *ban.asked)
        gather.deadline = self.core.timers.at(now + DEADLINE_S, gather.expire)
        gather.start(now)
        lifetime = DEADLINE_S + 2 * self.core.settings.links.lost_after_s
        self.core.timers.at(now + lifetime, lambda later: self._end(operation, 0))

    def _tell(self, soft: Soft, broker: int, now: float) -> None:
        here, nearby = self.core.name, self.neighbourhoods.master.nearby
        who = nearby[broker].name if broker in nearby else here
        text = f"soft link {here} → {soft.name} must go: {who} moves or leaves"
        self.core.event(now, "soft.banned", text, to=soft.name, because=who, **{"from": here})

    def _passes(self, soft: Soft, broker: int) -> bool:
        return broker in soft.path or broker == self.core.id

    def on_gone(self, peer: Peer, message: BypassGone, now: float) -> None:
        gather = self._gathers.get((message.origin, message.incarnation, message.number))
        if gather is not None:
            gather.answer(peer, message.complete, now)

    def _others(self, operation: Operation, gather: Gather, now: float) -> None:
        self._gathers.pop(operation, None)
        if (ban := self._bans.get(operation)) is not None:
            ban.others_done = True
            ban.complete = ban.complete and not gather.missing and all(gather.answers)
            self.core.timers.at(now + DEADLINE_S, lambda later: self._finish(ban, later))
            self._finish_if_obeyed(ban, now)

    def _obeyed(self, ban: Ban) -> bool:
        mine = any(self._passes(soft, ban.broker) for soft in self.shortcuts.softs.out.values())
        return not mine and not ban.unsettled

    def _finish_if_obeyed(self, ban: Ban, now: float) -> None:
        if ban.others_done and self._obeyed(ban):
            self._finish(ban, now)

    def _finish(self, ban: Ban, now: float) -> None:
        """All have obeyed, or it has taken too long; whoever asked may have withdrawn it meanwhile."""
        if ban.done is not None and ban in self._bans.values():
            ban.complete = ban.complete and self._obeyed(ban)
            done, ban.done = ban.done, None
            done(now)

    def _removed(self, soft: Soft, now: float) -> None:
        """What left on its side before may name it: the ban is obeyed when that is settled."""
        bans = [b for b in self._bans.values() if b.done is not None and self._passes(soft, b.broker)]
        if bans:
            outs = [other.out for other in self.shortcuts.mapped() if other.path[:1] == soft.path[:1]]
            peers = peers_of(self.core)
            outs += [peers[broker].out for broker in soft.path[:1] if broker in peers]
            for ban in bans:
                ban.unsettled += len(outs)
                for out in outs:
                    out.when_settled(partial(self._settled, ban))
                self._look_soon(ban)

    def _settled(self, ban: Ban) -> None:
        ban.unsettled -= 1
        self._look_soon(ban)

    def _look_soon(self, ban: Ban) -> None:
        """Not from inside what settles a stream, or ends a session."""
        self.core.timers.at(self.core.now, lambda later: self._finish_if_obeyed(ban, later))

    # --- the end --------------------------------------------------------------------------------------

    def on_allowed(self, peer: Peer, message: BypassAllowed, now: float) -> None:
        self._end((message.origin, message.incarnation, message.number), message.hops - 1)

    def _end(self, operation: Operation, hops: int) -> None:
        ban = self._bans.pop(operation, None)
        if ban is None:
            return
        if (gather := self._gathers.pop(operation, None)) is not None:
            gather.abandon()
        banned = self.shortcuts.banned
        banned[ban.broker] -= 1
        if not banned[ban.broker]:
            del banned[ban.broker]
        if hops > 0 and ban.asked:
            self.core.tell(BypassAllowed(*operation, hops), *ban.asked)

    def _map_changed(self, now: float) -> None:
        """Who is gone from the map has left."""
        for operation, ban in list(self._bans.items()):
            if ban.broker not in self.neighbourhoods.master and ban.broker != self.core.id:
                self._end(operation, 0)

    def link_lost(self, session: Session, now: float) -> None:
        for ban in self._bans.values():
            ban.asked = [peer for peer in ban.asked if peer is not session]

    def validate(self) -> None:
        for broker, count in self.shortcuts.banned.items():
            assert count == sum(ban.broker == broker for ban in self._bans.values()), broker
