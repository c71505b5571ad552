"""Small one-hop clusters told step by step: b0, b1 .. are matchers, the last ones dispatchers."""

from __future__ import annotations

from grapevine.filters import parse
from grapevine.wire.onehop import Span
from overlay.core import Core
from overlay.onehop.handover import Handover
from overlay.onehop.matcher import Matching
from overlay.settings import ClientSettings, OneHopSettings
from tests.sim.stories import LINKS, Story
from tools.simulator.cluster import unrest
from tools.simulator.scenario import Brokers, Clients, Scenario, Wires
from tools.simulator.simulation import Simulation
from tools.simulator.tables import behaviour


class ClusterStory(Story):
    """10 ms from host to host; every value has an owner when it begins."""

    def __init__(
        self,
        matchers: int = 1,
        dispatchers: int = 2,
        *,
        ordered: bool = True,
        onehop: OneHopSettings | None = None,
    ) -> None:
        scenario = Scenario(
            "cluster story",
            brokers=Brokers("onehop", matchers + dispatchers, ordered=ordered, dispatchers=dispatchers),
            clients=Clients(publishers=0, subscribers=0),
            network=Wires(latency="constant", scale_s=0.01, jitter_s=0.0, skew_s=0.0),
            links=LINKS,
            attachments=ClientSettings(),
            onehop=onehop or OneHopSettings(dimensions=("x", "y")),
        )
        Simulation.__init__(self, scenario, 0)

    anything = parse("exists x")

    def begin(self) -> ClusterStory:
        for broker in self.brokers:
            broker.start()
        self.wait(lambda: not unrest(self.brokers) and all(core.ready for core in self.cores()))
        return self

    def core(self, number: int) -> Core:
        core = self.brokers[number].core
        assert core is not None
        return core

    def handover(self, number: int) -> Handover:
        return behaviour(self.core(number), Handover)

    def matching(self, number: int) -> Matching:
        return behaviour(self.core(number), Matching)

    def hand_over(self, giver: int, taker: int, dimension: int, span: Span) -> None:
        """As a newcomer's Split would, or a boundary that moves."""
        core = self.core(giver)
        self.handover(giver)._offer(dimension, span, self.core(taker).id, core.now)
        self.brokers[giver].wake()
