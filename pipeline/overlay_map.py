"""The overlay as the logs show it: brokers as wide as their work, links as wide as their traffic.

The tree hangs from the broker that most of the traffic passes; a link beside the tree (a soft link) is drawn
dashed. Colour is the yield: green where copies find subscribers, red where they only pass; a gap in the ring
inside a broker is the share that only passes, for who does not see the colours apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from math import sqrt
from typing import Any, NamedTuple

from pipeline.plots import WIDTH, clipped, short, svg, text

Row = dict[str, Any]
BROKERS_MAX = 40
LAYER, TOP, SIDE = 78.0, 30.0, 34.0
RADIUS = (9.0, 22.0)
LINE = (1.2, 11.0)


class Place(NamedTuple):
    x: float
    y: float


def drawn(brokers: Sequence[Row], links: Sequence[Row]) -> str:
    carried: dict[tuple[str, str], int] = defaultdict(int)
    for link in links:
        first, second = sorted((link["broker"], link["to"]))
        carried[first, second] += link["forwarded"]
    names = [row["broker"] for row in brokers]
    parents = tree(names, carried)
    places = laid_out(names, parents)
    height = max(place.y for place in places.values()) + 56
    body = [*_lines(carried, parents, places), *_circles(brokers, places, parents)]
    return svg(height, body, "the overlay")


def tree(names: Sequence[str], carried: dict[tuple[str, str], int]) -> dict[str, str | None]:
    """Everybody's parent, along the heaviest links, from the broker that carries most."""
    beside: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    for (one, other), amount in carried.items():
        if one in beside and other in beside:
            beside[one].append((amount, other))
            beside[other].append((amount, one))
    parents: dict[str, str | None] = {}
    for root in sorted(names, key=lambda name: (-sum(a for a, _ in beside[name]), name)):
        if root in parents:
            continue
        parents[root] = None
        edge = [(amount, root, other) for amount, other in beside[root]]
        while edge:
            edge.sort(key=lambda item: (item[0], item[2]))
            _, near, far = edge.pop()
            if far not in parents:
                parents[far] = near
                edge += [(amount, far, other) for amount, other in beside[far] if other not in parents]
    return parents


def laid_out(names: Sequence[str], parents: dict[str, str | None]) -> dict[str, Place]:
    """Leaves side by side, parents above the middle of their children."""
    children: dict[str | None, list[str]] = defaultdict(list)
    for name in names:
        children[parents[name]].append(name)
    columns: dict[str, float] = {}
    depth: dict[str, int] = {}
    leaves = 0
    stack = [(root, 0, False) for root in reversed(children[None])]
    while stack:
        name, level, done = stack.pop()
        depth[name] = level
        if done:
            mine = [columns[child] for child in children[name]]
            columns[name] = (min(mine) + max(mine)) / 2
        elif children[name]:
            stack.append((name, level, True))
            stack += [(child, level + 1, False) for child in reversed(children[name])]
        else:
            columns[name] = leaves
            leaves += 1
    step = (WIDTH - 2 * SIDE) / max(1, leaves - 1)
    middle = WIDTH / 2 if leaves == 1 else SIDE
    return {name: Place(middle + columns[name] * step, TOP + depth[name] * LAYER) for name in names}


def _lines(
    carried: dict[tuple[str, str], int], parents: dict[str, str | None], places: dict[str, Place]
) -> Iterator[str]:
    most = max(carried.values(), default=1)
    for (one, other), amount in sorted(carried.items(), key=lambda item: item[1]):
        if one not in places or other not in places:
            continue
        a, b = sorted((places[one], places[other]), key=lambda place: place.y)
        wide = LINE[0] + (LINE[1] - LINE[0]) * sqrt(amount / most)
        soft = "" if other == parents[one] or one == parents[other] else ' stroke-dasharray="4 5"'
        middle = (a.y + b.y) / 2
        path = f"M{a.x:.1f} {a.y:.1f}C{a.x:.1f} {middle:.1f} {b.x:.1f} {middle:.1f} {b.x:.1f} {b.y:.1f}"
        title = f"<title>{escape(f'{one} and {other}: {amount:,} copies')}</title>"
        yield f'<path d="{path}" class="link" stroke-width="{wide:.1f}"{soft}>{title}</path>'


def _circles(
    brokers: Sequence[Row], places: dict[str, Place], parents: dict[str, str | None]
) -> Iterator[str]:
    work = {row["broker"]: row["forwarded"] + row["delivered"] for row in brokers}
    most = max(work.values(), default=1) or 1
    crowded = len(brokers) > 24
    inner = set(parents.values())
    for row in brokers:
        name, place = row["broker"], places[row["broker"]]
        radius = RADIUS[0] + (RADIUS[1] - RADIUS[0]) * sqrt(work[name] / most)
        radius = radius * 0.7 if crowded else radius
        served = 100 * (row["yield"] if row["yield"] is not None else 1)
        told = f"{name}: {row['delivered']:,} delivered, {row['forwarded']:,} forwarded, yield {served:.0f} %"
        yield (
            f'<circle cx="{place.x:.1f}" cy="{place.y:.1f}" r="{radius:.1f}" class="broker" '
            f'style="--yield:{served:.0f}%">'
            f"<title>{escape(told)}</title></circle>"
        )
        if served:
            yield (
                f'<circle cx="{place.x:.1f}" cy="{place.y:.1f}" r="{0.55 * radius:.1f}" class="served" '
                f'pathLength="100" stroke-dasharray="{served:.0f} 100"/>'
            )
        # Below it, or beside it where its own links hang below.
        x, y, anchor = place.x, place.y + radius + 14, "middle"
        if name in inner:
            x, y, anchor = place.x + radius + 6, place.y - 1, "start"
        yield text(x, y, clipped(name, 8), "node", anchor)
        if not crowded:
            yield text(x, y + 13, short(row["delivered"]), "tick halo", anchor)
