"""A one-hop cluster in the simulator: who has which role, when it is at rest, what its tables must hold.

The first brokers are matchers, the next ones dispatchers, the last have both roles. Clients know dispatchers
only. At rest everybody has a link to everybody, every value has an owner in every dimension that is used, and
each set holds what brute force over all homes' subscriptions says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from grapevine.filters.normal import Filter
from grapevine.wire.messages import CUT_LINK_LOST
from overlay.core import Core
from overlay.onehop.asking import Asking
from overlay.onehop.cluster import Cluster
from overlay.onehop.matcher import Matching
from overlay.onehop.placing import Placing
from overlay.onehop.segments import is_gone, touches
from overlay.onehop.values import ranges_of
from tools.simulator.broker import BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.oracle import Oracle
from tools.simulator.reach import Edge, Reach, edge
from tools.simulator.world import World

if TYPE_CHECKING:
    from tools.simulator.simulation import Simulation

MATCHER, DISPATCHER = frozenset(("matcher",)), frozenset(("dispatcher",))
BOTH = MATCHER | DISPATCHER


class DirectReach(Reach):
    """Two brokers are connected if there is a link between them: nothing is passed on."""

    direct = True

    def connected_to(self, start: int) -> int:
        return sum(1 << broker for broker in {start, *self.connected.get(start, ())})

    def held_with(self, start: int) -> int:
        return sum(1 << broker for broker in {start, *self.held.get(start, ())})

    def path(self, start: int, end: int) -> tuple[Edge, ...] | None:
        if start == end:
            return ()
        return (edge(start, end),) if end in self.held.get(start, ()) else None


class ClusterOracle(Oracle):
    """Connected are two that have a link, and nothing is passed on."""

    def __init__(self, world: World, broker_index: Mapping[str, int], judge_every: int = 1) -> None:
        super().__init__(world, broker_index, judge_every)
        self.reach = DirectReach()

    def cut(self, client: ClientHost, first: int, last: int, reason: int) -> None:
        """A durable publication is never given up because a link was lost (DP-D2)."""
        super().cut(client, first, last, reason)
        if client.durable and reason == CUT_LINK_LOST:
            self.violation(f"{client.name}'s durable publications {first} to {last} were cut")


ROLES = (MATCHER, DISPATCHER, MATCHER, DISPATCHER, MATCHER, BOTH, MATCHER, DISPATCHER, MATCHER, BOTH)


def part(core: Core, cls: type) -> object | None:
    return next((one for one in core.behaviours if isinstance(one, cls)), None)


def unrest(staying: list[BrokerHost]) -> list[str]:
    """Who lacks a link, and what has no owner or no answer."""
    found = []
    for broker in staying:
        core = broker.core
        if core is None:
            continue
        cluster, asking = part(core, Cluster), part(core, Asking)
        assert isinstance(cluster, Cluster) and isinstance(asking, Asking)
        linked = sum(peer.connected for peer in core.peers.values())
        if linked != len(staying) - 1:
            found.append(f"{broker.name} has {linked} of {len(staying) - 1} members")
        if asking.stages:
            found.append(f"{broker.name} waits for answers")
        used = len(cluster.table.dimensions) if core.settings.onehop.placement == "partition" else 1
        if any(gaps for gaps in cluster.table.uncovered()[:used]):
            found.append(f"{broker.name} sees a gap")
        matching = part(core, Matching)
        if isinstance(matching, Matching) and matching.growths:
            found.append(f"{broker.name} is taking a part")
    return found


def compare(simulation: Simulation) -> None:
    """Sets against brute force, homes against their clients, one table everywhere."""
    oracle = simulation.oracle
    cores = {b.name: b.core for b in simulation.brokers if b.core is not None}
    homes: dict[int, dict[int, Filter]] = {}
    for core in cores.values():
        placing = part(core, Placing)
        assert isinstance(placing, Placing)
        homes[core.id] = {serial: mine.filter for serial, mine in placing.subscriptions.items()}
    _compare_clients(simulation, cores)
    for name, core in cores.items():
        matching = part(core, Matching)
        if isinstance(matching, Matching):
            for mistake in _set_mistakes(matching, homes):
                oracle.violation(f"{name}: {mistake}")
    versions = {_versions(core) for core in cores.values()}
    if len(versions) > 1:
        oracle.violation("members know different tables")


def _versions(core: Core) -> tuple[tuple[int, int, int], ...]:
    cluster = part(core, Cluster)
    assert isinstance(cluster, Cluster)
    entries = cluster.table.entries.values()
    return tuple(sorted((e.owner, e.incarnation, e.version) for e in entries if not is_gone(e)))


def _compare_clients(simulation: Simulation, cores: dict[str, Core]) -> None:
    wanted: Counter[tuple[str, Filter]] = Counter()
    for app in simulation.apps:
        if (session := app.host.session) is not None:
            wanted.update((app.host.name, s.filter) for s in session.incoming.subscriptions.values())
    found: Counter[tuple[str, Filter]] = Counter()
    for core in cores.values():
        placing = part(core, Placing)
        assert isinstance(placing, Placing)
        found.update((mine.client.name, mine.filter) for mine in placing.subscriptions.values())
    for name, filter in wanted - found:
        simulation.oracle.violation(f"no home has {name}'s {filter}")
    for name, filter in found - wanted:
        simulation.oracle.violation(f"a home still has {name}'s {filter}")


def _set_mistakes(matching: Matching, homes: dict[int, dict[int, Filter]]) -> list[str]:
    mistakes = []
    for home, subscriptions in homes.items():
        known = matching.sets.homes.get(home)
        copies = {} if known is None else known.copies
        for serial, filter in subscriptions.items():
            mask = 0
            for place, (name, spans) in enumerate(zip(matching.dimensions, matching.entry.segments)):
                mask |= touches(spans, ranges_of(filter, name)) << place
            held = copies[serial].mask if serial in copies else 0
            if mask & ~held:
                mistakes.append(f"lacks {home}'s {serial} in some set ({mask:b}, {held:b})")
        mistakes += [f"holds {home}'s {serial} of nobody" for serial in copies.keys() - subscriptions.keys()]
    return mistakes
