"""SPEC T1: a broker leaves and nothing is lost (DECISIONS 13).

The leaver sends its clients away and asks its neighbours to pause what is for it. When all it had is
settled it says so and is gone. Its children (the heirs) dial its parent (the successor; below a leaving
root the lowest child); tables are exchanged over the new links; then what was paused is matched anew,
towards the new links only, before anything newer. A leaver that had lost its parent tells the successor
where it looked for another: below it nobody else may know. A leaver that breaks off in between is a broker
whose link broke, nothing else. What two that leave at once have sent may be paused before each other, however
far apart they are: who has waited long lets its neighbours go on for a while, and asks again.
"""

from __future__ import annotations

from grapevine.wire.messages import LeaveDelayed, LeaveDone, LeaveHeld, Leaving
from overlay.behaviour import Quiet
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.reroute import Unsettled, cut, let_go, send_anew, unsettled
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.tree.join import Join
from overlay.tree.peer import Peer, peers_of
from overlay.tree.router import TreeRouter
from overlay.tree.sync import Sync

LOOK_AGAIN_S = 0.02


class Departure:
    """A neighbour that leaves, and who takes its place for us."""

    __slots__ = ("addresses", "done", "heirs", "leaver", "successor")

    def __init__(self, leaver: Peer, message: Leaving) -> None:
        self.leaver = leaver
        self.successor = message.successor
        self.addresses = message.successor_addresses  # the successor's; to itself, where to find a parent
        self.heirs = message.heirs
        self.done = False

    def places(self, broker: int) -> tuple[int, ...]:
        """Who will be the neighbours of this one in the leaver's place."""
        return (self.successor,) if broker in self.heirs else self.heirs


