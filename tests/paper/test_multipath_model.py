"""The model behind `pubctl reproduce multipath` sends the copies that a real broker's table chooses."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.filters import EVERYTHING
from grapevine.wire.messages import Subscription
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, OverlaySettings
from overlay.softlinks.excludes import NONE, Stamped
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import Soft, Stage
from overlay.softlinks.strategies import choose_links_s1, choose_links_s2
from overlay.softlinks.table import WorkingTable
from overlay.tree.peer import Peer
from tools.reproduce.multipath_mesh import Mesh
from tools.reproduce.multipath_workload import Tree, calibrate, s0_figures

PRINTED = {"S1": choose_links_s1, "S2": choose_links_s2, "SD": None}


def table_of(mesh: Mesh, broker: int, homes: list[int]) -> tuple[WorkingTable, list[int]]:
    """A real broker in the place of the model's, with one subscription from each home; their groups."""
    core = tree_broker(f"b{broker}", 1, CoreSettings(overlay=OverlaySettings(delta=4)), Random(1))
    shortcuts = next(b for b in core.behaviours if isinstance(b, Shortcuts))
    table, node = shortcuts.table, mesh.nodes[broker]
    for neighbour, branch in node.master.branches.items():
        core.peers[neighbour] = Peer(core, neighbour, f"b{neighbour}")
        table.master.hear(neighbour, branch)
    for target in node.soft:
        soft = shortcuts.softs.out[target] = Soft(core, target, f"b{target}", True)
        soft.path, soft.stage = table.master.path(target), Stage.ACTIVE
    table.printed = PRINTED[mesh.strategy]
    table.rebuild()
    groups = []
    for serial, home in enumerate(homes):
        path = tuple(reversed(mesh.tree.path(broker, home)[:4]))
        item = Subscription(home, serial, home, path, EVERYTHING)
        groups.append(table.groups.enter(item, core.peers[path[-1]]))
    return table, groups


@pytest.mark.parametrize("strategy", PRINTED)
@pytest.mark.parametrize("seed", range(8))
def test_model_and_broker_send_the_same_copies(strategy: str, seed: int) -> None:
    random = Random(f"{strategy} {seed}")
    mesh = Mesh(Tree(60), strategy)
    broker = random.choice(mesh.tree.brokers)
    node = mesh.nodes[broker]
    far = [b for b, distance in node.master.distance.items() if distance > 1]
    node.soft = set(random.sample(sorted(far), len(far) // 2))
    node.rebuild()
    homes = [h for h in random.sample(mesh.tree.brokers, 12) if h != broker]
    table, groups = table_of(mesh, broker, homes)
    hops, links = table.choose(None, groups)
    names = {hop.id: NONE for hop in hops}
    for hop, queue in zip(hops, links or ()):
        if isinstance(queue, Stamped):
            names[hop.id] = queue.names
    assert names == dict(node.copies(homes, NONE))


def test_calibration_meets_s0_and_nothing_else() -> None:
    """Table 2a: 9.7 deliveries a publication and a yield of 38 %."""
    tree = Tree(120)
    deliveries, percent = s0_figures(tree, calibrate(tree, 9.67, 38.4, 1, 600).draw(2000))
    assert deliveries == pytest.approx(9.67, rel=0.1) and percent == pytest.approx(38.4, abs=2)
