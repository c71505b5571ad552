"""Which behaviours make which system. Nothing else puts behaviours together.

The daemon, the simulator and the reproductions build a broker by `overlay.kind` from the one registry here. A
system is added by a module beside `tree` and a line in PROFILES.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.core import Core
from overlay.profiles.chord import from_start as _chord
from overlay.profiles.onehop import from_start as _onehop
from overlay.profiles.start import Start as Start
from overlay.profiles.tree import from_start as _tree
from overlay.profiles.tree import tree_broker as tree_broker

PROFILES: dict[str, Callable[[Start], Core]] = {"tree": _tree, "chord": _chord, "onehop": _onehop}


def build(start: Start) -> Core:
    """The broker that these settings call for."""
    return PROFILES[start.settings.overlay.kind](start)
