"""Tables against brute force, when the world is at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.simulator.simulation import Simulation


def compare(simulation: Simulation) -> None:
    pass


def compare_empty(simulation: Simulation) -> None:
    pass
