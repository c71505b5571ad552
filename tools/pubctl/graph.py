"""The overlay as nodes and edges, from what every broker says about itself and its links."""

from __future__ import annotations

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
    in_s: float = 0.0
    out_s: float = 0.0
    load: float = 0.0  # of one processor
    pure: bool = False  # forwards and serves nobody


class Edge(msgspec.Struct):
    """`upper` is the end that was dialled."""

    upper: str
    lower: str
    state: str
    down: int = 0  # publications from upper to lower
    up: int = 0
    down_s: float = 0.0
    up_s: float = 0.0
    round_trip_ms: float = 0.0

    @property
    def rate(self) -> float:
        return self.down_s + self.up_s

    @property
    def total(self) -> int:
        return self.down + self.up


class Shortcut(msgspec.Struct):
    """A soft link, or a candidate for one, from one broker past others."""

    source: str
    target: str
    kind: str
    state: str
    sent: int = 0
    gain: float = 0.0
    bypasses: list[str] = []


class Graph(msgspec.Struct):
    nodes: dict[str, Node]
    edges: dict[tuple[str, str], Edge]
    shortcuts: list[Shortcut] = []

    def children(self, name: str) -> list[str]:
        return [node.name for node in self.nodes.values() if node.parent == name]

    def roots(self) -> list[str]:
        return [node.name for node in self.nodes.values() if node.parent not in self.nodes]


def build(found: list[Row], missing: list[str]) -> Graph:
    """`found` are the reports of `topo.show`, in the order of the tree."""
    graph = Graph({row["name"]: _node(row) for row in found}, {})
    for row in found:
        for link in row["rows"]:
            _enter(graph, row["name"], link)
    for name in missing:
        node = graph.nodes.setdefault(name, Node(name))
        ends = [edge for edge in graph.edges.values() if name in (edge.upper, edge.lower)]
        node.parent = next((edge.upper for edge in ends if edge.lower == name), None)
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
        measured.get("publications_in_s", 0.0),
        measured.get("publications_out_s", 0.0),
        measured.get("cpu", 0.0),
        row["clients"] == 0,
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
    """Publications a second on each link between two looks."""
    for pair, edge in graph.edges.items():
        if (old := before.edges.get(pair)) is not None and seconds > 0:
            edge.down_s = max(0, edge.down - old.down) / seconds
            edge.up_s = max(0, edge.up - old.up) / seconds
