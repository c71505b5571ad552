"""A ring as an SVG and in the terminal: brokers in the order of their positions, clockwise from the top.

Next to each other on the circle is next to each other on the ring, at equal distances: where exactly a broker
is stands beside it. Links along the circle are those to successors, thin ones across are fingers and others.
Many brokers are dots with their names outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import cos, pi, sin

from rich.console import Console
from rich.markup import escape as plain

from tools.pubctl.graph import Edge, Graph, Node, line_width
from tools.pubctl.output import several

BOXES = 16  # more brokers are dots
BOX_ARC, DOT_ARC = 200, 17  # pixels of the circle for each
LEAST_RADIUS = 230
DIGITS = 4  # of a position


class Circle:
    def __init__(self, graph: Graph) -> None:
        self.names = graph.ring()
        self.boxes = len(self.names) <= BOXES
        around = (BOX_ARC if self.boxes else DOT_ARC) * len(self.names)
        self.radius = max(LEAST_RADIUS, around / (2 * pi))
        self._turns = {name: 2 * pi * rank / len(self.names) for rank, name in enumerate(self.names)}

    def at(self, name: str, out: float = 0.0) -> tuple[float, float]:
        """From the centre; `out` pixels beyond the circle."""
        turn, radius = self._turns[name], self.radius + out
        return radius * sin(turn), -radius * cos(turn)

    def turned(self, name: str) -> float:
        """Degrees by which its name is turned to point outwards."""
        return self._turns[name] * 180 / pi - 90

    def neighbours(self, one: str, other: str) -> bool:
        ranks = self.names.index(one), self.names.index(other)
        return abs(ranks[0] - ranks[1]) in (1, len(self.names) - 1)


def place_of(node: Node) -> str:
    """Where it is and what it is the root of."""
    return f"{(node.position or '')[:DIGITS]}…  {several(node.topics, 'topic')}"


def links(graph: Graph, circle: Circle) -> Iterator[tuple[Edge, bool]]:
    """Those across first, and whether each is one to a successor."""
    known = [
        edge for edge in graph.edges.values() if edge.upper in circle.names and edge.lower in circle.names
    ]
    found = [(edge, circle.neighbours(edge.upper, edge.lower)) for edge in known]
    return iter(sorted(found, key=lambda pair: pair[1]))


def line(edge: Edge, near: bool, ends: tuple[float, float, float, float], colour: str, told: str) -> str:
    x1, y1, x2, y2 = ends
    width = line_width(edge.rate) + (1.6 if near else 0)
    dashed = "" if edge.state == "ready" else ' stroke-dasharray="5 5"'
    kind = "successor" if near else "finger"
    return (
        f'<path class="{kind}" d="M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}" fill="none" stroke="{colour}" '
        f'stroke-width="{width:.1f}" stroke-linecap="round" opacity="{0.9 if near else 0.45}"{dashed}>'
        f"<title>{escape(told)}</title></path>"
    )


def draw_ring(screen: Console, graph: Graph, label: dict[str, str]) -> None:
    from rich.tree import Tree

    names = graph.ring()
    whole = Tree(
        f"ring of {several(len(names), 'broker')}, in the order of their positions", guide_style="dim"
    )
    for name in names:
        whole.add(f"{label[name]}  [dim]{plain(place_of(graph.nodes[name]))}[/dim]")
    screen.print(whole)
