"""SPEC M6: how busy and how far the brokers of the neighbourhood are.

A broker that chooses links tells its neighbours once a round what it knows of itself and of those behind it,
and asks for theirs; whoever is asked answers. Load is the output rate (paper, 6): the input of a broker with
subscribers cannot be avoided, what it relays can.
"""

from __future__ import annotations

from grapevine.wire.mesh import Load, Loads
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Session
from overlay.softlinks.master import MasterOverlayMap
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.tree.peer import Peer, peers_of


class LoadExchange(Quiet):
    def __init__(self, neighbourhoods: Neighbourhoods) -> None:
        self.neighbourhoods = neighbourhoods
        self.rate = 0.0  # publications a second that we send to brokers
        self.known: dict[int, Load] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Loads, self.on_loads)

    @property
    def master(self) -> MasterOverlayMap:
        return self.neighbourhoods.master

    def on_loads(self, peer: Peer, message: Loads, now: float) -> None:
        for load in message.loads:
            if load.broker in self.master:
                self.known[load.broker] = load
        if message.asks:
            self.tell(peer, False)

    def ask(self) -> None:
        self.known = {broker: load for broker, load in self.known.items() if broker in self.master}
        for peer in peers_of(self.core).values():
            self.tell(peer, True)

    def tell(self, peer: Peer, asks: bool) -> None:
        """Us and those behind us that it may pass: at most Delta - 1 hops from it."""
        capacity = self.core.settings.softlinks.uplink_msgs_s
        loads = [Load(self.core.id, self.rate, capacity, peer.round_trip_s)]
        for broker, distance in self.master.distance.items():
            if 0 < distance < self.master.delta - 1 and self.master.path(broker)[0] != peer.id:
                if (load := self.known.get(broker)) is not None:
                    loads.append(load)
        self.core.tell(Loads(asks, tuple(loads)), peer)

    def normalised(self, broker: int) -> float:
        """Output rate by capacity where that is known, else by the largest rate known."""
        load = self.known.get(broker)
        if load is None:
            return 0.0
        most = load.capacity or max((other.rate for other in self.known.values()), default=0.0)
        return min(1.0, load.rate / most) if most else 0.0

    def slowness_s(self, broker: int) -> float:
        load = self.known.get(broker)
        return load.round_trip_s if load is not None else 0.0

    def link_lost(self, session: Session, now: float) -> None:
        self.known = {broker: load for broker, load in self.known.items() if broker in self.master}
