"""Which messages a crash may be aimed at: kinds, by overlay and by what else goes on in a run."""

from __future__ import annotations

from grapevine.wire.handover import HANDOVER
from grapevine.wire.mesh import MOVE
from grapevine.wire.messages import (
    KINDS,
    RESERVED,
    Answer,
    Command,
    GoAway,
    HomeBatch,
    LeaveDone,
    LeaveHeld,
    Leaving,
)
from grapevine.wire.onehop import ONEHOP
from grapevine.wire.relocation import (
    RELOCATION,
    Migrate,
    MigrationComplete,
    MigrationUpdate,
    Paused,
    Relocate,
    Relocated,
    RelocateEnd,
)

RARE = (Leaving.kind, LeaveHeld.kind, LeaveDone.kind, GoAway.kind)  # only where somebody leaves
TRACES = tuple(cls.kind for cls in RELOCATION)  # only where publishers move
STEPS = tuple(cls.kind for cls in MOVE)  # only where brokers move
HANDOVERS = tuple(cls.kind for cls in HANDOVER)  # only where clients are handed over
MOVES = (Relocate, Paused, Migrate, MigrationUpdate, MigrationComplete, Relocated, RelocateEnd)
NOT_AIMED = (Command.kind, Answer.kind, *RARE, *TRACES, *STEPS, *HANDOVERS)
# What brokers of a tree never say: lanes, and the kinds of the other overlays (messages.py).
NOT_OF_THE_TREE = frozenset((14, 15, *range(16, 20), *range(29, 40), *range(120, 200), *range(220, 250)))
AIMS = sorted(kind for kind in KINDS if kind not in (*RESERVED, *NOT_AIMED, *NOT_OF_THE_TREE))
# What members of a one-hop cluster say, and what clients say to them.
ONEHOP_AIMS = sorted(
    {*(cls.kind for cls in ONEHOP), HomeBatch.kind, *range(1, 5), *range(40, 50)} & KINDS.keys()
)
