"""A small overlay in the simulator: brokers as a paper draws them, clients where it puts them, no faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grapevine.filters import parse
from grapevine.filters.normal import Value
from overlay.core import Core
from overlay.outbox import Kept
from overlay.profiles import tree_broker
from overlay.relocate.migration import Migration
from overlay.relocate.relocation import Relocation
from overlay.settings import (
    CoreSettings,
    LinkSettings,
    OverlaySettings,
    RelocationSettings,
    SoftLinkSettings,
    TreeSettings,
)
from overlay.tree.advertisements import Advertisements
from overlay.tree.subscriptions import Subscriptions
from tools.simulator.broker import BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.digest import Digest
from tools.simulator.latency import Constant
from tools.simulator.network import Network
from tools.simulator.tables import behaviour
from tools.simulator.world import World

ONE_WAY_S = 0.01


class Ledger:
    """Takes down what is delivered; everything else is nobody's business here."""

    def __init__(self) -> None:
        self.got: dict[str, list[tuple[str, int]]] = {}

    def delivered(self, client: ClientHost, deliveries: list[Any]) -> None:
        entries = self.got.setdefault(client.name, [])
        entries += [(delivery.publisher, delivery.sequence) for delivery in deliveries]

    def published(self, client: ClientHost, sequence: int, attributes: Mapping[str, Value]) -> bytes:
        return b""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class Figure:
    def __init__(
        self,
        parents: dict[str, str],
        relocation: RelocationSettings | None = None,
        overlay: OverlaySettings | None = None,
    ) -> None:
        self.world = World(1)
        self.network = Network(self.world, Constant(ONE_WAY_S), self.world.stream("network"))
        self.digest = Digest()
        self.ledger = Ledger()
        self.relocation = relocation or RelocationSettings()
        self.overlay = overlay or OverlaySettings()
        self.parents = parents
        self.brokers: dict[str, BrokerHost] = {}
        self.clients: dict[str, ClientHost] = {}
        for name in parents:
            self.brokers[name] = BrokerHost(
                self.world,
                self.network,
                name,
                self._build,
                random=self.world.stream(name),
                digest=self.digest,
            )
            self.brokers[name].start()
        self.run(2.0)

    def _build(self, host: BrokerHost, incarnation: int, kept: Kept) -> Core:
        parent = self.parents[host.name]
        settings = CoreSettings(
            overlay=self.overlay,
            softlinks=SoftLinkSettings(interval_s=1e6),  # which there are, a test says itself
            tree=TreeSettings((f"sim://{parent}",) if parent else ()),
            links=LinkSettings(ping_s=1.0, lost_after_s=5.0, redial_s=0.2),
            relocation=self.relocation,
        )
        random = self.world.stream(f"core {host.name} {incarnation}")
        return tree_broker(host.name, incarnation, settings, random, (host.address,), kept)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def core(self, broker: str) -> Core:
        core = self.brokers[broker].core
        assert core is not None
        return core

    def client(self, name: str, broker: str) -> ClientHost:
        host = self.clients[name] = ClientHost(
            self.world,
            self.network,
            name,
            (f"sim://{broker}",),
            self.ledger,
            random=self.world.stream(name),
            digest=self.digest,
        )
        host.start()
        return host

    def subscribe(self, broker: str, count: int, filter: str) -> list[ClientHost]:
        hosts = [self.client(f"{broker}-{filter}-{number}", broker) for number in range(count)]
        for host in hosts:
            host.subscribe(parse(filter))
        return hosts

    def offer(self, publisher: str, path: list[str]) -> str:
        """As if an algorithm had chosen the last of the path."""
        core = self.core(path[0])
        client = next(c for c in core.clients.values() if c.name == publisher)
        ids = tuple(self.core(name).id for name in path)
        host = self.brokers[path[0]]
        refused = behaviour(core, Migration).offer(
            client, ids, path[-1], (f"sim://{path[-1]}",), host.clock()
        )
        host.wake()
        return refused

    # --- tables -----------------------------------------------------------------------------------------

    def last_hop(self, broker: str) -> str:
        """Where the one advertisement comes from."""
        (entry,) = behaviour(self.core(broker), Advertisements).table.by_key.values()
        return entry.source.name

    def known_from(self, broker: str, neighbour: str) -> int:
        """Subscriptions that this neighbour has told."""
        table = behaviour(self.core(broker), Subscriptions).table
        return sum(entry.source.name == neighbour for entry in table.by_key.values())

    def relocation_at(self, broker: str) -> Relocation:
        return behaviour(self.core(broker), Relocation)

    def publisher_home(self, publisher: str) -> list[str]:
        found = []
        for name in self.brokers:
            clients = self.core(name).clients.values()
            found += [name for c in clients if c.name == publisher and c.advertisements]
        return found
