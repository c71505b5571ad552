"""The overlay as an SVG: layers of the tree, links as wide as their traffic, brokers as dark as their load.

Written by hand, without a library: one text that a browser, a README and a slide can show. Colours are
readable on light and dark pages; everything that colour says is also written.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import sqrt

from tools.pubctl.graph import Edge, Graph, Node
from tools.pubctl.layout import Place, places
from tools.pubctl.output import count

COLUMN, LAYER = 178, 152  # pixels between leaves, between layers
WIDTH, HEIGHT = 150, 74  # of a broker
MARGIN, HEADER, FOOTER = 44, 72, 46
COLD, HOT = (238, 243, 250), (233, 120, 48)  # fill of an idle broker and of a busy one
INK, SOFT, LINE, PAGE = "#17212e", "#5b6b7f", "#8aa0b8", "#fbfcfe"
STATES = {"ready": "#2f9e62", "joining": "#d9a400", "leaving": "#8f6ac1", "missing": "#d3423e"}
CLIENT = "#3d6fa5"
DOTS = 5  # clients drawn in a broker; more are a number
FONT = "ui-sans-serif, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def svg(graph: Graph, title: str = "grapevine overlay", subtitle: str = "") -> str:
    return "\n".join(_lines(graph, title, subtitle)) + "\n"


def _lines(graph: Graph, title: str, subtitle: str) -> Iterator[str]:
    at = {name: _centre(place) for name, place in places(graph).items()}
    width = max((x for x, _ in at.values()), default=0) + WIDTH / 2 + MARGIN
    width = max(width, 560)
    height = max((y for _, y in at.values()), default=0) + HEIGHT / 2 + FOOTER + MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="{FONT}" role="img">'
    )
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="100%" height="100%" rx="14" fill="{PAGE}"/>'
    yield _text(MARGIN, 36, title, 20, INK, weight=650)
    yield _text(MARGIN, 57, subtitle, 12.5, SOFT)
    most = max((edge.rate or edge.total for edge in graph.edges.values()), default=0)
    for edge in graph.edges.values():
        if edge.upper in at and edge.lower in at:
            yield from _edge(edge, at[edge.upper], at[edge.lower], most)
    busiest = max((node.in_s for node in graph.nodes.values()), default=0.0)
    for name, node in graph.nodes.items():
        yield from _node(node, *at[name], busiest)
    yield from _legend(height - 22, width)
    yield "</svg>"


def _centre(place: Place) -> tuple[float, float]:
    return MARGIN + WIDTH / 2 + place.column * COLUMN, HEADER + HEIGHT / 2 + 14 + place.layer * LAYER


# --- links ----------------------------------------------------------------------------------------


def _edge(edge: Edge, upper: tuple[float, float], lower: tuple[float, float], most: float) -> Iterator[str]:
    (x1, y1), (x2, y2) = (upper[0], upper[1] + HEIGHT / 2), (lower[0], lower[1] - HEIGHT / 2)
    middle = (y1 + y2) / 2
    carried = edge.rate or edge.total
    thick = 1.5 + (11 * sqrt(carried / most) if most else 0)
    colour = LINE if edge.state == "ready" else STATES["missing"]
    dashed = "" if edge.state == "ready" else ' stroke-dasharray="5 5"'
    path = f"M{x1:.1f} {y1:.1f} C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
    yield (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{thick:.1f}" '
        f'stroke-linecap="round" opacity="0.75"{dashed}><title>{escape(_told(edge))}</title></path>'
    )
    if label := _traffic(edge):
        wide = 6.4 * len(label) + 14
        left, top = x2 - wide / 2, y2 - 33  # above the lower end: there is one label for each broker
        yield f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="19" rx="9.5" fill="{PAGE}"/>'
        yield _text(x2, top + 13.5, label, 11.5, SOFT, anchor="middle")


def _traffic(edge: Edge) -> str:
    if edge.state != "ready":
        return edge.state
    down, up, unit = (edge.down_s, edge.up_s, "/s") if edge.rate else (edge.down, edge.up, "")
    arrows = [f"{sign} {count(round(value))}" for sign, value in (("↓", down), ("↑", up)) if value]
    return "  ".join(arrows) + unit if arrows else ""


def _told(edge: Edge) -> str:
    return (
        f"{edge.upper} - {edge.lower}: {edge.down} down, {edge.up} up, {edge.down_s:.0f}/s down, "
        f"{edge.up_s:.0f}/s up, {edge.round_trip_ms:g} ms"
    )


# --- brokers --------------------------------------------------------------------------------------


def _node(node: Node, x: float, y: float, busiest: float) -> Iterator[str]:
    left, top = x - WIDTH / 2, y - HEIGHT / 2
    state = STATES.get(node.state, STATES["joining"])
    share = max(node.load, node.in_s / busiest * 0.6 if busiest else 0.0)
    yield f"<g><title>{escape(_described(node))}</title>"
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="12" '
        f'fill="{_warm(min(1.0, share))}" stroke="{state}" stroke-width="1.8"/>'
    )
    yield f'<circle cx="{left + 17:.1f}" cy="{top + 20:.1f}" r="5" fill="{state}"/>'
    yield _text(left + 29, top + 25, _short(node.name, 9), 15, INK, weight=650)
    if node.state == "missing":
        yield _text(left + 14, top + 47, "no answer", 11.5, STATES["missing"])
    else:
        yield _text(left + 14, top + 45, _rates(node), 11.5, INK)
        yield _text(left + 14, top + 61, _holds(node), 11.5, INK)
    yield from _dots(node, left + WIDTH - 14, top + 20)
    yield "</g>"


def _rates(node: Node) -> str:
    if node.in_s or node.out_s:
        return f"in {count(round(node.in_s))}/s, out {count(round(node.out_s))}/s"
    return f"{count(node.accepted)} in, {count(node.delivered)} out"


def _holds(node: Node) -> str:
    busy = f", cpu {100 * node.load:.0f} %" if node.load >= 0.005 else ""
    return f"{count(node.subscriptions)} sub{'' if node.subscriptions == 1 else 's'}{busy}"


def _dots(node: Node, right: float, y: float) -> Iterator[str]:
    """One dot a client, from the right; a number for the rest."""
    more = node.clients - DOTS
    if more > 0:
        yield _text(right + 3, y + 4, f"+{more}", 10.5, CLIENT, anchor="end")
        right -= 8 + 6 * len(str(more))
    for index in range(min(node.clients, DOTS)):
        yield f'<circle cx="{right - index * 9:.1f}" cy="{y:.1f}" r="3.2" fill="{CLIENT}"/>'


def _described(node: Node) -> str:
    return (
        f"{node.name}: {node.state}, {node.clients} clients, {node.subscriptions} subscriptions, "
        f"{node.accepted} accepted, {node.delivered} delivered, cpu {100 * node.load:.0f} %"
    )


def _legend(y: float, width: float) -> Iterator[str]:
    x = MARGIN + 6.0
    for state, colour in STATES.items():
        yield f'<circle cx="{x:.1f}" cy="{y - 4:.1f}" r="5" fill="{colour}"/>'
        yield _text(x + 10, y, state, 11.5, SOFT)
        x += 26 + 7 * len(state)
    if width > 640:
        yield _text(width - MARGIN, y, "fill: load · line: traffic · dots: clients", 11.5, SOFT, anchor="end")


def _warm(share: float) -> str:
    red, green, blue = (round(cold + (hot - cold) * share) for cold, hot in zip(COLD, HOT, strict=True))
    return f"rgb({red},{green},{blue})"


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _text(
    x: float, y: float, text: str, size: float, colour: str, weight: int = 400, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
