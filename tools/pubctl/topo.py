"""`pubctl topo show|diff`: the overlay as a table, JSON, a graph for dot or a picture; what has changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import BinaryIO

import click
import msgspec
from rich.console import Console
from rich.markup import escape

from tools.pubctl.answers import reports
from tools.pubctl.channel import Channel, Reply, opened
from tools.pubctl.commands import group
from tools.pubctl.failure import USAGE, Failure
from tools.pubctl.graph import Edge, Graph, Node, Shortcut, add_rates, build
from tools.pubctl.invocation import Duration
from tools.pubctl.output import Column, Result, count, several, show
from tools.pubctl.picture import per_second
from tools.pubctl.ring_picture import draw_ring

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
    before, began = None, 0.0
    if sample_s > 0:
        first = channel.ask("topo.show")
        began = time.monotonic()
        before = build(reports(first), first.missing, first.cut_off)
        time.sleep(sample_s)
    reply = channel.ask("topo.show")
    seconds = time.monotonic() - began  # from answer to answer
    graph = build(reports(reply), reply.missing, reply.cut_off)
    if before is not None:
        add_rates(graph, before, seconds)
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
    return row | {"down_s": _tenth(edge.down_s), "up_s": _tenth(edge.up_s)}


def _tenth(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)


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
        label = f"{node.name}\\n{_holds(node)}"
        yield f'  {_quoted(node.name)} [label={_quoted(label, keep=True)}, tooltip="{node.state}"];'
    for edge in graph.edges.values():
        label = per_second(edge.rate if edge.down_s is not None else None)
        yield f'  {_quoted(edge.upper)} -> {_quoted(edge.lower)} [label="{label}"];'
    for link in graph.shortcuts:
        style = "dashed" if link.kind == "soft" else "dotted"
        ends = f"{_quoted(link.source)} -> {_quoted(link.target)}"
        label = f', label="{per_second(link.sent_s)}"' if link.kind == "soft" else ""
        yield f"  {ends} [style={style}, dir=forward, constraint=false{label}];"
    yield "}"


def _quoted(text: str, keep: bool = False) -> str:
    text = text if keep else text.replace("\\", "\\\\")
    return '"' + text.replace('"', '\\"') + '"'


def _holds(node: Node) -> str:
    return f"{several(node.clients, 'client')}, {several(node.subscriptions, 'sub')}"


COLOURS = {"ready": "green", "missing": "red", "cut off": "red"}
ABSENT = {"missing": "no answer", "cut off": "cut off"}


def draw(screen: Console, graph: Graph) -> None:
    """The tree in the terminal, or the ring; a soft link stands below the broker that sends over it. Whoever
    is known is drawn, also below a broker that does not answer, also on a cycle."""
    from rich.tree import Tree

    drawn: set[str] = set(graph.ring())
    if drawn:
        draw_ring(screen, graph, {name: _label(graph, name) for name in drawn})
    for root in (*graph.roots(), *graph.nodes):
        if root in drawn:
            continue
        whole = Tree(_label(graph, root), guide_style="dim")
        waiting = [(root, whole)]
        while waiting:
            name, tree = waiting.pop()
            drawn.add(name)
            below = [child for child in graph.children(name) if child not in drawn]
            waiting += [(child, tree.add(_label(graph, child))) for child in below]
            for link in graph.shortcuts:
                if link.kind == "soft" and link.source == name:
                    tree.add(f"[cyan]{escape(soft_text(link))}[/cyan]")
        screen.print(whole)


def _label(graph: Graph, name: str) -> str:
    node = graph.nodes[name]
    edge = graph.edges.get((node.parent or "", name))
    traffic = f"  ↓ {per_second(edge.down_s)} ↑ {per_second(edge.up_s)}" if edge else ""
    colour = COLOURS.get(node.state, "yellow")
    holds = "" if node.state in ABSENT else f"  {_holds(node)}"
    state = ABSENT.get(node.state, node.state)
    return f"[bold]{escape(name)}[/bold] [{colour}]{state}[/{colour}]{holds}[dim]{traffic}[/dim]"


def soft_text(link: Shortcut) -> str:
    past = f" past {', '.join(link.bypasses)}" if link.bypasses else ""
    return (
        f"⇢ {link.target}  soft link{past}, {link.state}, {per_second(link.sent_s)}, gain {count(link.gain)}"
    )
