"""Which behaviours make which system. Nothing else puts behaviours together.

The daemon, the simulator and the reproductions build a broker by `overlay.kind` from the one registry here. A
system is added by a module beside `tree` and a line in PROFILES.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.core import Core
from overlay.profiles.start import Start as Start
from overlay.profiles.tree import from_start as _tree
from overlay.profiles.tree import tree_broker as tree_broker


def _chord(start: Start) -> Core:
    from overlay.profiles.chord import from_start

    return from_start(start)


def _onehop(start: Start) -> Core:
    from overlay.profiles.onehop import from_start

    return from_start(start)


# What a broker is not it does not import: three megabytes of a daemon that does nothing.
PROFILES: dict[str, Callable[[Start], Core]] = {"tree": _tree, "chord": _chord, "onehop": _onehop}


def build(start: Start) -> Core:
    """The broker that these settings call for."""
    return PROFILES[start.settings.overlay.kind](start)
