"""The overlay as an SVG: layers of the tree, links as wide as their traffic, brokers as dark as their load.

Written by hand, without a library: one text that a browser, a README and a slide can show. Colours are
readable on light and dark pages; everything that colour says is also written. Widths are rates on the scale
of graph.line_width, which the legend prints; soft links are dashed curves past the brokers they bypass. A
ring is drawn as one (ring_picture.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tools.pubctl.graph import Edge, Graph, Node, Shortcut, line_width
from tools.pubctl.layout import Place, places
from tools.pubctl.output import count, several
from tools.pubctl.ring_picture import Circle, line, links, place_of

COLUMN, LAYER = 178, 152  # pixels between leaves, between layers
WIDTH, HEIGHT = 150, 74  # of a broker
MARGIN, HEADER, FOOTER = 44, 72, 46
COLD, HOT = (238, 243, 250), (233, 120, 48)  # fill of an idle broker and of a busy one
INK, SOFT, LINE, PAGE = "#17212e", "#5b6b7f", "#8aa0b8", "#fbfcfe"
STATES = {
    "ready": "#2f9e62",
    "joining": "#d9a400",
    "leaving": "#8f6ac1",
    "missing": "#d3423e",
    "cut off": "#a65b8c",
}
SHOWN = {"missing": "no answer"}  # how a state is called in the picture
CLIENT = "#3d6fa5"
BYPASS = "#0d7f7c"  # of soft links
SCALE = (0, 100, 10_000)  # publications a second that the legend shows the width of
DOTS = 5  # clients drawn in a broker; more are a number
FONT = "ui-sans-serif, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def svg(graph: Graph, title: str = "grapevine overlay", subtitle: str = "") -> str:
    return "\n".join(_lines(graph, title, subtitle)) + "\n"


def _lines(graph: Graph, title: str, subtitle: str) -> Iterator[str]:
    circle = Circle(graph) if graph.ring() else None
    at = _on_ring(graph, circle) if circle else {n: _centre(place) for n, place in places(graph).items()}
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
    if circle:
        yield from _ring(graph, circle, at)
        yield from _legend(height - 22, width)
        yield "</svg>"
        return
    for edge in graph.edges.values():
        if edge.upper in at and edge.lower in at:
            yield from _edge(edge, at[edge.upper], at[edge.lower])
    for link in graph.shortcuts:
        if link.kind == "soft" and link.source in at and link.target in at:
            yield from _shortcut(link, at[link.source], at[link.target])
    for name, node in graph.nodes.items():
        yield from _node(node, *at[name])
    yield from _legend(height - 22, width)
    yield "</svg>"


def _centre(place: Place) -> tuple[float, float]:
    return MARGIN + WIDTH / 2 + place.column * COLUMN, HEADER + HEIGHT / 2 + 14 + place.layer * LAYER


# --- a ring ---------------------------------------------------------------------------------------


def _on_ring(graph: Graph, circle: Circle) -> dict[str, tuple[float, float]]:
    """Those who have no place on it stand below."""
    x = MARGIN + WIDTH / 2 + circle.radius
    y = HEADER + HEIGHT / 2 + 30 + circle.radius
    found = {name: circle.at(name) for name in circle.names}
    at = {name: (x + dx, y + dy) for name, (dx, dy) in found.items()}
    absent = [name for name in graph.nodes if name not in at]
    below = y + circle.radius + HEIGHT + 40
    return at | {name: (MARGIN + WIDTH / 2 + n * COLUMN, below) for n, name in enumerate(absent)}


def _ring(graph: Graph, circle: Circle, at: dict[str, tuple[float, float]]) -> Iterator[str]:
    for edge, near in links(graph, circle):
        colour = LINE if edge.state == "ready" else STATES["missing"]
        yield line(edge, near, (*at[edge.upper], *at[edge.lower]), colour, _told(edge))
    for name, node in graph.nodes.items():
        x, y = at[name]
        if circle.boxes or name not in circle.names:
            yield from _node(node, x, y)
            if name in circle.names:
                yield _text(x, y + HEIGHT / 2 + 16, place_of(node), 11.5, SOFT, anchor="middle")
        else:
            yield from _dot(node, x, y, circle.turned(name))


def _dot(node: Node, x: float, y: float, turned: float) -> Iterator[str]:
    state = STATES.get(node.state, STATES["joining"])
    left = turned > 90
    yield f"<g><title>{escape(f'{_described(node)}, {place_of(node)}')}</title>"
    yield (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{_warm(min(1.0, node.load))}" '
        f'stroke="{state}" stroke-width="1.8"/>'
    )
    yield f'<g transform="translate({x:.1f} {y:.1f}) rotate({turned + 180 * left:.1f})">'
    yield _text(-11 if left else 11, 4, _short(node.name, 9), 11.5, INK, anchor="end" if left else "start")
    yield "</g></g>"


# --- links ----------------------------------------------------------------------------------------


def _edge(edge: Edge, upper: tuple[float, float], lower: tuple[float, float]) -> Iterator[str]:
    (x1, y1), (x2, y2) = (upper[0], upper[1] + HEIGHT / 2), (lower[0], lower[1] - HEIGHT / 2)
    middle = (y1 + y2) / 2
    thick = line_width(edge.rate)
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
    rates = (("↓", edge.down_s), ("↑", edge.up_s))
    arrows = [f"{sign} {per_second(value)}" for sign, value in rates if value]
    return "  ".join(arrows)


def _told(edge: Edge) -> str:
    return (
        f"{edge.upper} - {edge.lower}: {per_second(edge.down_s)} down, {per_second(edge.up_s)} up now; "
        f"{edge.down} down, {edge.up} up in all; {edge.round_trip_ms:g} ms"
    )


def _shortcut(link: Shortcut, source: tuple[float, float], target: tuple[float, float]) -> Iterator[str]:
    """Bowed away from the straight line, where the brokers it bypasses stand; its name near its middle."""
    (x1, y1), (x2, y2) = source, target
    length = max(1.0, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    bow = min(90.0, 30 + length * 0.14)
    cx, cy = (x1 + x2) / 2 - (y2 - y1) / length * bow, (y1 + y2) / 2 - abs(x2 - x1) / length * bow
    past = f" past {', '.join(link.bypasses)}" if link.bypasses else ""
    told = f"soft link {link.source} to {link.target}{past}: {per_second(link.sent_s)}, gain {link.gain:g}"
    yield (
        f'<path class="soft" d="M{x1:.1f} {y1:.1f} Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}" fill="none" '
        f'stroke="{BYPASS}" stroke-width="{line_width(link.sent_s or 0.0):.1f}" stroke-dasharray="9 6" '
        f'opacity="0.9"><title>{escape(told)}</title></path>'
    )
    if link.sent_s:
        x, y = (x1 + 2 * cx + x2) / 4, (y1 + 2 * cy + y2) / 4
        label = f"{link.source} → {link.target}  {per_second(link.sent_s)}"
        wide = 6.4 * len(label) + 14
        yield (
            f'<rect x="{x - wide / 2:.1f}" y="{y - 10:.1f}" width="{wide:.1f}" height="19" rx="9.5" '
            f'fill="{PAGE}" opacity="0.92"/>'
        )
        yield _text(x, y + 3.5, label, 11.5, BYPASS, anchor="middle")


def per_second(rate: float | None) -> str:
    """Not known is not zero."""
    return "–" if rate is None else f"{count(round(rate))}/s"


# --- brokers --------------------------------------------------------------------------------------


def _node(node: Node, x: float, y: float) -> Iterator[str]:
    left, top = x - WIDTH / 2, y - HEIGHT / 2
    state = STATES.get(node.state, STATES["joining"])
    yield f"<g><title>{escape(_described(node))}</title>"
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="12" '
        f'fill="{_warm(min(1.0, node.load))}" stroke="{state}" stroke-width="1.8"/>'
    )
    yield f'<circle cx="{left + 17:.1f}" cy="{top + 20:.1f}" r="5" fill="{state}"/>'
    yield _text(left + 29, top + 25, _short(node.name, 9), 15, INK, weight=650)
    if node.state in ("missing", "cut off"):
        yield _text(left + 14, top + 47, SHOWN.get(node.state, node.state), 11.5, state)
    else:
        yield _text(left + 14, top + 45, _rates(node), 11.5, INK)
        yield _text(left + 14, top + 61, _holds(node), 11.5, INK)
    yield from _dots(node, left + WIDTH - 14, top + 20)
    yield "</g>"


def _rates(node: Node) -> str:
    return f"in {per_second(node.in_s)}, out {per_second(node.out_s)}"


def _holds(node: Node) -> str:
    busy = f", cpu {100 * node.load:.0f} %" if node.load >= 0.005 else ""
    return f"{several(node.subscriptions, 'sub')}{busy}"


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
        f"{node.name}: {node.state}, {several(node.clients, 'client')}, "
        f"{several(node.subscriptions, 'subscription')}, {_rates(node)}, "
        f"{node.accepted} accepted, {node.delivered} delivered, cpu {100 * node.load:.0f} %"
    )


def _legend(y: float, width: float) -> Iterator[str]:
    x = MARGIN + 6.0
    for state, colour in STATES.items():
        yield f'<circle cx="{x:.1f}" cy="{y - 4:.1f}" r="5" fill="{colour}"/>'
        word = SHOWN.get(state, state)
        yield _text(x + 10, y, word, 11.5, SOFT)
        x += 26 + 7 * len(word)
    if width > 760:
        for rate in SCALE:
            yield (
                f'<path d="M{x:.1f} {y - 4:.1f} h24" stroke="{LINE}" stroke-width="{line_width(rate):.1f}"/>'
            )
            yield _text(x + 30, y, f"{count(rate)}/s", 11.5, SOFT)
            x += 42 + 7 * len(f"{count(rate)}/s")
        yield (
            f'<path d="M{x:.1f} {y - 4:.1f} h24" stroke="{BYPASS}" stroke-width="3" stroke-dasharray="9 6"/>'
        )
        yield _text(x + 30, y, "soft link", 11.5, SOFT)
    if width > 1000:
        yield _text(width - MARGIN, y, "fill: processor · dots: clients", 11.5, SOFT, anchor="end")


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
