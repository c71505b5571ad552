"""One scenario for two drivers: a random tree, clients, and steps of which each ends before the next begins.

With nothing under way while something else changes, what every subscription must have had is the same
wherever it is played: on real daemons, in the simulator, or by comparing every filter with every
publication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grapevine
from grapevine.client.session import SubscriptionState
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter, Value
from grapevine.wire import identify
from tests.system.overlay import Overlay
from tools.simulator.clients import ClientHost, Delivery
from tools.simulator.random_filters import random_attributes, random_filter
from tools.simulator.scenario import Brokers, Clients, Scenario
from tools.simulator.simulation import Simulation

Label = tuple[str, int]  # a client, and the how-manieth of its subscriptions
Had = dict[Label, list[tuple[str, int]]]  # of each subscription the publisher and the sequence, in order
REST_S = 60.0


@dataclass
class Step:
    """`publications` are published by the client, or else its subscription `number` begins or ends."""

    client: str
    number: int = 0
    filter: Filter | None = None  # None: it ends
    publications: list[dict[str, Value]] = field(default_factory=list)


@dataclass
class Script:
    parents: list[int | None]
    homes: dict[str, int]  # clients and their brokers
    steps: list[Step]

    @classmethod
    def draw(cls, seed: int, brokers: int = 15, clients: int = 20, steps: int = 120) -> Script:
        random = Random(seed)
        parents = [random.randrange(number) if number else None for number in range(brokers)]
        homes = {f"c{number}": random.randrange(brokers) for number in range(clients)}
        live: dict[str, list[int]] = {name: [] for name in homes}
        begun = dict.fromkeys(homes, 0)
        drawn: list[Step] = []
        for _ in range(steps):
            name = random.choice(list(homes))
            what = random.random()
            if what < 0.45:
                begun[name] += 1
                live[name].append(begun[name])
                drawn.append(Step(name, begun[name], random_filter(random)))
            elif what < 0.6 and live[name]:
                drawn.append(Step(name, live[name].pop(random.randrange(len(live[name])))))
            else:
                count = random.randint(5, 40)
                drawn.append(Step(name, publications=[random_attributes(random) for _ in range(count)]))
        return cls(parents, homes, drawn)

    def expected(self) -> Had:
        had: Had = {}
        live: dict[Label, Filter] = {}
        sent = dict.fromkeys(self.homes, 0)
        for step in self.steps:
            label = step.client, step.number
            if step.filter is not None:
                live[label] = step.filter
                had[label] = []
            elif not step.publications:
                del live[label]
            for attributes in step.publications:
                sent[step.client] += 1
                for wanted, filter in live.items():
                    if matches(filter, attributes):
                        had[wanted].append((step.client, sent[step.client]))
        return had


def play_on_daemons(script: Script, directory: Path) -> Had:
    had: Had = {}
    subscriptions: dict[Label, grapevine.Subscription] = {}
    with Overlay(directory, links={"ping_s": 2.0}) as overlay:
        for number, parent in enumerate(script.parents):
            overlay.add(f"b{number}", "" if parent is None else f"b{parent}")
        for daemon in overlay.daemons.values():
            daemon.start()
        for daemon in overlay.daemons.values():
            daemon.ready(60)
        clients: dict[str, grapevine.Client] = {}
        try:
            for name, home in script.homes.items():
                daemon = overlay[f"b{home}"]
                clients[name] = grapevine.connect([daemon.address], name, keys=daemon.keys, timeout=30)
            for step in script.steps:
                label, client = (step.client, step.number), clients[step.client]
                if step.filter is not None:
                    subscriptions[label] = client.subscribe(step.filter, timeout=60)
                elif step.publications:
                    for attributes in step.publications:
                        client.publish(attributes)
                    client.flush(timeout=60)
                else:
                    had[label] = _read(subscriptions[label])
                    subscriptions.pop(label).unsubscribe(timeout=60)
            had |= {label: _read(subscription) for label, subscription in subscriptions.items()}
        finally:
            for client in clients.values():
                client.close(0)
    return had


def _read(subscription: grapevine.Subscription) -> list[tuple[str, int]]:
    """Settled is in the reader's queue: nothing is waited for."""
    got: list[tuple[str, int]] = []
    while batch := subscription.next_batch(10_000, timeout=0):
        got += [(message.publisher, message.sequence) for message in batch]
    return got


class Notes:
    """What the simulator's clients tell of themselves; only deliveries are written down."""

    def __init__(self, script: Script) -> None:
        self.names = {identify(name): name for name in script.homes}
        self.labels: dict[tuple[str, int], Label] = {}  # by the session's own number
        self.had: Had = {}

    def delivered(self, client: ClientHost, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            publication = delivery.publication
            entry = (self.names[publication.publisher], publication.sequence)
            for number in delivery.subscriptions:
                self.had[self.labels[client.name, number]].append(entry)

    def published(self, client: ClientHost, sequence: int, attributes: Mapping[str, Value]) -> bytes:
        return b""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def play_in_simulator(script: Script, seed: int) -> Had:
    brokers = Brokers(count=len(script.parents), covering=True, routing="advertisements", matcher="index")
    scenario = Scenario("script", brokers=brokers, clients=Clients(publishers=0, subscribers=0))
    simulation = Simulation(scenario, seed)
    simulation._addresses = [() if p is None else (f"sim://b{p}",) for p in script.parents]
    for broker in simulation.brokers:
        broker.watch = None  # the oracle of random scenarios has not seen these clients
    world, notes = simulation.world, Notes(script)
    simulation.start()
    hosts = {
        name: ClientHost(
            world,
            simulation.network,
            name,
            (f"sim://b{home}",),
            notes,  # type: ignore[arg-type]
            random=world.stream(name),
            digest=simulation.digest,
        )
        for name, home in script.homes.items()
    }
    for host in hosts.values():
        host.start()
    states: dict[Label, SubscriptionState] = {}

    def rest() -> None:
        busy = lambda: not all(host.idle for host in hosts.values())  # noqa: E731
        assert world.run_while(busy, world.now + REST_S, 0.01), "a step never ended"

    rest()
    for step in script.steps:
        label, host = (step.client, step.number), hosts[step.client]
        if step.filter is not None:
            notes.had[label] = []
            states[label] = host.subscribe(step.filter)
            notes.labels[host.name, states[label].number] = label
        elif step.publications:
            host.publish(*step.publications)
        else:
            host.unsubscribe(states.pop(label))
        rest()
    return notes.had
