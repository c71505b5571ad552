"""Small worlds told step by step: a chain of brokers, clients by hand, faults where the story wants them."""

from __future__ import annotations

from collections.abc import Callable

from grapevine.client.session import AdvertisementState, SubscriptionState
from grapevine.filters import parse
from grapevine.wire.messages import Message
from overlay.core import Core
from overlay.links.session import Remote
from overlay.outbox import Kept
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, HealingSettings, LinkSettings, OverlaySettings, TreeSettings
from tools.simulator.broker import BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.network import End
from tools.simulator.owed import Life
from tools.simulator.scenario import Brokers, Clients, Durable, Scenario, Wires
from tools.simulator.simulation import Simulation

LINKS = LinkSettings(lost_after_s=5.0, ping_s=0.5, greet_s=1.0, redial_s=0.3)


class Onlooker:
    """Watches a broker that is not part of the story's overlay: remembers why it stopped."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def before(self, broker: BrokerHost, end: End, message: Message) -> bool:
        return True

    def sending(self, broker: BrokerHost, message: Message) -> bool:
        return True

    def after(self, broker: BrokerHost) -> None: ...

    def stopped(self, broker: BrokerHost, reason: str) -> None:
        self.reasons.append(reason)

    def left(self, broker: BrokerHost) -> None: ...


class Story(Simulation):
    """b0 - b1 - b2 - ..., each the parent of the next (or of `fanout` others); 10 ms from host to host."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        delta: int = 1,
        ordered: bool = True,
        routing: str = "advertisements",
        fanout: int = 1,
        healing: HealingSettings | None = None,
        durable: bool = False,
        links: LinkSettings = LINKS,
    ) -> None:
        scenario = Scenario(
            "story",
            brokers=Brokers(
                count=brokers,
                fanout=fanout,
                candidates=1,
                delta=delta,
                ordered=ordered,
                covering=True,
                routing=routing,
            ),
            clients=Clients(publishers=0, subscribers=0),
            network=Wires(latency="constant", scale_s=0.01, jitter_s=0.0, skew_s=0.0),
            links=links,
            healing=healing or HealingSettings(),
            durable=Durable() if durable else None,
        )
        super().__init__(scenario, 0)

    anything = parse("exists x")

    def begin(self) -> Story:
        for broker in self.brokers:
            broker.start()
        self.wait(lambda: self.oracle.reach.is_tree(len(self.brokers)) and all(b.ready for b in self.cores()))
        return self

    def cores(self) -> list[Core]:
        return [broker.core for broker in self.brokers if broker.core is not None]

    def peers(self, number: int) -> list[Remote]:
        core = self.brokers[number].core
        return list(core.peers.values()) if core is not None else []

    def wait(self, until: Callable[[], bool], seconds: float = 60.0) -> None:
        done = self.world.run_while(lambda: not until(), self.world.now + seconds, 0.002)
        assert done, f"not within {seconds} s"

    def run_for(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def client(self, name: str, *brokers: int, stream: str = "") -> ClientHost:
        """`stream`: what a durable subscription of its wants."""
        addresses = tuple(f"sim://b{number}" for number in brokers)
        random = self.world.stream(name)
        host = ClientHost(
            self.world, self.network, name, addresses, self.oracle, random=random, digest=self.digest
        )
        self.watcher.add_client(host)
        host.durable_filter = parse(stream) if stream else None
        host.start()
        return host

    def publisher(self, name: str, *brokers: int, filter: str = "exists x") -> ClientHost:
        host = self.client(name, *brokers)
        advertisement = host.advertise(parse(filter))
        self.wait(lambda: advertisement.confirmed)
        return host

    def subscribe(
        self, host: ClientHost, filter: str, timeout_s: float | None = None
    ) -> SubscriptionState | AdvertisementState:
        return host.subscribe(parse(filter), timeout_s)

    def link(self, one: int, other: int) -> End:
        pair = {self.brokers[one], self.brokers[other]}
        return next(end for end in self.network.connections() if {end.host, end.other.host} == pair)  # type: ignore[union-attr]

    def wall(self, *inside: ClientHost | BrokerHost, seconds: float) -> None:
        self.network.wall_off(frozenset(host.index for host in inside), self.world.now + seconds)

    def crash(self, broker: BrokerHost) -> None:
        broker.crash()
        self.watcher.crashed(broker)

    def received(self, host: ClientHost) -> list[int]:
        """The x of everything this client has, in the order of publication."""
        return self._had((host.index, host.life))

    def in_stream(self, number: int = 1) -> list[int]:
        """The same of the n-th stream that was made."""
        self._collect_streams()
        return self._had((-number, 0))

    def _had(self, life: Life) -> list[int]:
        had = self.oracle._had[life]
        return [int(self.oracle.publications[number].attributes["x"]) for number in had]

    def twin(self, name: str, candidate: int, *, delta: int = 1) -> tuple[BrokerHost, Onlooker]:
        """One more process, whose core has this name, below that broker."""

        def build(host: BrokerHost, incarnation: int, kept: Kept) -> Core:
            settings = CoreSettings(
                OverlaySettings(delta=delta), TreeSettings((f"sim://b{candidate}",)), LINKS
            )
            random = self.world.stream("twin")
            return tree_broker(name, incarnation, settings, random, (host.address,), kept)

        random = self.world.stream("host twin")
        host = BrokerHost(self.world, self.network, "twin", build, random=random, digest=self.digest)
        host.watch = onlooker = Onlooker()
        return host, onlooker

    def judged(self) -> list[str]:
        self.oracle.judge()
        for broker in self.brokers:
            if broker.core is not None:
                broker.core.validate()
        return self.oracle.violations
