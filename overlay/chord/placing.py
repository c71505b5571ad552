"""Users of a ring go to the broker whose others want the same topics (DYNATOPS 4, row R3).

A client whose subscriptions have changed, and are confirmed, is judged by `placement.choose` among the
brokers of its cluster, and handed over if another one is better. Home is judged by what it holds for others
and by what the client had there when it was last judged (D-3): all that it wants is there by now, so that
home would always win otherwise. A client rests after a move; one in PINNED is never moved, and shows what
placing is worth: how often do brokers join or leave a topic for a change of such a client, and of another?
"""

from __future__ import annotations

from collections import Counter

from grapevine.wire.handover import MOVED
from grapevine.wire.placement import ClusterMove
from overlay.behaviour import Quiet, Status
from overlay.chord.clusters import Cluster
from overlay.chord.placement import Candidate, Tally, choose, costs_more
from overlay.chord.planes import Planes
from overlay.chord.router import ChordRouter
from overlay.core import Core
from overlay.data.client import Client
from overlay.handover.handover import GIVE_UP_S, Handovers, Outcome
from overlay.links.session import Session
from overlay.settings import PlacementSettings
from overlay.timers import Timer

WAIT_S = 1.0  # after a change: others often follow
PINNED = 10  # one client in so many, by its id


class Placement(Quiet):
    name = "placement"
    after = ("Handovers", "Cluster")

    def __init__(
        self,
        settings: PlacementSettings,
        planes: Planes,
        router: ChordRouter,
        cluster: Cluster,
        handovers: Handovers,
    ) -> None:
        self.settings, self.planes, self.router = settings, planes, router
        self.cluster, self.handovers = cluster, handovers
        self.moved = self.stayed = 0
        self.tally = Tally()
        self._due: dict[Client, None] = {}
        self._judged: dict[Client, frozenset[int]] = {}  # what it wanted then
        self._moving: set[Client] = set()
        self._leaving: set[Client] = set()  # moved: what ends here is no change of the user's
        self._resting: dict[int, float] = {}  # client -> until when, the first to end first
        self._arriving: dict[int, float] = {}  # the same of who is being handed over to us, if we never hear
        self._timer: Timer | None = None
        cluster.tally = lambda: self.tally
        router.on_change.append(self._changed)

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(ClusterMove, self.on_move)

    # --- changes ----------------------------------------------------------------------------------------

    def _changed(self, client: Session, topics: int, now: float) -> None:
        """One subscription more or less, and so many topics joined or left by this broker."""
        moves = client.id in self._arriving or client in self._leaving
        self.tally = self.tally.counted(pinned(client.id), not moves, topics)
        if isinstance(client, Client) and not (client.ended or moves or pinned(client.id)):
            self._due[client] = None
            self._place_later(now)

    def _place_later(self, now: float) -> None:
        if self._timer is None:
            self._timer = self.core.timers.at(now + WAIT_S, self._place)

    def _place(self, now: float) -> None:
        self._timer = None
        self._wake(now)
        if not self._unfit():
            orders: dict[int, list[Client]] = {}
            load = self.cluster.load()
            for client in [client for client in self._due if not self._waits(client)]:
                del self._due[client]
                target = self._best(client, load)
                if target != self.core.id:
                    orders.setdefault(target, []).append(client)
            for target, clients in orders.items():
                self._move(clients, target, now)
        if self._due:
            self._place_later(now)

    def _unfit(self) -> bool:
        return self.core.leaving or self.planes.next is not None or not self.planes.membership.member

    def _waits(self, client: Client) -> bool:
        busy = client in self._moving or client in self.handovers.under_way
        if busy or client.id in self._arriving or client.id in self._resting or client.link is None:
            return True
        return not all(self.planes.known.get(topic) for topic in self._topics(client))

    def _wake(self, now: float) -> None:
        for waiting in (self._resting, self._arriving):
            while waiting and waiting[first := next(iter(waiting))] <= now:
                del waiting[first]

    def _rest(self, client: int, now: float) -> None:
        self._resting.pop(client, None)
        self._resting[client] = now + self.settings.rest_s

    # --- the decision -----------------------------------------------------------------------------------

    def _topics(self, client: Client) -> Counter[int]:
        """And how many of its subscriptions name each."""
        known, keys = self.router.subscriptions, client.subscriptions.values()
        return Counter(topic for key in keys if key in known for topic in known[key].topics)

    def _best(self, client: Client, load: int) -> int:
        wanted, had = self._topics(client), self._judged.get(client, frozenset())
        self._judged[client] = frozenset(wanted)
        if not wanted:
            return self.core.id
        everybodys = self.planes.subscribed
        at_home = {topic for topic, own in wanted.items() if topic in had or everybodys[topic] > own}
        cluster = [Candidate(self.core.id, at_home, load), *self.cluster.candidates()]
        best = choose(wanted, cluster, self.core.id, self.settings.load_weight, self.settings.margin)
        return self.core.id if best is None else best

    def _move(self, clients: list[Client], target: int, now: float) -> None:
        name = self.cluster.colleagues[target].node.name
        by_name = {client.name: client for client in clients}
        self._moving.update(clients)
        self.cluster.tell(target, *(ClusterMove(client.id, False) for client in clients))

        def finished(outcomes: list[Outcome], later: float) -> None:
            moved = 0
            for one in outcomes:
                moved += self._ended(by_name[one.client], one.outcome == MOVED, target, later)
            if moved:
                text = f"{moved} clients went to {name}, where others want the same"
                self.core.event(later, "placement.moved", text, target=name, moved=moved)

        self.handovers.move(clients, name, finished, now)

    def _ended(self, client: Client, moved: bool, target: int, now: float) -> bool:
        self._moving.discard(client)
        self._rest(client.id, now)
        self.moved += moved
        self.stayed += not moved
        if moved and not client.lost:
            self._leaving.add(client)
            self._due.pop(client, None)
        self.cluster.tell(target, ClusterMove(client.id, True))
        return moved

    # --- who comes, who goes ----------------------------------------------------------------------------

    def on_move(self, session: Session, message: ClusterMove, now: float) -> None:
        """It rests here; what it came with was judged where it came from."""
        self._wake(now)
        self._arriving.pop(message.client, None)
        if not message.done:
            self._arriving[message.client] = now + GIVE_UP_S + self.settings.rest_s
            return
        self._rest(message.client, now)
        if (client := self.core.clients.get(message.client)) is not None:
            self._judged[client] = frozenset(self._topics(client))
            self._due.pop(client, None)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Client):
            self._due.pop(session, None)
            self._judged.pop(session, None)
            self._leaving.discard(session)

    # --- what it looks like -----------------------------------------------------------------------------

    def status(self) -> Status:
        colleagues = self.cluster.colleagues.values()
        total = Tally(*map(sum, zip(self.tally, *(one.tally for one in colleagues), strict=True)))
        return {
            "cluster": sorted(one.node.name for one in colleagues),
            "moved": self.moved,
            "stayed": self.stayed,
            "moving": len(self._moving),
            "waiting": len(self._due),
            "joins_and_leaves_a_change": {"placed": total.placed_rate(), "pinned": total.pinned_rate()},
            "costs_more_than_it_saves": costs_more(total),
        }

    def validate(self) -> None:
        assert all(not client.lost for client in (*self._due, *self._judged, *self._leaving))


def pinned(client: int) -> bool:
    return client % PINNED == 0
