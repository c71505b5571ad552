"""Where an attachment stands."""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    DOWN = 0
    ATTACHING = 1
    ATTACHED = 2
    CLOSED = 3
