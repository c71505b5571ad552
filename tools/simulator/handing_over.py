"""Clients are handed over from one broker to another, at any time."""

from __future__ import annotations

from collections import Counter
from random import Random

from overlay.core import Core
from overlay.handover.handover import Handovers, Outcome
from tools.simulator.broker import BrokerHost
from tools.simulator.network import Network
from tools.simulator.world import World

LOOK_S, LOOKS = 0.01, 200  # how often it is asked whether the offers are out


def handovers_of(core: Core) -> Handovers:
    return next(one for one in core.behaviours if isinstance(one, Handovers))


class HandingOver:
    """`counts` has what became of the clients."""

    def __init__(self, world: World, network: Network, random: Random, counts: Counter[str]) -> None:
        self.world = world
        self.network = network
        self.random = random
        self.counts = counts

    def some(self, running: list[BrokerHost]) -> None:
        """Some clients of one broker, or all, are to go to another."""
        random = self.random
        sources = [broker for broker in running if broker.core is not None and broker.core.clients]
        if not sources:
            return
        source, target = random.choice(sources), random.choice(running)
        core = source.core
        assert core is not None
        clients = list(core.clients.values())
        if random.random() < 0.5:
            clients = random.sample(clients, random.randint(1, len(clients)))
        handovers_of(core).move(clients, target.name, self._ended, source.clock())
        source.wake()
        if random.random() < 0.5:
            self._slow_when_offered((source, target, LOOKS))

    def _ended(self, outcomes: list[Outcome], now: float) -> None:
        self.counts.update(f"handover: {one.outcome}" for one in outcomes)

    def _slow_when_offered(self, state: tuple[BrokerHost, BrokerHost, int]) -> None:
        """What is on its way to the old broker by then comes late, but for what the new one says: it must be
        waited for."""
        source, target, looks = state
        if source.core is None or not looks:
            return
        if not handovers_of(source.core).under_way:
            self.world.after(LOOK_S, self._slow_when_offered, (source, target, looks - 1))
            return
        self.counts["slow handover"] += 1
        for end in source.ends.values():
            other = end.other
            if other is not None and isinstance(other.host, BrokerHost) and other.host is not target:
                self.network.clog(other, self.world.now + self.random.uniform(0.3, 2.0))
