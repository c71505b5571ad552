"""The session of a soft link: a shortcut past the tree that only its dialler sends publications over.

It is no link of the tree: no tables, no census, no keepalive of the root path goes over it. It is not resumed
either: when its transport breaks, the dialler sends what is unsettled by the primary path again, and a new
link is a new session. A broker has at most one to and one from each other broker.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from overlay.links.session import Kind, Peer, Remote

if TYPE_CHECKING:
    from overlay.core import Core


class Stage(Enum):
    PARKED = "parked"  # up, not on the map: nothing is routed to it
    RISING = "rising"  # on the map; waits until the old hop has settled what it carries for our anchors
    ACTIVE = "active"
    FALLING = "falling"  # on the map; sends nothing more, what comes waits for what was sent to settle


class Soft(Remote):
    __slots__ = ("back", "dialled", "leaving", "path", "ready", "stage", "waits_for")

    def __init__(self, core: Core, broker: int, name: str, dialled: bool) -> None:
        super().__init__(core, Kind.SOFT, broker, name)
        self.dialled = dialled
        self.path: tuple[int, ...] = ()  # the primary path from the dialler to the other, nearest first
        self.stage = Stage.PARKED
        self.leaving = False  # closes when it has fallen
        self.ready = False  # the other side takes publications
        self.waits_for: tuple[Remote, int] | None = None  # rising: the old hop and how far it must settle
        # Of an incoming link: the neighbour behind which the dialler is. What it sends is not for that
        # side, the dialler serves it itself.
        self.back: Peer | None = None

    @property
    def flowing(self) -> bool:
        return self.link is not None and self.ready and self.writable and not self.held

    @property
    def mapped(self) -> bool:
        """Whether anchors are served by it, or wait for it."""
        return self.stage is not Stage.PARKED

    def leads(self, path: tuple[int, ...]) -> bool:
        """Whether it is a part of the primary path to an anchor, the anchor first. For a while after a broker
        has gone elsewhere, subscriptions name it on two sides, and the link goes past one of them: what comes
        for the other by it passes what is held for the broker on the way that is right."""
        return path[-len(self.path) :] == self.path[::-1]
