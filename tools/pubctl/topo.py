"""`pubctl topo show|diff`: the overlay as a table, JSON, a graph for dot or a picture; what has changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import BinaryIO

import click
import msgspec
from rich.console import Console

from tools.pubctl.answers import reports
from tools.pubctl.channel import Channel, Reply, opened
from tools.pubctl.commands import group
from tools.pubctl.failure import USAGE, Failure
from tools.pubctl.graph import Edge, Graph, Node, Shortcut, add_rates, build
from tools.pubctl.invocation import Duration
from tools.pubctl.output import Column, Result, count, several, show

COLUMNS = (
    Column("upper", style="bold"),
    Column("lower", style="bold"),
    Column("state"),
    Column("down", "down", count, right=True),
    Column("up", "up", count, right=True),
    Column("down_s", "down/s", count, right=True),
    Column("up_s", "up/s", count, right=True),
    Column("round_trip_ms", "ms", right=True),
)


@group("topo", "The overlay as a whole.")
def topo() -> None: ...


@topo.command("show")
@click.option(
    "--sample", type=Duration(), default=0.5, show_default=True, help="Time between two looks, for the rates."
)
def show_topology(sample: float) -> None:
    """The overlay with its traffic; -o svg for a picture, -o dot for graphviz, -o json for programs."""
    with opened() as channel:
        show(lambda: result_of(*look(channel, sample)))


@topo.command("diff")
@click.argument("before", type=click.File("rb"), metavar="FILE")
def show_changes(before: BinaryIO) -> None:
    """What has changed since FILE, written by `topo show -o json` ("-" reads it from the standard input):
    brokers and links that came or went, links between the same brokers that are of another kind."""
    try:
        then = msgspec.json.decode(before.read(), type=Saved)
    except msgspec.MsgspecError as error:
        raise Failure(f"{before.name} is not what `topo show -o json` writes: {error}", USAGE) from None
    with opened() as channel:
        show(lambda: changes(then, *look(channel, 0.0)))


class Saved(msgspec.Struct):
    """What a diff needs of `topo show -o json`."""

    rows: list[Edge]
    brokers: list[Node]
    shortcuts: list[Shortcut] = []


CHANGED = (Column("change", style="bold"), Column("what"), Column("one", style="bold"), Column("other"))


def changes(then: Saved, graph: Graph, reply: Reply) -> Result:
    before = _parts({node.name for node in then.brokers}, then.rows, then.shortcuts)
    after = _parts(set(graph.nodes), list(graph.edges.values()), graph.shortcuts)
    rows = [
        {"change": word, "what": what, "one": one, "other": other}
        for word, found in (("gone", before - after), ("new", after - before))
        for what, one, other in sorted(found)
    ]
    return Result(rows, CHANGED, {"asked": reply.body["asked"]}, missing=reply.missing)


def _parts(brokers: set[str], edges: list[Edge], shortcuts: list[Shortcut]) -> set[tuple[str, str, str]]:
    """Primary links with their upper end first; candidates come and go by themselves and do not count."""
    found = {("broker", name, "") for name in brokers}
    found |= {("primary link", edge.upper, edge.lower) for edge in edges}
    found |= {("soft link", link.source, link.target) for link in shortcuts if link.kind == "soft"}
    return found


def look(channel: Channel, sample_s: float) -> tuple[Graph, Reply]:
    """The overlay now, with rates if there is time for two looks."""
    before = None
    began = time.monotonic()
    if sample_s > 0:
        first = channel.ask("topo.show")
        before = build(reports(first), first.missing)
        time.sleep(sample_s)
    reply = channel.ask("topo.show")
    graph = build(reports(reply), reply.missing)
    if before is not None:
        add_rates(graph, before, time.monotonic() - began)
    return graph, reply


def result_of(graph: Graph, reply: Reply) -> Result:
    from tools.pubctl.picture import svg

    return Result(
        [edge_row(edge) for edge in graph.edges.values()],
        COLUMNS,
        {
            "asked": reply.body["asked"],
            "brokers": msgspec.to_builtins(list(graph.nodes.values())),
            "shortcuts": msgspec.to_builtins(graph.shortcuts),
        },
        missing=reply.missing,
        forms={"dot": lambda: dot(graph), "svg": lambda: svg(graph, subtitle=subtitle(graph))},
        text=lambda screen: draw(screen, graph),
    )


def edge_row(edge: Edge) -> dict[str, object]:
    row: dict[str, object] = msgspec.to_builtins(edge)
    return row | {"down_s": round(edge.down_s, 1), "up_s": round(edge.up_s, 1)}


def subtitle(graph: Graph) -> str:
    nodes = graph.nodes.values()
    clients, subscriptions = sum(n.clients for n in nodes), sum(n.subscriptions for n in nodes)
    return (
        f"{several(len(nodes), 'broker')}, {several(clients, 'client')}, "
        f"{several(subscriptions, 'subscription')}, "
        f"{count(sum(n.accepted for n in nodes))} publications accepted, "
        f"{count(sum(n.delivered for n in nodes))} delivered"
    )


def dot(graph: Graph) -> str:
    """For graphviz."""
    return "\n".join(_dot_lines(graph)) + "\n"


def _dot_lines(graph: Graph) -> Iterator[str]:
    yield "digraph overlay {"
    yield '  node [shape=box, style="rounded,filled", fillcolor="#eef3fa", fontname="sans-serif"];'
    yield "  edge [dir=none];"
    for node in graph.nodes.values():
        label = f"{node.name}\\n{node.clients} clients, {node.subscriptions} subs"
        yield f'  {_quoted(node.name)} [label={_quoted(label, keep=True)}, tooltip="{node.state}"];'
    for edge in graph.edges.values():
        label = f"{count(round(edge.rate, 1))}/s" if edge.rate else count(edge.total)
        yield f'  {_quoted(edge.upper)} -> {_quoted(edge.lower)} [label="{label}"];'
    for link in graph.shortcuts:
        style = "dashed" if link.kind == "soft" else "dotted"
        ends = f"{_quoted(link.source)} -> {_quoted(link.target)}"
        yield f"  {ends} [style={style}, dir=forward, constraint=false];"
    yield "}"


def _quoted(text: str, keep: bool = False) -> str:
    text = text if keep else text.replace("\\", "\\\\")
    return '"' + text.replace('"', '\\"') + '"'


def draw(screen: Console, graph: Graph) -> None:
    """The tree in the terminal."""
    from rich.markup import escape
    from rich.tree import Tree

    trees: dict[str, Tree] = {}
    for name, node in graph.nodes.items():
        edge = graph.edges.get((node.parent or "", name))
        traffic = f"  ↓ {count(round(edge.down_s, 1))}/s ↑ {count(round(edge.up_s, 1))}/s" if edge else ""
        colour = "green" if node.state == "ready" else "red" if node.state == "missing" else "yellow"
        label = (
            f"[bold]{escape(name)}[/bold] [{colour}]{node.state}[/{colour}]  {node.clients} clients, "
            f"{count(node.subscriptions)} subs[dim]{traffic}[/dim]"
        )
        above = trees.get(node.parent or "")
        trees[name] = Tree(label) if above is None else above.add(label)
        if above is None:
            trees[name].guide_style = "dim"
    for name in graph.roots():
        screen.print(trees[name])
