"""Tables against brute force, when the world is at rest (DECISIONS 20: this is how covering mistakes show).

From the clients alone follows what every broker must have been told on every link: all advertisements of
the far side; of the subscriptions of the far side those that overlap an advertisement on the near side,
each of them itself or by an announced one that covers it and has the same anchor at the receiver; and
nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from grapevine.filters.normal import Filter
from grapevine.wire.messages import Subscription
from matching.relations import covers, overlaps
from overlay.core import Core
from overlay.data.client import Client
from overlay.tree.advertisements import Advertisements
from overlay.tree.peer import Peer
from overlay.tree.subscriptions import Subscriptions
from overlay.tree.table import Entry, Key
from tools.simulator.broker import BrokerHost
from tools.simulator.edges import compare_edges
from tools.simulator.maps import compare_maps
from tools.simulator.sizes import leftovers

if TYPE_CHECKING:
    from tools.simulator.simulation import Simulation

B = TypeVar("B")
Local = dict[Key, tuple[int, Filter]]  # (home, filter) of everything that clients have, by key


def behaviour(core: Core, cls: type[B]) -> B:
    return next(one for one in core.behaviours if isinstance(one, cls))


class Comparison:
    def __init__(self, simulation: Simulation) -> None:
        self.oracle = simulation.oracle
        self.apps = simulation.apps
        self.brokers: dict[int, BrokerHost] = {b.index: b for b in simulation.brokers if b.core is not None}
        self.tree = simulation.oracle.reach.connected
        self.advertised = self._local(Advertisements)
        self.subscribed = self._local(Subscriptions)

    def core(self, broker: int) -> Core:
        core = self.brokers[broker].core
        assert core is not None
        return core

    def run(self) -> None:
        self._compare_with_clients()
        for broker in self.brokers:
            self._compare_advertisements(broker)
            for neighbour in sorted(self.tree.get(broker, ())):
                self._compare_link(neighbour, broker)
        compare_maps(self)
        compare_edges(self)

    # --- what clients have ------------------------------------------------------------------------------

    def _local(self, cls: type[Advertisements] | type[Subscriptions]) -> Local:
        found: Local = {}
        for index in self.brokers:
            for key, entry in behaviour(self.core(index), cls).table.by_key.items():
                if isinstance(entry.source, Client):
                    found[key] = (index, entry.item.filter)
        return found

    def _compare_with_clients(self) -> None:
        wanted: Counter[tuple[str, Filter]] = Counter()
        for app in self.apps:
            if (session := app.host.session) is not None:
                wanted.update((app.host.name, s.filter) for s in session.incoming.subscriptions.values())
                wanted.update((app.host.name, a.filter) for a in session.advertised.by_number.values())
        found: Counter[tuple[str, Filter]] = Counter()
        for index in self.brokers:
            core = self.core(index)
            for table in (behaviour(core, Advertisements).table, behaviour(core, Subscriptions).table):
                for entry in table.by_key.values():
                    if isinstance(entry.source, Client):
                        found[entry.source.name, entry.item.filter] += 1
        for name, filter in wanted - found:
            self.oracle.violation(f"no broker has {name}'s {filter}")
        for name, filter in found - wanted:
            self.oracle.violation(f"a broker still has {name}'s {filter}")

    # --- one broker, one link -----------------------------------------------------------------------------

    def _compare_advertisements(self, broker: int) -> None:
        table = behaviour(self.core(broker), Advertisements).table
        name = self.brokers[broker].name
        for key in self.advertised.keys() - table.by_key.keys():
            self.oracle.violation(f"{name} does not know advertisement {key}")
        for key in table.by_key.keys() - self.advertised.keys():
            self.oracle.violation(f"{name} knows advertisement {key} of nobody")
        for key, entry in table.by_key.items():
            home = self.advertised.get(key, (broker, None))[0]
            if len(entry.sources) != 1:
                self.oracle.violation(f"{name} knows advertisement {key} from {list(entry.sources)}")
            elif isinstance(entry.source, Peer) and not self._side(entry.source.name, broker) >> home & 1:
                self.oracle.violation(f"{name} knows advertisement {key} from the wrong side")

    def _side(self, neighbour: str, broker: int) -> int:
        """The bits of the brokers behind this neighbour."""
        index = next(b.index for b in self.brokers.values() if b.name == neighbour)
        return self.behind(index, broker)

    def behind(self, start: int, barred: int) -> int:
        mask = 1 << start
        front = [start]
        while front:
            for other in self.tree.get(front.pop(), ()):
                if other != barred and not mask >> other & 1:
                    mask |= 1 << other
                    front.append(other)
        return mask

    def _compare_link(self, sender: int, receiver: int) -> None:
        """What the receiver knows from the sender, against what it should."""
        far = self.behind(sender, receiver)
        subscriptions = behaviour(self.core(receiver), Subscriptions)
        told = {
            entry.key: entry
            for entry in subscriptions.table.by_key.values()
            if isinstance(entry.source, Peer) and entry.source.name == self.brokers[sender].name
        }
        due = dict(self._due(far, subscriptions.flooding))
        where = f"{self.brokers[receiver].name} from {self.brokers[sender].name}"
        for key in told.keys() - due.keys():
            self.oracle.violation(f"{where}: subscription {key} should not be known there")
        for entry in told.values():
            self._compare_path(where, entry, sender, subscriptions.delta)
        covering = self.core(receiver).settings.tree.covering
        for key in due.keys() - told.keys():
            if not covering or not self._covered(key, told, sender, subscriptions.delta):
                self.oracle.violation(f"{where}: subscription {key} is neither known nor covered")

    def _due(self, far: int, flooding: bool) -> Iterator[tuple[Key, Filter]]:
        calls = [filter for home, filter in self.advertised.values() if not far >> home & 1]
        for key, (home, filter) in self.subscribed.items():
            if far >> home & 1 and (flooding or any(overlaps(call, filter) for call in calls)):
                yield key, filter

    def path(self, home: int, sender: int, delta: int) -> tuple[int, ...]:
        """The last Delta brokers of the way from home to the sender, farthest first."""
        came: dict[int, int] = {sender: sender}
        front = [sender]
        while home not in came:
            broker = front.pop()
            for other in self.tree[broker]:
                if other not in came:
                    came[other] = broker
                    front.append(other)
        path = [home]
        while path[-1] != sender:
            path.append(came[path[-1]])
        return tuple(self.core(broker).id for broker in path[-delta:])

    def _compare_path(self, where: str, entry: Entry[Subscription], sender: int, delta: int) -> None:
        if entry.key not in self.subscribed:
            return
        expected = self.path(self.subscribed[entry.key][0], sender, delta)
        if entry.item.path != expected:
            self.oracle.violation(f"{where}: {entry.key} has path {entry.item.path}, not {expected}")

    def _covered(self, key: Key, told: dict[Key, Entry[Subscription]], sender: int, delta: int) -> bool:
        home, filter = self.subscribed[key]
        anchor = self.path(home, sender, delta)[0]
        return any(
            entry.item.path[0] == anchor and covers(entry.item.filter, filter) for entry in told.values()
        )


def compare(simulation: Simulation) -> None:
    Comparison(simulation).run()


def compare_empty(simulation: Simulation) -> None:
    """All clients have left: no table, stream or list may hold anything of theirs."""
    for broker in simulation.brokers:
        if broker.core is not None:
            for path, size in leftovers(broker.core):
                simulation.oracle.violation(f"{broker.name}: {path} still holds {size}")
