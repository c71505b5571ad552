"""One experiment of the POP and GRAPE paper: a balanced tree, publishers of quotes, subscribers on X brokers.

Brokers, clients and their library are the real ones on simulated hosts and links. Values are read in the last
window of the run, after the algorithm has come to rest, as averages over all brokers or all deliveries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from struct import pack, unpack
from typing import Any

import msgspec

from grapevine.filters.normal import Value
from grapevine.wire.messages import Batch, Deliver, Message, Publish
from grapevine.wire.relocation import (
    RELOCATION,
    RelocationAnswer,
    RelocationRequest,
    TraceInformationRequest,
)
from matching.index import Index
from overlay.core import Core
from overlay.data.client import Client
from overlay.outbox import Kept
from overlay.profiles import tree_broker
from overlay.relocate.grape import Choice
from overlay.relocate.relocation import Relocation
from overlay.settings import CoreSettings, LinkSettings, RelocationSettings, TreeSettings
from tools.reproduce.footprint import share
from tools.reproduce.grape_placing import Placing, Setting, latency, placings, randomness
from tools.reproduce.quotes import Symbol
from tools.simulator.broker import BrokerHost
from tools.simulator.capacity import Capacity
from tools.simulator.clients import ClientHost
from tools.simulator.digest import Digest
from tools.simulator.network import End, Network
from tools.simulator.world import World

MATCHING_S = 0.0005  # to take and match one publication: what input utilisation is a share of
CONTROL = frozenset(cls.kind for cls in RELOCATION)
SETTLED_S = 10.0  # from the attachment of the clients to the first publication


class Outcome(msgspec.Struct, frozen=True):
    """Averages in the measured window; `overhead` and what follows are over the whole run."""

    message_rate: float  # publications and control taken by one broker in a second
    input_utilisation: float  # share of its time
    delay_ms: float
    hops: float
    overhead: float  # control messages over publication messages
    control_rate: float  # control messages a second
    moves: int
    memory: float  # what is kept for relocation over the tables, at the fullest broker
    pauses: list[tuple[int, float]]  # hops, seconds
    selections: list[float]  # seconds from the request to the choice


class Ledger:
    """What is delivered, when and how far, while `counting`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counting = False
        self.deliveries = 0
        self.delay_s = self.hops = 0.0

    def published(self, client: ClientHost, sequence: int, attributes: Mapping[str, Value]) -> bytes:
        return pack("<d", self.world.now)

    def delivered(self, client: ClientHost, deliveries: list[Any]) -> None:
        if self.counting:
            now = self.world.now
            self.deliveries += len(deliveries)
            for delivery in deliveries:
                self.delay_s += now - unpack("<d", delivery.payload)[0]
                self.hops += delivery.hops + 1

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class Experiment:
    def __init__(self, setting: Setting, symbols: list[Symbol], data: Path | None) -> None:
        self.setting = setting
        self.symbols = symbols
        self.world = World(setting.seed)
        self.network = Network(self.world, latency(setting, data), self.world.stream("network"))
        self.digest = Digest()
        self.ledger = Ledger(self.world)
        self.counts: Counter[str] = Counter()
        self.memory = 0.0
        self.selections: list[float] = []
        self._asked: dict[tuple[int, int], float] = {}  # (publisher, its broker) -> when
        self._send = self.network.send
        self.network.send = self._counted  # type: ignore[method-assign, assignment]
        self.brokers = [self._broker(number) for number in range(1, setting.brokers + 1)]
        self.publishers: list[ClientHost] = []

    def _counted(self, end: End, message: Message, count: int = 0) -> None:
        kind = message.kind
        if isinstance(message, Batch):
            self.counts["forwarded"] += count
        elif kind == Publish.kind:
            self.counts["published"] += count
        elif kind == Deliver.kind:
            self.counts["delivered"] += count
        elif kind in CONTROL:
            self.counts["control"] += 1
            if isinstance(message, TraceInformationRequest | RelocationRequest):
                self._asked.setdefault((message.publisher, message.origin), self.world.now)
        self._send(end, message, count)

    # --- making -------------------------------------------------------------------------------------

    def _broker(self, number: int) -> BrokerHost:
        host = BrokerHost(
            self.world,
            self.network,
            f"b{number}",
            self._build,
            random=self.world.stream(f"host {number}"),
            digest=self.digest,
            capacity=Capacity(publication_s=MATCHING_S),
        )
        host.start()
        return host

    def _build(self, host: BrokerHost, incarnation: int, kept: Kept) -> Core:
        number = int(host.name[1:])
        parent = (f"sim://b{number // 2}",) if number > 1 else ()
        settings = CoreSettings(
            tree=TreeSettings(parent),
            links=LinkSettings(ping_s=10.0, lost_after_s=600.0, greet_s=5.0),
            relocation=self.setting.relocation or RelocationSettings(),
        )
        random = self.world.stream(f"core {host.name}")
        core = tree_broker(host.name, incarnation, settings, random, (host.address,), kept, Index)
        core.measured({"matching_delay_s": MATCHING_S, "queue_delay_s": MATCHING_S / 2}, host.clock())
        self._watch_choices(next(b for b in core.behaviours if isinstance(b, Relocation)))
        return core

    def _watch_choices(self, relocation: Relocation) -> None:
        judged, selected = relocation.grape.judged, relocation.pop.selected

        def chosen(client: Client) -> None:
            began = self._asked.pop((client.id, relocation.core.id), None)
            if began is not None:
                self.selections.append(self.world.now - began)

        def by_grape(client: Client, choice: Choice, now: float) -> None:
            chosen(client)
            judged(client, choice, now)

        def by_pop(client: Client, answer: RelocationAnswer | None, now: float) -> None:
            chosen(client)
            selected(client, answer, now)

        relocation.grape.judged, relocation.pop.selected = by_grape, by_pop

    def _client(self, name: str, broker: BrokerHost) -> ClientHost:
        host = ClientHost(
            self.world,
            self.network,
            name,
            (broker.address,),
            self.ledger,
            random=self.world.stream(name),
            digest=self.digest,
        )
        host.start()
        return host

    def _place_clients(self, symbol: Symbol, placing: Placing) -> None:
        for number, (rating, broker) in enumerate(placing.subscribers):
            host = self._client(f"{symbol.name}-{number}", self.brokers[broker - 1])
            host.subscribe(symbol.subscription(rating))
        publisher = self._client(symbol.name, self.brokers[placing.publisher - 1])
        publisher.advertise(symbol.advertisement())
        self.publishers.append(publisher)

    # --- running ------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        setting, world = self.setting, self.world
        world.run(20.0)
        random = randomness(setting)
        for symbol, placing in zip(self.symbols, placings(setting, random)):
            self._place_clients(symbol, placing)
        world.run(world.now + SETTLED_S)
        self.counts.clear()
        for host, symbol in zip(self.publishers, self.symbols):
            world.after(random.uniform(0, 1 / setting.rate), self._publish, (host, symbol, setting.first))
        world.run(world.now + setting.seconds - setting.measured_s)
        self.memory = max(share(b.core) for b in self.brokers if b.core is not None)
        before = self.counts.copy()
        self.ledger.counting = True
        world.run(world.now + setting.measured_s)
        return self._outcome(before)

    def _publish(self, state: tuple[ClientHost, Symbol, int]) -> None:
        host, symbol, number = state
        host.publish(symbol.quote(number))
        self.world.after(1 / self.setting.rate, self._publish, (host, symbol, number + 1))

    def _outcome(self, before: Counter[str]) -> Outcome:
        setting, ledger, total = self.setting, self.ledger, self.counts
        window = total - before
        taken = window["forwarded"] + window["published"]
        per_broker = setting.measured_s * setting.brokers
        moves = [host.session.moving for host in self.publishers if host.session is not None]
        carried = total["forwarded"] + total["published"] + total["delivered"]
        return Outcome(
            message_rate=(taken + window["control"]) / per_broker,
            input_utilisation=taken * MATCHING_S / per_broker,
            delay_ms=1000 * ledger.delay_s / max(ledger.deliveries, 1),
            hops=ledger.hops / max(ledger.deliveries, 1),
            overhead=total["control"] / max(carried, 1),
            control_rate=total["control"] / setting.seconds,
            moves=sum(moving.moves for moving in moves),
            memory=self.memory,
            pauses=[(moving.hops, moving.pause_s) for moving in moves if moving.moves],
            selections=self.selections,
        )
