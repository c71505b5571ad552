"""Pictures of overlays: what is drawn, where it stands, and that it is well-formed."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as xml
from itertools import combinations
from typing import Any

import pytest
from rich.console import Console

from tools.pubctl.graph import Graph, add_rates, build
from tools.pubctl.layout import places
from tools.pubctl.picture import svg
from tools.pubctl.topo import dot, draw
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
    assert now.edges["b1", "b3"].down_s is None


def test_rates_of_brokers_and_links_are_of_one_window() -> None:
    """What the broker measures over an interval of its own does not count."""

    def overlay(accepted: int, forwarded: int, delivered: int) -> Graph:
        root = report("b1", None, [link("b2", False, forwarded, 0)])
        leaf = report("b2", "b1", [link("b1", True, 0, forwarded)], clients=1)
        root |= {"accepted": accepted, "forwarded": forwarded}
        leaf |= {"delivered": delivered}
        for row in (root, leaf):
            row["measured"] = {"publications_in_s": 999.0, "publications_out_s": 999.0, "cpu": 0.1}
        return build([root, leaf], [])

    now = overlay(300, 200, 100)
    add_rates(now, overlay(100, 100, 50), 2.0)
    assert (now.nodes["b1"].in_s, now.nodes["b1"].out_s) == (100, 50)
    assert now.edges["b1", "b2"].down_s == 50
    assert (now.nodes["b2"].in_s, now.nodes["b2"].out_s) == (50, 25)
    once = overlay(1, 1, 1)
    assert once.nodes["b1"].in_s is None  # one look has no rates


def test_a_broker_that_was_restarted_has_no_rate() -> None:
    before, now = tree(3), tree(3)
    now.nodes["b2"].incarnation, now.nodes["b2"].accepted = 7, 1_000_000
    add_rates(now, before, 1.0)
    assert now.nodes["b2"].in_s is None
    assert now.nodes["b1"].in_s is not None


def widths(drawn: str) -> list[float]:
    paths = xml.fromstring(drawn).iter(f"{SVG}path")
    return [float(path.get("stroke-width", 0)) for path in paths if path.find(f"{SVG}title") is not None]


def test_widths_are_rates_and_never_totals() -> None:
    """A link that carried a million yesterday and nothing now is as thin as one that never carried any."""
    before, now = tree(3), tree(3)
    for graph in (before, now):
        graph.edges["b1", "b3"].down += 1_000_000
    add_rates(now, before, 1.0)
    assert widths(svg(now)) == [1.0, 1.0]
    assert not any("1" in text and "/s" not in text and "b" not in text for text in texts(svg(now)))
    now.edges["b1", "b2"].down_s = 100.0
    now.edges["b1", "b3"].down_s = 10_000.0
    assert widths(svg(now)) == [5.2, 9.4]  # on one scale, whatever else is in the picture


def with_soft_link() -> Graph:
    soft = link("b4", False, 600) | {"kind": "soft", "state": "active", "gain": 4253.0, "bypasses": ["b2"]}
    graph = build(
        [
            report("b1", None, [link("b2", False), soft]),
            report("b2", "b1", [link("b1", True), link("b4", False)]),
            report("b4", "b2", [link("b2", True)], clients=1),
        ],
        [],
    )
    earlier = build([report("b1", None, [link("b2", False), soft | {"sent": 100}])], [])
    add_rates(graph, earlier, 5.0)
    return graph


def test_soft_links_are_drawn_and_named() -> None:
    drawn = svg(with_soft_link())
    soft = [path for path in xml.fromstring(drawn).iter(f"{SVG}path") if path.get("class") == "soft"]
    assert len(soft) == 1
    assert soft[0].get("stroke-dasharray")
    assert float(soft[0].get("stroke-width", 0)) == 5.2  # 100/s
    title = soft[0].find(f"{SVG}title")
    assert title is not None
    assert title.text == "soft link b1 to b4 past b2: 100/s, gain 4253"
    assert "b1 → b4  100/s" in texts(drawn)
    assert with_soft_link().nodes["b4"].in_s is None  # seen once only


def shown(graph: Graph) -> str:
    screen = Console(width=160, no_color=True, file=io.StringIO())
    draw(screen, graph)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_the_tree_in_the_terminal_has_the_soft_links() -> None:
    assert "⇢ b4  soft link past b2, active, 100/s, gain 4253" in shown(with_soft_link())


def test_one_client_is_one_client() -> None:
    graph = with_soft_link()
    for text in (shown(graph), dot(graph), svg(graph)):
        assert "1 client" in text
        assert "1 clients" not in text
        assert not re.search(r"\b1 (subs\b|subscriptions)", text)


def test_nobody_is_left_out_below_a_broker_that_does_not_answer() -> None:
    """Asked from below, the parent is missing: the tree hangs from it all the same."""
    graph = build([report("b2", "b1", [link("b1", True, state="suspended")]), report("b3", "b2", [])], ["b1"])
    said = shown(graph)
    assert [name in said for name in ("b1 no answer", "b2 ready", "b3 ready")] == [True] * 3


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
    assert said.count("in –, out –") == 7  # one look has no rates


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


def ring(brokers: int) -> Graph:
    """Positions fall as names rise, so that one order is not the other."""
    names = [f"r{number:03d}" for number in range(brokers)]
    found = []
    for number, name in enumerate(names):
        following = names[number - 1]
        place = {"member": True, "position": f"{(brokers - number) << 48:016x}", "root_of": number}
        found.append(report(name, None, [link(following, True, 5, 5)]) | place)
    return build(found, [])


def test_a_ring_is_drawn_in_the_order_of_positions() -> None:
    graph = ring(6)
    assert graph.ring() == ["r005", "r004", "r003", "r002", "r001", "r000"]
    drawn = xml.fromstring(svg(graph))
    successors = [path for path in drawn.iter(f"{SVG}path") if path.get("class") == "successor"]
    assert len(successors) == 6
    words = [text.text or "" for text in drawn.iter(f"{SVG}text")]
    assert "0001…  5 topics" in words
    screen = Console(file=io.StringIO(), width=100)
    draw(screen, graph)
    told = screen.file.getvalue()  # type: ignore[attr-defined]
    assert told.index("r005") < told.index("r000") and "ring of 6 brokers" in told


def test_many_brokers_of_a_ring_are_dots_with_names() -> None:
    drawn = xml.fromstring(svg(ring(40)))
    words = {text.text for text in drawn.iter(f"{SVG}text")}
    assert {"r000", "r039"} <= words
    assert not [rect for rect in drawn.iter(f"{SVG}rect") if rect.get("width") == "150"]


def test_who_is_not_on_the_ring_is_drawn_all_the_same() -> None:
    graph = ring(5)
    graph.nodes["r000"].position = None
    words = {text.text for text in xml.fromstring(svg(graph)).iter(f"{SVG}text")}
    assert "r000" in words
