"""The overlay as pubctl draws it, from what the page process knows."""

from __future__ import annotations

from tools.pubctl.graph import Edge, Graph, Node, Shortcut
from tools.web.members import Members
from tools.web.rates import NO_RATE, UNKNOWN, Rates

STATES = {"no answer": "missing", "gone": "missing", "left": "missing"}


def graph_of(members: Members, rates: Rates) -> Graph:
    names = {broker.i: broker.name for broker in members.brokers.values()}
    graph = Graph({}, {})
    for broker in members.document().brokers:
        beat, rate = members.beats.get(broker.name), rates.brokers.get(broker.name, UNKNOWN)
        node = Node(broker.name, names.get(broker.parent) if broker.parent is not None else None)
        node.state = STATES.get(broker.state, broker.state)
        node.in_s, node.out_s = rate.in_s, rate.out_s
        if beat is not None:
            node.clients, node.subscriptions, node.load = beat.clients, beat.subscriptions, beat.cpu or 0.0
            node.accepted, node.delivered = beat.accepted, beat.delivered
        graph.nodes[broker.name] = node
    for (lower, upper, kind), link in members.links.items():
        here, there = (
            rates.links.get((lower, upper, kind), NO_RATE),
            rates.links.get((upper, lower, kind), NO_RATE),
        )
        if kind == "primary":
            edge = Edge(upper, lower, "ready" if link.up else "suspended")
            edge.up_s, edge.down_s = here.sent_s, there.sent_s
            graph.edges[upper, lower] = edge
        elif kind == "soft":
            past = [names[i] for i in link.bypasses]
            graph.shortcuts.append(Shortcut(lower, upper, kind, "active", bypasses=past, sent_s=here.sent_s))
    return graph
