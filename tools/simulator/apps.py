"""What runs in a client: it advertises, subscribes, publishes in bursts and changes its mind.

After a crash the same application starts again under its name. In the last phase it only publishes what it is
told to.
"""

from __future__ import annotations

from random import Random

from grapevine.client.session import AdvertisementState, SubscriptionState
from grapevine.filters.normal import Filter
from tools.simulator.clients import ClientHost
from tools.simulator.scenario import Load, draw
from tools.simulator.workloads import Workload

AGAIN_S = 1.0  # a refused advertisement is tried again


class App:
    keeps_incarnation = False  # when it starts again after a crash

    def __init__(
        self,
        host: ClientHost,
        work: Workload,
        random: Random,
        load: Load,
        *,
        publishes: bool,
        subscriptions: int,
        every_s: float,
    ) -> None:
        self.host = host
        self.work = work
        self.random = random
        self.load = load
        self.publishes = publishes
        self.wanted = subscriptions
        self.every_s = every_s
        self.active = True
        self.advertisements: list[AdvertisementState] = []
        self.subscriptions: list[SubscriptionState] = []
        self._advertises: Filter | None = None

    def start(self) -> None:
        host = self.host
        host.start(host.incarnation if self.keeps_incarnation and host.life else None)
        self.subscriptions = []
        self.advertisements = []
        if self.publishes:
            self._advertises = self.work.advertisement(self.random)
            self.advertisements.append(host.advertise(self._advertises))
            host.world.after(self.random.uniform(0, 2 * self.every_s), self._publish, host.life)
        for _ in range(self.wanted):
            self._subscribe()
        if self.load.churn_s and self.wanted:
            host.world.after(self.random.expovariate(1 / self.load.churn_s), self._churn, host.life)
        if self.load.churn_s and self.publishes:
            host.world.after(self.random.expovariate(0.5 / self.load.churn_s), self._readvertise, host.life)

    def _subscribe(self) -> None:
        self.subscriptions.append(self.host.subscribe(self.work.subscription(self.random)))

    def _churn(self, life: int) -> None:
        host = self.host
        if life != host.life or not self.active:
            return
        if self.subscriptions and self.random.random() < 0.5:
            chosen = self.subscriptions.pop(self.random.randrange(len(self.subscriptions)))
            host.unsubscribe(chosen)
        elif len(self.subscriptions) <= 2 * self.wanted:
            self._subscribe()
        host.world.after(self.random.expovariate(1 / self.load.churn_s), self._churn, life)

    def _readvertise(self, life: int) -> None:
        """Advertise a second filter beside the first, or take it back."""
        host = self.host
        if life != host.life or not self.active:
            return
        if len(self.advertisements) > 1:
            host.unadvertise(self.advertisements.pop())
        elif self.advertisements and self.advertisements[0].request.error is None:
            self.advertisements.append(host.advertise(self.work.advertisement(self.random)))
        host.world.after(self.random.expovariate(0.5 / self.load.churn_s), self._readvertise, life)

    def _publish(self, life: int) -> None:
        if life == self.host.life and self.active:
            self.publish(draw(self.load.burst, self.random))
            self.host.world.after(self.random.expovariate(1 / self.every_s), self._publish, life)

    def publish(self, count: int) -> None:
        """A burst, if the advertisement stands."""
        if self.check_advertised():
            allowed = self.random.choice(self.advertisements).filter
            self.host.publish(*(self.work.publication(self.random, allowed) for _ in range(count)))

    def check_advertised(self) -> bool:
        """False while there is no advertisement; a refused one is asked for again."""
        refused = [a for a in self.advertisements if a.request.error is not None]
        if refused and self.host.session is not None:
            assert self._advertises is not None
            self.advertisements = [self.host.advertise(self._advertises)]
        return bool(self.advertisements)

    @property
    def idle(self) -> bool:
        if self.publishes and any(a.request.error is not None for a in self.advertisements):
            self.check_advertised()
            return False
        return self.host.up and self.host.idle
