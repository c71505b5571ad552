"""Reconfigurations of a simulated ring, to random positions and with crashes aimed at their steps.

The manager's own search finds nothing to gain on a ring whose publications are drawn at random, so the
positions are drawn too; all the rest is the manager's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from grapevine.wire.reconfiguration import (
    RcfgAbort,
    RcfgDone,
    RcfgFinish,
    RcfgInit,
    RcfgNullify,
    RcfgOverlay,
    RcfgPubsub,
)
from overlay.chord.membership import Membership
from overlay.chord.participation import Participation
from overlay.chord.planes import Planes
from overlay.chord.roots import Roots
from overlay.coordinate.greedy import Plan
from overlay.coordinate.manager import Manager
from overlay.coordinate.planning import Proposal
from overlay.core import Core

if TYPE_CHECKING:
    from tools.simulator.faults import FaultPlan

STEPS = (RcfgInit, RcfgOverlay, RcfgPubsub, RcfgFinish, RcfgNullify, RcfgDone, RcfgAbort)
AIMED = 0.7  # share of the reconfigurations that somebody is to fail in


def reconfigure(plan: FaultPlan) -> None:
    """Ask the manager for other positions, whoever they suit."""
    found = [(broker, managing(broker.core)) for broker in plan.brokers if broker.core is not None]
    for broker, manager in found:
        if manager is None or plan.over:
            continue
        now = broker.clock()
        nodes = tuple(manager.survey.nodes())
        at = list(range(len(nodes)))
        plan.random.shuffle(at)
        nothing = Plan(np.array(at), 0.0, 0.0, 0, 0)
        proposal = Proposal(nodes, tuple(at), 0, 0.0, 0.0, nothing, True)
        refused = manager.begin(proposal, now)
        plan.counts["reconfiguration refused" if refused else "reconfiguration"] += 1
        if not refused and plan.random.random() < AIMED:
            kind = STEPS[(plan.world.seed + plan.counts["aim"]) % len(STEPS)].kind
            plan.counts["aim"] += 1
            plan.aim(kind)
        broker.wake()


def managing(core: Core) -> Manager | None:
    return next((one for one in core.behaviours if isinstance(one, Manager)), None)


def rings(brokers: list[Planes]) -> Iterator[list[tuple[Membership, Roots]]]:
    """Planes that must be rings now: the one that everybody has, and the next from the decision on. One that
    some have dropped already is nobody's business any more."""
    on_it = [planes for planes in brokers if planes.membership.member or planes.next is not None]
    numbers = {planes.current.number for planes in on_it}
    decided = {planes.current.number + 1 for planes in on_it if planes.switched}
    for number in (numbers if len(numbers) == 1 else {max(numbers, default=0)}) | decided:
        found = [plane for planes in brokers for plane in planes.all if plane.number == number]
        yield [(plane.membership, plane.roots) for plane in found]


def two_planes(core: Core) -> list[str]:
    """A reconfiguration that is not over there."""
    manager = managing(core)
    participation = next(one for one in core.behaviours if isinstance(one, Participation))
    unrest = [] if participation.running is None else [f"{core.name} has two planes"]
    return unrest + ([f"{core.name} reconfigures"] if manager and manager.attempt else [])
