"""Figures 13a and 13b: deliveries over fanouts of 5 to 35 when the overlay is pushed to its edge.

The paper publishes twenty times more than its brokers' processors take; here uplinks carry a quarter of what
S0's busiest broker would have to send. SH grows the same links as S2 while nothing is short, so the two
share one mesh.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from tools.reproduce.multipath_datasets import Dataset
from tools.reproduce.multipath_experiment import Make, Outcome, grow, run_capped
from tools.reproduce.multipath_mesh import Mesh
from tools.reproduce.multipath_workload import Tree
from tools.reproduce.row import Row

CAP = 0.25


class Swept(msgspec.Struct):
    dataset: str
    fanout: int
    links: float
    delivered: dict[str, float]  # strategy -> per cent of what was due


def sweep(name: str, dataset: Dataset, fanout: int, make: Make, share: float) -> Swept:
    found = Swept(name, fanout, 0.0, {})
    wide = replace(dataset, fanout=fanout)
    for grown, strategies in (("S0", ("S0",)), ("S1", ("S1",)), ("S2", ("S2", "SH")), ("SD", ("SD",))):
        tree = Tree(dataset.brokers)
        source = make(tree)
        mesh = Mesh(tree, grown)
        grow(mesh, wide, source, share)
        publications = source.draw(int(dataset.rate_s * dataset.capped_s))
        for strategy in strategies:
            mesh.strategy = strategy
            outcome = Outcome()
            run_capped(mesh, publications, outcome, dataset, (CAP,))
            found.delivered[strategy] = 100 * outcome.capped[CAP][0] / outcome.due
        if grown == "S2":
            found.links = sum(len(node.soft) for node in mesh.nodes.values()) / dataset.brokers
    return found


def fanout_rows(found: Iterable[Swept]) -> Iterator[Row]:
    for one in found:
        setting = f"{one.dataset} fanout={one.fanout}"
        yield Row("13", setting, "soft links a broker (S2)", None, one.links)
        for strategy, part in one.delivered.items():
            name = f"{one.dataset} {strategy} fanout={one.fanout}"
            yield Row("13", name, "delivered at the edge, per cent", None, part, f"cap={CAP:g}")
