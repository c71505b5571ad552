"""Where brokers stand in a picture: layers by depth, parents above the middle of their children."""

from __future__ import annotations

from typing import NamedTuple

from tools.pubctl.graph import Graph


class Place(NamedTuple):
    column: float  # in units of one leaf
    layer: int


def places(graph: Graph) -> dict[str, Place]:
    """Leaves stand side by side in the order of the tree; several roots are several trees side by side."""
    found: dict[str, Place] = {}
    next_leaf = 0.0
    for root in graph.roots() or list(graph.nodes)[:1]:
        next_leaf = _tree(graph, root, next_leaf, found)
    for name in graph.nodes:  # on a cycle nobody is a root
        if name not in found:
            found[name] = Place(next_leaf, 0)
            next_leaf += 1
    return found


def _tree(graph: Graph, root: str, next_leaf: float, found: dict[str, Place]) -> float:
    """Post-order without recursion: an overlay may be a long line."""
    stack: list[tuple[str, int, bool]] = [(root, 0, False)]
    seen: set[str] = set()
    while stack:
        name, layer, done = stack.pop()
        children = [child for child in graph.children(name) if child in graph.nodes]
        if done:
            columns = [found[child].column for child in children if child in found]
            if columns:
                found[name] = Place((min(columns) + max(columns)) / 2, layer)
            else:
                found[name] = Place(next_leaf, layer)
                next_leaf += 1
        elif name not in seen:
            seen.add(name)
            stack.append((name, layer, True))
            stack += [(child, layer + 1, False) for child in reversed(children) if child not in seen]
    return next_leaf
