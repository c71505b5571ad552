"""Topic trees: the ways of the ring from a root to its members (DYNATOPS 3).

T_root, the ways from one root to everybody, is fixed by the pointers; a topic's tree is T_root cut down to
the members. Nobody needs the whole of it: a broker that is told which members lie behind it splits them by
its own next hops. A relay is in the tree and neither a member nor the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from overlay.chord.ring import Placed, next_hop

N = TypeVar("N", bound=Placed)


def split(here: N, members: Iterable[N], pointers: Iterable[N]) -> tuple[dict[N, list[N]], list[N]]:
    """Which members each child serves, and those to whom no pointer leads."""
    known = tuple(pointers)
    behind: dict[N, list[N]] = {}
    astray: list[N] = []
    for member in members:
        if member.position == here.position:
            continue
        hop = next_hop(here.position, known, member.position)
        if hop is None:
            astray.append(member)
        else:
            behind.setdefault(hop, []).append(member)
    return behind, astray


def way(start: N, target: N, pointers_of: Callable[[N], Iterable[N]]) -> list[N]:
    """The nodes after `start` up to the target."""
    passed: list[N] = []
    here = start
    while here.position != target.position:
        hop = next_hop(here.position, pointers_of(here), target.position)
        assert hop is not None, f"no pointer of {here} leads to {target}"
        passed.append(hop)
        here = hop
    return passed


def tree(root: N, members: Iterable[N], pointers_of: Callable[[N], Iterable[N]]) -> dict[N, list[N]]:
    """Parent of each node: child lists by parent, as splitting from the root downwards makes them."""
    children: dict[N, list[N]] = {}
    waiting = [(root, list(members))]
    while waiting:
        here, behind = waiting.pop()
        parts, astray = split(here, behind, pointers_of(here))
        assert not astray, f"no pointer of {here} leads to {astray}"
        if parts:
            children[here] = list(parts)
            waiting += parts.items()
    return children


def relays(root: N, members: Iterable[N], children: dict[N, list[N]]) -> set[N]:
    inside = {child for several in children.values() for child in several}
    return inside - set(members) - {root}
