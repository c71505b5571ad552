"""The session of a soft link: a shortcut past the tree that only its dialler sends publications over.

It is no link of the tree: no tables, no census, no keepalive of the root path goes over it. It is not resumed
either: when its transport breaks, the dialler sends what is unsettled by the primary path again, and a new
link is a new session. A broker has at most one to and one from each other broker.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from grapevine.wire.messages import Hello, Refuse
from matching.interface import Matcher
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.dialling import Dial
from overlay.links.handshake import SOFT, Handshake
from overlay.links.session import Kind, Link, Remote, Session
from overlay.tree.peer import Peer


class Stage(Enum):
    STANDBY = "standby"  # up, not on the map: nothing is routed to it
    ACTIVATING = (
        "activating"  # on the map; waits until the old hop has settled what it carries for our anchors
    )
    ACTIVE = "active"
    DRAINING = "draining"  # on the map; sends nothing more, what comes waits for what was sent to settle


# From each stage those that may follow. Without order a link is active, or on standby, at once; one that
# breaks is on standby from anywhere.
NEXT: dict[Stage, frozenset[Stage]] = {
    Stage.STANDBY: frozenset((Stage.ACTIVATING, Stage.ACTIVE, Stage.STANDBY)),
    Stage.ACTIVATING: frozenset((Stage.ACTIVE, Stage.STANDBY)),
    Stage.ACTIVE: frozenset((Stage.DRAINING, Stage.STANDBY)),
    Stage.DRAINING: frozenset((Stage.STANDBY,)),
}
WAITING = frozenset((Stage.ACTIVATING, Stage.DRAINING))  # publications for it wait here


class Soft(Remote):
    __slots__ = ("back", "leaving", "left", "path", "ready", "stage", "waits_for")

    def __init__(self, core: Core, broker: int, name: str, dialled: bool) -> None:
        super().__init__(core, Kind.SOFT, broker, name)
        self.dialled = dialled
        self.path: tuple[int, ...] = ()  # the primary path from the dialler to the other, nearest first
        self.stage = Stage.STANDBY
        self.leaving = False  # closes when it has drained
        # What led past here when publications for it were put on this link, and does not any more.
        self.left: Matcher | None = None
        self.ready = False  # the other side takes publications
        self.waits_for: tuple[Remote, int] | None = None  # activating: the old hop and how far it must settle
        # Of an incoming link: the neighbour behind which the dialler is. What it sends is not for that
        # side, the dialler serves it itself.
        self.back: Peer | None = None

    def enter(self, stage: Stage) -> None:
        assert stage in NEXT[self.stage], f"{self!r}: {self.stage.value} to {stage.value}"
        self.stage = stage
        self.paused = stage in WAITING
        if stage is not Stage.ACTIVATING:
            self.waits_for = None

    @property
    def flowing(self) -> bool:
        return self.link is not None and self.ready and self.writable and not self.paused

    @property
    def mapped(self) -> bool:
        """Whether anchors are served by it, or wait for it."""
        return self.stage is not Stage.STANDBY

    def leads(self, path: tuple[int, ...]) -> bool:
        """Whether it is a part of the primary path to an anchor, the anchor first. For a while after a broker
        has gone elsewhere, subscriptions name it on two sides, and the link goes past one of them: what comes
        for the other by it passes what is paused for the broker on the way that is right."""
        return path[-len(self.path) :] == self.path[::-1]


class SoftSessions(Quiet):
    """The soft links of a broker, and the purpose under which they are dialled."""

    number = SOFT

    def __init__(self, handshake: Handshake) -> None:
        self.handshake = handshake
        self.out: dict[int, Soft] = {}  # that we dialled
        self.into: dict[int, Soft] = {}  # that others dialled to us
        self.refuses: Callable[[Hello], str] = lambda hello: "no soft links here"  # "" admits
        handshake.register(self)

    def attach(self, core: Core) -> None:
        self.core = core

    def offered(self, dial: Dial) -> None:
        return None

    def refusal(self, link: Link, hello: Hello, now: float) -> Refuse | None:
        if self.core.leaving:
            return Refuse("leaving", "leaving")
        return Refuse("not-ready", reason) if (reason := self.refuses(hello)) else None

    def accept(self, link: Link, hello: Hello, now: float) -> None:
        self.core.send(self.handshake.hello(hello.epoch, True, None, SOFT, path=hello.root_path), link)
        self._establish(link, hello, dialled=False, now=now)

    def objection(self, hello: Hello) -> None:
        return None

    def answered(self, link: Link, hello: Hello, greeted: Callable[[Any, float], None], now: float) -> None:
        greeted(self._establish(link, hello, dialled=True, now=now), now)

    def _establish(self, link: Link, hello: Hello, *, dialled: bool, now: float) -> Soft:
        """Always a new session; an older one to the same broker ends here."""
        known = self.out if dialled else self.into
        if (old := known.get(hello.broker)) is not None:
            self.core.lose(old, now)
        soft = known[hello.broker] = Soft(self.core, hello.broker, hello.name, dialled)
        self.handshake.establish(soft, link, hello, dialled, now)
        soft.path = hello.root_path
        soft.begin_epoch(hello.epoch)
        self.handshake.liveness.watch(soft, link, now)
        self.handshake.announce(soft, now)
        return soft

    def link_lost(self, session: Session, now: float) -> None:
        for known in (self.out, self.into):
            if known.get(session.id) is session:
                del known[session.id]
