"""One strategy on one dataset: ten minutes with a round of links every 20 seconds, beginning without soft
links; then the mesh that is left behind uplinks of several capacities."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Protocol

import msgspec

from tools.reproduce.multipath_datasets import CAPS, Dataset
from tools.reproduce.multipath_mesh import Mesh
from tools.reproduce.multipath_uplink import Uplinks
from tools.reproduce.multipath_workload import Publication, Tree

ROUND_S = 20.0
CANDIDATES = 2  # maxlinks less fanout; the paper does not give it: docs/papers/multipath.md


class Source(Protocol):
    def draw(self, count: int) -> list[Publication]: ...


Make = Callable[[Tree], Source]


class Outcome(msgspec.Struct):
    delivered: int = 0
    pure: int = 0
    sends: int = 0
    hops: list[int] = []  # how many deliveries took so many
    settled_delivered: int = 0
    settled_pure: int = 0
    links: float = 0.0
    paths: dict[int, float] = {}  # distance on the tree -> ways, the median of pairs; 0: of all
    publications: int = 0
    need: float = 0.0  # messages a second of S0's busiest broker at the dataset's rate
    capped: dict[float, tuple[int, float]] = {}  # cap -> deliveries, hops
    due: int = 0  # deliveries due in the capped runs

    @property
    def percent(self) -> float:
        return 100 * self.delivered / max(1, self.delivered + self.pure)

    @property
    def settled_percent(self) -> float:
        return 100 * self.settled_delivered / max(1, self.settled_delivered + self.settled_pure)

    @property
    def mean_hops(self) -> float:
        return sum(hops * count for hops, count in enumerate(self.hops)) / max(1, self.delivered)


def experiment(dataset: Dataset, strategy: str, make: Make, share: float) -> Outcome:
    """With `share` of the publications."""
    tree = Tree(dataset.brokers)
    source = make(tree)
    mesh = Mesh(tree, strategy)
    outcome = grow(mesh, dataset, source, share)
    brokers = dataset.brokers
    soft = sum(len(node.soft) for node in mesh.nodes.values())
    outcome.links = soft / brokers + 2 * (brokers - 1) / brokers
    outcome.paths = _count_paths(mesh)
    run_capped(mesh, source.draw(_capped_count(dataset, share)), outcome, dataset, CAPS)
    return outcome


def grow(mesh: Mesh, dataset: Dataset, source: Source, share: float, candidates: int = CANDIDATES) -> Outcome:
    """The ten minutes, with `candidates` at a time."""
    outcome = Outcome(hops=[0] * 64)
    per_round = int(dataset.rate_s * ROUND_S * share)
    rounds = int(dataset.minutes * 60 / ROUND_S)
    for number in range(rounds):
        _run_round(mesh, source.draw(per_round), outcome, number >= rounds * 2 // 3)
        if mesh.strategy != "S0" and candidates:
            mesh.choose_links(dataset.fanout, dataset.fanout + candidates)
    outcome.publications = per_round * rounds
    return outcome


def _run_round(mesh: Mesh, publications: list[Publication], outcome: Outcome, settled: bool) -> None:
    for publication in publications:
        for broker, _, hops, copies in mesh.visits(publication):
            outcome.sends += len(copies)
            if broker == publication.source:
                continue
            delivered = broker in publication.wanted
            outcome.delivered += delivered
            outcome.pure += not delivered
            outcome.hops[hops] += delivered
            if settled:
                outcome.settled_delivered += delivered
                outcome.settled_pure += not delivered


def _count_paths(mesh: Mesh) -> dict[int, float]:
    """Between every broker and a dozen others."""
    tree = mesh.tree
    ends = [(a, b) for a in tree.brokers for b in tree.brokers[:: max(1, len(tree.brokers) // 12)] if a != b]
    found: dict[int, list[int]] = {0: []}
    for a, b in ends:
        paths = mesh.paths(a, b)
        found[0].append(paths)
        found.setdefault(tree.distance[a][b], []).append(paths)
    return {distance: median(paths) for distance, paths in sorted(found.items())}


def _capped_count(dataset: Dataset, share: float) -> int:
    return int(dataset.rate_s * dataset.capped_s * max(share, 0.3))


def run_capped(
    mesh: Mesh, publications: list[Publication], outcome: Outcome, dataset: Dataset, caps: tuple[float, ...]
) -> None:
    """Uplinks of 0.25 to 2 times what S0's busiest broker needs for these publications in the time."""
    plain = Mesh(mesh.tree, "S0")
    need = dict.fromkeys(mesh.tree.brokers, 0)
    for publication in publications:
        for broker, _, _, copies in plain.visits(publication):
            need[broker] += len(copies)
    most = max(need.values())
    outcome.need = most / len(publications) * dataset.rate_s
    outcome.due = sum(len(publication.wanted) for publication in publications)
    for cap in caps:
        uplinks = Uplinks(mesh, cap * most / dataset.capped_s, dataset.link_s)
        uplinks.run(publications, dataset.capped_s)
        outcome.capped[cap] = (uplinks.delivered, uplinks.hops / max(1, uplinks.delivered))
