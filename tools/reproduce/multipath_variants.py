"""`python -m tools.reproduce.multipath_variants [--quick]`: what follows from choices the paper leaves open.

How many candidates a broker tries at a time (`maxlinks` less `fanout`) sets how fast the mesh grows: `growth`
has S2's delay on C1/DT2 for several, beside figure 10's. `rows` are C1/DT1's yields when a choice of ours is
another: each variant is calibrated anew on S0's deliveries and yield, and what S1 and S2 then yield tells
whether the choice explains that S1 lies above the paper's (docs/papers/multipath.md). None of them is used
for the figures.
"""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random

import msgspec

from tools.reproduce.multipath_datasets import DATASETS, DELAYS_MS, TABLE_2
from tools.reproduce.multipath_experiment import CANDIDATES, grow
from tools.reproduce.multipath_mesh import Mesh, Node
from tools.reproduce.multipath_workload import TOPICS, Tree, Workload, calibrate

NAME, SEED = "C1/DT1", 1
STRATEGIES = ("S0", "S1", "S2")
GROWN, GROWTH = "C1/DT2", (1, 2, 3, 5, 10)


class RandomTree(Tree):
    def _grow(self, degree: int) -> None:
        random = Random(SEED)
        for broker in self.brokers[1:]:
            self._join(random.choice([b for b in range(1, broker) if len(self.beside[b]) < degree]), broker)


class Together(Workload):
    """Topics are wanted around a broker each: less and less with the distance from it."""

    def _place(self, random: Random) -> list[list[int]]:
        distance = self.tree.distance
        centres = [random.choice(self.tree.brokers) for _ in range(TOPICS)]
        return [
            [
                b
                for b in self.tree.brokers
                if random.random() < self.scale * math.exp(-self.exponent * distance[centre][b])
            ]
            for centre in centres
        ]


class AtLeaves(Workload):
    """Subscribers at the tree's edge; brokers inside have `inside` of the chance."""

    inside = 0.0

    def _place(self, random: Random) -> list[list[int]]:
        leaves = {b for b in self.tree.brokers if len(self.tree.beside[b]) == 1}
        found = []
        for rank in range(1, TOPICS + 1):
            chance = self.scale / rank**self.exponent
            chances = [chance if b in leaves else chance * self.inside for b in self.tree.brokers]
            found.append([b for b, chance in enumerate(chances, 1) if random.random() < chance])
        return found


class MostlyAtLeaves(AtLeaves):
    inside = 0.25


class FewPublish(Workload):
    def __init__(self, tree: Tree, scale: float, exponent: float, seed: int) -> None:
        super().__init__(tree, scale, exponent, seed)
        self.sources = tree.brokers[::10]


class ByGain(Node):
    """Neighbours of links with a high gain first; what was carried decides among those without one."""

    def promise(self, broker: int) -> float:
        return 1e6 * self.gain(broker) + super().promise(broker)


class AllLinks(Node):
    def __init__(self, mesh: Mesh, broker: int) -> None:
        super().__init__(mesh, broker)
        if mesh.strategy != "S0":
            self.soft = {b for b, distance in self.master.distance.items() if distance > 1}
            self.rebuild()


class Variant(msgspec.Struct, frozen=True):
    tree: type[Tree] = Tree
    family: type[Workload] = Workload
    node: type[Node] = Node
    load_factor: str = "boost"
    candidates: int = CANDIDATES


VARIANTS = {
    "as measured": Variant(),
    "load factor as printed": Variant(load_factor="paper"),
    "candidates by gain": Variant(node=ByGain),
    "1 candidate": Variant(candidates=1),
    "5 candidates": Variant(candidates=5),
    "10 candidates": Variant(candidates=10),
    "every link from the start": Variant(node=AllLinks, candidates=0),
    "12 brokers publish": Variant(family=FewPublish),
    "random tree": Variant(tree=RandomTree),
    "subscribers together": Variant(family=Together),
    "leaves four times as likely": Variant(family=MostlyAtLeaves),
    "subscribers at leaves alone": Variant(family=AtLeaves),
}


class Yields(msgspec.Struct):
    variant: str
    percent: dict[str, float]

    @property
    def s1_of_s2(self) -> float:
        """What S1 gains over S0, of what S2 gains."""
        return (self.percent["S1"] - self.percent["S0"]) / (self.percent["S2"] - self.percent["S0"])


def measure(name: str, share: float) -> Yields:
    variant, dataset = VARIANTS[name], DATASETS[NAME]
    assert dataset.percent is not None
    tree = variant.tree(dataset.brokers)
    found = calibrate(tree, dataset.deliveries, dataset.percent, SEED, family=variant.family)
    yields = Yields(name, {})
    for strategy in STRATEGIES:
        mesh = Mesh(tree, strategy, load_factor=variant.load_factor, node=variant.node)
        source = variant.family(tree, found.scale, found.exponent, SEED)
        yields.percent[strategy] = grow(mesh, dataset, source, share, variant.candidates).percent
    return yields


def delay_to_s0(candidates: int, share: float) -> float:
    """S2's on C1/DT2 with so many candidates at a time (figure 10)."""
    dataset = DATASETS[GROWN]
    assert dataset.percent is not None
    tree = Tree(dataset.brokers)
    found = calibrate(tree, dataset.deliveries, dataset.percent, SEED)
    hops = []
    for strategy in ("S0", "S2"):
        source = Workload(tree, found.scale, found.exponent, SEED)
        hops.append(grow(Mesh(tree, strategy), dataset, source, share, candidates).mean_hops)
    return hops[1] / hops[0]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the publications")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(words)
    paper = Yields("paper", {strategy: TABLE_2[NAME][strategy][0] for strategy in STRATEGIES})
    share = 0.1 if given.quick else 1.0
    with ProcessPoolExecutor(given.jobs) as pool:
        delays = pool.map(partial(delay_to_s0, share=share), GROWTH)
        found = [paper, *pool.map(partial(measure, share=share), VARIANTS)]
        growth = [{"candidates": n, "S2_delay_to_S0": delay} for n, delay in zip(GROWTH, delays)]
    rows = [{"variant": one.variant, **one.percent, "S1_of_S2": one.s1_of_s2} for one in found]
    theirs = DELAYS_MS["S2"] / DELAYS_MS["S0"]
    print(msgspec.json.encode({"paper_delay": theirs, "growth": growth, "rows": rows}).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
