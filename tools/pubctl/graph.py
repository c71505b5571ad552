"""The overlay as nodes and edges, from what every broker says about itself and its links.

Rates are what grew between two looks, of brokers and of links over the same window; one look has none, and
none is not zero. How wide a link is drawn depends on its rate alone, on one scale for every picture.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log10
from typing import Any

import msgspec

Row = dict[str, Any]


class Node(msgspec.Struct):
    name: str
    parent: str | None = None
    state: str = "missing"
    clients: int = 0
    subscriptions: int = 0
    advertisements: int = 0
    accepted: int = 0
    delivered: int = 0
    forwarded: int = 0
    incarnation: int = 0
    in_s: float | None = None  # publications; None: not known
    out_s: float | None = None
    load: float = 0.0  # of one processor
    pure: bool = False  # forwards and serves nobody
    position: str | None = None  # on a ring, sixteen digits
    topics: int = 0  # that it is the root of


class Edge(msgspec.Struct):
    """`upper` is the end that was dialled."""

    upper: str
    lower: str
    state: str
    down: int = 0  # publications from upper to lower
    up: int = 0
    down_s: float | None = None
    up_s: float | None = None
    round_trip_ms: float = 0.0

    @property
    def rate(self) -> float:
        return (self.down_s or 0.0) + (self.up_s or 0.0)


class Shortcut(msgspec.Struct):
    """A soft link, or a candidate for one, from one broker past others."""

    source: str
    target: str
    kind: str
    state: str
    sent: int = 0
    gain: float = 0.0
    bypasses: list[str] = []
    sent_s: float | None = None


class Graph(msgspec.Struct):
    nodes: dict[str, Node]
    edges: dict[tuple[str, str], Edge]
    shortcuts: list[Shortcut] = []

    def children(self, name: str) -> list[str]:
        return [node.name for node in self.nodes.values() if node.parent == name]

    def ring(self) -> list[str]:
        """In the order of their positions; nobody: it is no ring."""
        placed = [node for node in self.nodes.values() if node.position is not None]
        return [node.name for node in sorted(placed, key=lambda node: node.position or "")]

    def roots(self) -> list[str]:
        return [node.name for node in self.nodes.values() if node.parent not in self.nodes]


def build(found: list[Row], missing: list[str], cut_off: Iterable[str] = ()) -> Graph:
    """`found` are the reports of `topo.show`, in the order of the tree; whoever is behind a broker that does
    not answer is `cut_off`, and nobody says under whom."""
    graph = Graph({row["name"]: _node(row) for row in found}, {})
    for row in found:
        for link in row["rows"]:
            _enter(graph, row["name"], link)
    for name in missing:
        node = graph.nodes.setdefault(name, Node(name))
        ends = [edge for edge in graph.edges.values() if name in (edge.upper, edge.lower)]
        node.parent = next((edge.upper for edge in ends if edge.lower == name), None)
    for name in cut_off:
        graph.nodes.setdefault(name, Node(name, state="cut off"))
    return graph


def _node(row: Row) -> Node:
    measured = row.get("measured", {})
    return Node(
        row["name"],
        row.get("parent"),
        row["state"],
        row["clients"],
        row["subscriptions"],
        row["advertisements"],
        row["accepted"],
        row["delivered"],
        row.get("forwarded", 0),
        row.get("incarnation", 0),
        load=measured.get("cpu", 0.0),
        pure=row["clients"] == 0,
        position=row["position"] if row.get("member") else None,
        topics=row.get("root_of", 0),
    )


def _enter(graph: Graph, here: str, link: Row) -> None:
    there = link["name"]
    if (kind := link.get("kind", "primary")) != "primary":
        bypasses = list(link["bypasses"])
        graph.shortcuts.append(
            Shortcut(here, there, kind, link["state"], link["sent"], link["gain"], bypasses)
        )
        return
    upper, lower = (there, here) if link["parent"] else (here, there)
    edge = graph.edges.setdefault((upper, lower), Edge(upper, lower, link["state"]))
    if link["state"] != "ready":
        edge.state = link["state"]
    edge.round_trip_ms = max(edge.round_trip_ms, link["round_trip_ms"] or 0.0)
    sent, received = link["sent"], link["received"]
    down, up = (sent, received) if here == upper else (received, sent)
    edge.down, edge.up = max(edge.down, down), max(edge.up, up)


def add_rates(graph: Graph, before: Graph, seconds: float) -> None:
    """Publications a second at each broker and on each link between two looks. A counter of a broker that
    was restarted meanwhile began anew: it has no rate."""
    if seconds <= 0:
        return
    for pair, edge in graph.edges.items():
        if (old := before.edges.get(pair)) is not None:
            edge.down_s, edge.up_s = _grown(edge.down, old.down, seconds), _grown(edge.up, old.up, seconds)
    then = {(link.source, link.target, link.kind): link for link in before.shortcuts}
    for link in graph.shortcuts:
        earlier = then.get((link.source, link.target, link.kind))
        if earlier is not None and link.kind == "soft":  # a candidate carries nothing
            link.sent_s = _grown(link.sent, earlier.sent, seconds)
    for name, node in graph.nodes.items():
        known = before.nodes.get(name)
        if (
            known is not None
            and known.incarnation == node.incarnation
            and "missing"
            not in (
                known.state,
                node.state,
            )
        ):
            accepted_s = _grown(node.accepted, known.accepted, seconds)
            node.in_s = None if accepted_s is None else accepted_s + _received_s(graph, name)
            node.out_s = _grown(node.forwarded + node.delivered, known.forwarded + known.delivered, seconds)


def _grown(now: int, then: int, seconds: float) -> float | None:
    return (now - then) / seconds if now >= then else None


def _received_s(graph: Graph, name: str) -> float:
    """Over all links to this broker."""
    came = [
        e.up_s if e.upper == name else e.down_s for e in graph.edges.values() if name in (e.upper, e.lower)
    ]
    came += [link.sent_s for link in graph.shortcuts if link.target == name]
    return sum(rate for rate in came if rate is not None)


def line_width(rate: float) -> float:
    """In pixels: 1 when idle, 5.2 at 100 publications a second, 9.4 at 10,000. Logarithmic and the same in
    every picture, so that two can be compared."""
    return 1 + 2.1 * log10(1 + max(0.0, rate))
