"""What a broker was in its last life: when it comes back, and nobody has taken its topics over, it asks who
has its copy. A part that it was giving to a newcomer when it died may be that one's by now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from grapevine.wire.chord import ArcAsk, RingNode
from overlay.chord.membership import Membership
from overlay.chord.registry import Copy, Giving, Rest, Topics
from overlay.core import Core

NEAR = 2  # times only those on our list are asked for what we were


class Root(Protocol):
    copies: dict[RingNode, Copy]
    rest: Rest | None


class Former:
    def __init__(self, membership: Membership, roots: Root) -> None:
        self.membership = membership
        self.roots = roots
        self._asked = 0  # times we were told that nobody has what we were

    def ask(self, core: Core) -> None:
        """Brokers have come behind us since we, in our last life, had copied to our successors: those further
        behind may have our copy. If nobody on our list has, others are asked too."""
        ask = ArcAsk(self.membership.me, False, True)
        self._asked += 1
        if self._asked > NEAR:
            core.tell(ask, *core.peers.values())
            return
        for node in self.membership.successors[1:]:
            self.membership.contacts.tell(node, ask)

    def give(
        self, node: RingNode, number: int, send: Callable[[Giving, Topics, RingNode | None], None]
    ) -> None:
        """To the broker itself, in its next life: nobody else is the root there."""
        place, rest = node.position, self.roots.rest
        copy = _last(copy for old, copy in self.roots.copies.items() if old.position == place and old != node)
        if copy is not None and copy.complete:
            send(Giving(node, copy.begin, place, number), copy.topics, copy.given)
        elif copy is None and rest is not None and rest.node.position == place:
            send(Giving(node, rest.begin, place, number), rest.topics, None)


def _last(copies: Iterable[Copy]) -> Copy | None:
    return next(reversed(list(copies)), None)
