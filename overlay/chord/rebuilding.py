"""A root that died with all who had its copy: its topics are rebuilt from what their members repeat.

Between our predecessor and our arc lies an arc that nobody has a copy of. We take members' words for it, and
when everybody must have repeated what it wants it is ours. Until then publications to it wait. If somebody
turns up who has it, what we were told meanwhile is that one's to know.

So it is with every arc of a ring that begins again: one of its founders has lost all the others, or has
streams or durable publications on its disk. It has confirmed subscribers, or something that is owed to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grapevine.wire.chord import RingNode
from overlay.chord.contacts import LIVES
from overlay.chord.ring import between, owns
from overlay.core import Core

if TYPE_CHECKING:
    from overlay.chord.roots import Roots


class Rebuilding:
    def __init__(self, roots: Roots, rebuilt: Callable[[float], None]) -> None:
        self.roots = roots
        self.rebuilt = rebuilt
        self.times = 0  # that an arc came without a copy
        self._at: float | None = None  # when everybody has repeated what it wants; None: nothing is missing
        self._again = False  # our ring begins again: no root has died that somebody had a copy of

    def attach(self, core: Core) -> None:
        self.core = core

    @property
    def active(self) -> bool:
        return self._at is not None

    def takes(self, key: int) -> bool:
        """Whether we take members' words for this topic although we are not its root yet."""
        if self._at is None:
            return False
        end = self.roots.here if self.roots.begin is None else self.roots.begin
        return owns(self.start, end, key)

    @property
    def start(self) -> int:
        """Of the arc that the ring says is ours."""
        before = self.roots.membership.predecessor
        return self.roots.here if before is None else before.position

    def founded_again(self, nodes: tuple[RingNode, ...], now: float) -> bool:
        """Whether one of them was on a ring before. Then it is not true that nobody wants anything yet."""
        self._again = len(nodes) > 1 and any(node.incarnation % (1 << LIVES) > 1 for node in nodes)
        if self._again:
            self.begin(now)
        return self._again

    def look(self, now: float) -> None:
        """Is there a root between our predecessor and our arc that nobody has a copy of?"""
        membership, begin, here = self.roots.membership, self.roots.begin, self.roots.here
        before = membership.predecessor
        lone = before is None and not membership.successors and membership.member
        if begin is None:
            return
        if before is None and not lone:
            self.stop()
            return
        if self.start == begin or not between(self.start, begin, here):
            self.stop()
        else:
            self.begin(now)

    def stop(self) -> None:
        """What others are the roots of, or will be, is theirs to know."""
        roots = self.roots
        if self._at is not None and roots.begin is not None:
            others = [key for key in roots.topics if not owns(roots.begin, roots.here, key)]
            for key in others:
                del roots.topics[key]
            roots.holders.tell(tuple(others))
        self.forget()

    def forget(self) -> None:
        self._at, self._again = None, False

    def begin(self, now: float) -> None:
        if self._at is None:
            self._later(now)

    def _later(self, now: float) -> None:
        settings = self.roots.membership.settings
        # On a ring that begins again nobody has been answered yet.
        repeat_s = settings.retry_s if self._again else settings.refresh_s
        self._at = now + 1.2 * repeat_s + 2 * settings.lost_after_s
        gone = "the ring begins again" if self._again else "a root and its copies are gone"
        self.core.note(now, f"{gone}: its topics are rebuilt from their members")
        self.core.timers.at(self._at, self._end)

    def _end(self, now: float) -> None:
        membership = self.roots.membership
        before = membership.predecessor
        if self._at is None or now < self._at or not membership.member:
            return
        if before is None and membership.successors:
            self._later(now)
            return
        self.times += not self._again
        self.roots.begin = self.start
        self.stop()
        self.rebuilt(now)