class Leave(Quiet):
    def __init__(
        self,
        join: Join,
        sync: Sync,
        attachments: Attachments,
        router: TreeRouter,
        clients_s: float = 5.0,
    ) -> None:
        self.join = join
        self.neighbours = join.neighbours
        self.sync = sync
        self.attachments = attachments
        self.router = router
        self.clients_s = clients_s  # what clients get to attach elsewhere
        self.departures: dict[int, Departure] = {}
        self._later: dict[Peer, Leaving] = {}  # who asks while another leaves
        self._successor = 0  # whom we have named when we asked
        self._pausing: Gather | None = None  # who is to say that it has paused
        self._until = 0.0  # so long we wait for what we had to be settled
        sync.forget_stale.append(self._synced)

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Leaving, self.on_leaving)
        core.on(LeaveHeld, self.on_leave_held)
        core.on(LeaveDone, self.on_leave_done)
        core.on(LeaveDelayed, self.on_leave_delayed)

    # --- the leaver -------------------------------------------------------------------------------------

    def leave(self, now: float) -> None:
        """Start to leave; `core.finished` is set at the end."""
        if self.core.leaving:
            return
        self.core.leaving = True
        self.core.event(now, "leaving", f"{self.core.name} leaves the overlay")
        self.attachments.send_away(now)
        self._await_clients(now + self.clients_s, now)

    def _await_clients(self, deadline: float, now: float) -> None:
        if self.core.numbered and now < deadline:
            self.core.timers.at(now + LOOK_AGAIN_S, lambda later: self._await_clients(deadline, later))
            return
        for client in list(self.core.clients.values()):
            self.attachments.end(client, now)
        self._await_neighbours(now)

    def _await_neighbours(self, now: float) -> None:
        """One whose link is broken cannot be told of an heir: it comes back first, or is lost and what
        was for it is cut. Of two neighbours that leave one waits: who is named as successor must stay until
        the heirs have come, and an heir must have its new neighbour before it names one."""
        if self.departures or any(peer.link is None for peer in peers_of(self.core).values()):
            self.core.timers.at(now + LOOK_AGAIN_S, self._await_neighbours)
        else:
            self.neighbours.closed = self.join.stopped = True
            self._ask_to_hold(now)

    def _ask_to_hold(self, now: float) -> None:
        peers = [peer for peer in peers_of(self.core).values() if peer.link is not None]
        parent = self.join.parent
        if parent is None or parent.link is None:
            parent = min(peers, key=lambda peer: peer.id, default=None)
        if parent is None:
            self.core.finished = True
            return
        self._successor = parent.id
        heirs = tuple(peer.id for peer in peers if peer is not parent)
        self._until = now + self._patience_s()
        self._pausing = Gather(lambda gather, later: self._await_settled(later))
        for peer in peers:
            self._pausing.wait_for(peer)
        if parent is not self.join.parent:
            self.core.tell(Leaving(parent.id, parent.name, self.join.sought(), heirs), parent)
            peers.remove(parent)
        self.core.tell(Leaving(parent.id, parent.name, parent.addresses, heirs), *peers)
        self._pausing.start(now)

    def _patience_s(self) -> float:
        """Never the same at two brokers: one that goes on is enough for the other to leave."""
        return self.core.settings.links.lost_after_s * (1 + self.core.id / 2**64)

    def on_leave_held(self, peer: Peer, message: LeaveHeld, now: float) -> None:
        if self._pausing is not None:
            self._pausing.answer(peer, None, now)

    def _await_settled(self, now: float) -> None:
        peers = peers_of(self.core).values()
        if any(self._is_first(departure) for departure in self.departures.values()):
            # Its heirs come to us; then there are others to be told of our own.
            self.core.timers.at(now + LOOK_AGAIN_S, self._await_neighbours)
            return
        if any(peer.link is None for peer in peers):
            # It broke while we were waiting: it comes back or is lost, and all are asked again.
            self._stay(now)
            self._await_neighbours(now)
            return
        if self.core.numbered or any(p.out.unsettled or p.incoming.records for p in peers):
            if now < self._until:
                self.core.timers.at(now + LOOK_AGAIN_S, self._await_settled)
            else:
                self._stay(now)
                self.core.tell(LeaveDelayed(), *peers)
                self.core.timers.at(now + self._patience_s() / 4, self._await_neighbours)
            return
        self.join.left()
        self.core.tell(LeaveDone(), *peers)
        for peer in list(peers):
            if (link := peer.link) is not None:
                peer.link = None
                self.core.close(link)
        self.core.finished = True

    def _stay(self, now: float) -> None:
        self.neighbours.closed = self.join.stopped = False
        self.join.try_again(now)

    def _is_first(self, departure: Departure) -> bool:
        """Of two that leave at once, who has named the other as successor; of two that have, the lower."""
        if departure.successor != self.core.id:
            return False
        return departure.leaver.id != self._successor or departure.leaver.id < self.core.id

    # --- its neighbours -----------------------------------------------------------------------------------

    def on_leaving(self, peer: Peer, message: Leaving, now: float) -> None:
        """One after the other: while one leaves, its heirs are not told what lies behind it, so those of a
        second would be told too little."""
        if self.departures and peer.id not in self.departures:
            self._later[peer] = message
            return
        departure = self.departures[peer.id] = Departure(peer, message)
        self.neighbours.heirs_of = self.departures
        peer.paused = True
        peer.heirs = departure.places(self.core.id)
        self._heirs_wait(departure)
        self.join.learn(message.successor_addresses)  # on disk before the leaver hears that we have paused
        self.core.tell(LeaveHeld(), peer)
        if self.core.id in message.heirs:
            self._addresses = message.successor_addresses

    def on_leave_delayed(self, peer: Peer, message: LeaveDelayed, now: float) -> None:
        self._later.pop(peer, None)
        departure = self.departures.get(peer.id)
        if departure is not None and not departure.done:
            self._stays(departure, now)
            peer.touch()

    def _heirs_wait(self, departure: Departure) -> None:
        """What is for an heir waits behind what is paused for the leaver."""
        for peer in self._heirs(departure):
            self.router.next_hop_override[peer] = departure.leaver
        self.router.subscriptions.generation += 1

    def _heirs(self, departure: Departure) -> list[Peer]:
        """The neighbours that we have, or will have, in the leaver's place."""
        peers = peers_of(self.core)
        return [peers[broker] for broker in departure.leaver.heirs if broker in peers]

    def on_leave_done(self, peer: Peer, message: LeaveDone, now: float) -> None:
        departure = self.departures.get(peer.id)
        if departure is None:
            return
        departure.done = True
        if self.join.parent is peer:
            self.join.parent = None
            if departure.successor == self.core.id:
                self.join.inherit(departure.addresses)
        if self.core.id in departure.heirs:
            self._dial(departure, now)
        deadline = now + self.core.settings.links.lost_after_s
        self.core.timers.at(deadline, lambda later: self._finish(departure, later))
        self._finish_if_complete(departure, now)

    def _dial(self, departure: Departure, now: float) -> None:
        def greeted(peer: Peer, later: float) -> None:
            self.join.adopt(peer, self._addresses[0] if self._addresses else "", later)

        def failed(reason: str, text: str, later: float) -> None:
            if departure.leaver.id in self.departures and not self.join.stopped:
                pause = self.core.settings.links.redial_s
                self.core.timers.at(later + pause, lambda again: self._dial(departure, again))

        if departure.leaver.id in self.departures:
            self.join.handshake.dial(self._addresses, greeted, failed, now, replaces=departure.leaver.id)

    def link_up(self, session: Session, now: float) -> None:
        for departure in self.departures.values():
            if session in self._heirs(departure):
                self._heirs_wait(departure)

    def _synced(self, peer: Peer, now: float) -> None:
        for departure in list(self.departures.values()):
            if departure.done:
                self._finish_if_complete(departure, now)

    def _finish_if_complete(self, departure: Departure, now: float) -> None:
        heirs = self._heirs(departure)
        if len(heirs) == len(departure.leaver.heirs) and all(heir.synced_by_peer for heir in heirs):
            self._finish(departure, now)

    def _finish(self, departure: Departure, now: float) -> None:
        leaver = departure.leaver
        if self.departures.pop(leaver.id, None) is not departure:
            return
        heirs = self._heirs(departure)
        for peer in heirs:
            self.router.next_hop_override.pop(peer, None)
        self._match_anew(leaver, heirs)
        leaver.paused = False
        leaver.departed = True
        self.router.subscriptions.generation += 1
        self.core.lose(leaver, now)
        if self.join.parent is None:
            self.join.try_again(now)
        self._take_next(now)

    def _take_next(self, now: float) -> None:
        if self._later and not self.departures:
            peer = next(iter(self._later))
            self.on_leaving(peer, self._later.pop(peer), now)

    def _match_anew(self, leaver: Peer, heirs: list[Peer]) -> None:
        """Give what was paused to the new links that want it; what the leaver's own word still calls for is
        for somebody whom no heir has named."""
        undelivered: list[Unsettled] = []

        def send(one: Unsettled) -> list[Peer]:
            sides = self.router.sides(one.publication.attributes)
            if leaver in sides:
                undelivered.append(one)
            wanting = [p for p in heirs if p in sides and p.incoming is not one.record.incoming]
            for peer in wanting:
                peer.out.exclude([one.publication], one.names)
            return wanting

        send_anew(unsettled(leaver), send)
        cut(undelivered)
        let_go(leaver)

    def link_down(self, session: Session, now: float) -> None:
        """A leaver that breaks off before it is done is a broker whose link broke."""
        self._later.pop(session, None)  # type: ignore[call-overload]
        departure = self.departures.get(session.id)
        if departure is not None and departure.leaver is session and not departure.done:
            self._stays(departure, now)
            if session is self.join.parent:
                self.join.try_again(now)

    def _stays(self, departure: Departure, now: float) -> None:
        del self.departures[departure.leaver.id]
        departure.leaver.paused = False
        for peer in self._heirs(departure):
            self.router.next_hop_override.pop(peer, None)
        self.router.subscriptions.generation += 1
        self._take_next(now)

    def link_lost(self, session: Session, now: float) -> None:
        self.departures.pop(session.id, None)
        for peer, leaver in list(self.router.next_hop_override.items()):
            if session in (peer, leaver):
                del self.router.next_hop_override[peer]
        self._take_next(now)

    def validate(self) -> None:
        for departure in self.departures.values():
            assert departure.leaver.paused, departure.leaver
