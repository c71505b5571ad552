"""Pictures of overlays: what is drawn, where it stands, and that it is well-formed."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from itertools import combinations
from typing import Any

import pytest

from tools.pubctl.graph import Graph, add_rates, build
from tools.pubctl.layout import places
from tools.pubctl.picture import svg
from tools.pubctl.topo import dot
from tools.pubctl.topology import Generate, generated

SVG = "{http://www.w3.org/2000/svg}"


def link(name: str, parent: bool, sent: int = 0, received: int = 0, state: str = "ready") -> dict[str, Any]:
    return {
        "name": name,
        "parent": parent,
        "state": state,
        "sent": sent,
        "received": received,
        "round_trip_ms": 0.5,
        "unsettled": 0,
    }


def report(name: str, parent: str | None, links: list[dict[str, Any]], clients: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "parent": parent,
        "state": "ready",
        "clients": clients,
        "subscriptions": clients,
        "advertisements": 0,
        "accepted": 0,
        "delivered": 0,
        "measured": {"cpu": 0.5},
        "rows": links,
    }


def tree(brokers: int, fanout: int = 2, shape: str = "tree") -> Graph:
    plans = generated(Generate(shape, brokers, fanout))  # type: ignore[arg-type]
    parent = {plan.name: (plan.neighbours or [None])[0] for plan in plans}
    found = []
    for name, up in parent.items():
        links = [link(child, False, 10, 1) for child, its in parent.items() if its == name]
        found.append(report(name, up, links + ([link(up, True, 1, 10)] if up else [])))
    return build(found, [])


def test_both_ends_of_a_link_are_one_edge() -> None:
    graph = tree(7)
    assert len(graph.edges) == 6
    edge = graph.edges["b1", "b2"]
    assert (edge.down, edge.up) == (10, 1)


def test_rates_are_what_grew() -> None:
    before, now = tree(3), tree(3)
    now.edges["b1", "b2"].down = 110
    now.edges["b1", "b3"].down = 0  # a broker that was restarted counts anew
    add_rates(now, before, 2.0)
    assert now.edges["b1", "b2"].down_s == 50
    assert now.edges["b1", "b3"].down_s == 0


@pytest.mark.parametrize(
    ("brokers", "fanout", "shape"), [(1, 2, "tree"), (63, 2, "tree"), (40, 5, "random"), (300, 1, "line")]
)
def test_brokers_do_not_overlap_and_parents_stand_above(brokers: int, fanout: int, shape: str) -> None:
    graph = tree(brokers, fanout, shape)
    at = places(graph)
    assert at.keys() == graph.nodes.keys()
    for one, other in combinations(at.values(), 2):
        assert one.layer != other.layer or abs(one.column - other.column) >= 1
    for name, node in graph.nodes.items():
        if node.parent is not None:
            assert at[name].layer == at[node.parent].layer + 1
        if children := graph.children(name):
            columns = [at[child].column for child in children]
            assert at[name].column == (min(columns) + max(columns)) / 2


def texts(drawn: str) -> list[str]:
    return [element.text or "" for element in xml.fromstring(drawn).iter(f"{SVG}text")]


def test_the_picture_names_every_broker_and_its_traffic() -> None:
    said = texts(svg(tree(7), "demo", "seven"))
    assert {f"b{n}" for n in range(1, 8)} <= set(said)
    assert said.count("↓ 10  ↑ 1") == 6


def test_names_are_escaped() -> None:
    drawn = svg(build([report("<b&1>", None, [])], []))
    assert "<b&1>" in texts(drawn)
    assert '"a\\"b"' in dot(build([report('a"b', None, [])], []))


def test_a_broker_that_does_not_answer_is_drawn_below_its_parent() -> None:
    graph = build([report("b1", None, [link("b2", False, state="suspended")])], ["b2"])
    assert graph.nodes["b2"].parent == "b1"
    said = texts(svg(graph))
    assert "no answer" in said
    assert "suspended" in said


def test_a_cycle_is_drawn_too() -> None:
    graph = build([report("a", "b", [link("b", True)]), report("b", "a", [link("a", True)])], [])
    assert {"a", "b"} <= set(texts(svg(graph)))


def test_many_clients_are_dots_and_a_number() -> None:
    drawn = svg(build([report("b1", None, [], clients=17)], []))
    assert "+12" in texts(drawn)


def test_dot_has_every_link() -> None:
    text = dot(tree(3))
    assert text.startswith("digraph overlay {")
    assert '"b1" -> "b2"' in text
    assert '"b1" -> "b3"' in text
