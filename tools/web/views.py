"""What `pubctl top` shows, as columns and rows of text: pure, from the same engine as the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tools.pubctl.answers import natural
from tools.pubctl.events import clock
from tools.pubctl.output import count, percent, size
from tools.web.engine import Engine
from tools.web.model import ABSENT

DASH = "–"
SPARKS = "▁▂▃▄▅▆▇█"


class Column(NamedTuple):
    title: str
    width: int
    text: bool = False  # words, on the left


class Row(NamedTuple):
    key: str
    cells: tuple[str, ...]
    values: tuple[Any, ...]  # to sort by
    trouble: bool = False
    opens: str = ""  # the broker that it is about


class Rows(NamedTuple):
    columns: tuple[Column, ...]
    rows: list[Row]


def shown(value: Any, show: Callable[[Any], str] = count) -> str:
    return DASH if value is None else show(value)


BROKERS = (
    Column("broker", 14, True), Column("state", 11, True), Column("parent", 12, True), Column("in/s", 8),
    Column("out/s", 8), Column("busy", 6), Column("queue ms", 8), Column("backlog", 8), Column("slow", 5),
    Column("clients", 7), Column("subs", 7), Column("memory", 9),
)  # fmt: skip
LINKS = (
    Column("from", 14, True), Column("to", 14, True), Column("kind", 10, True), Column("→ /s", 8),
    Column("← /s", 8), Column("unsettled", 9), Column("rtt ms", 8), Column("gain", 9),
)  # fmt: skip
CLIENTS = (
    Column("client", 22, True), Column("broker", 12, True), Column("state", 10, True),
    Column("published", 10), Column("delivered", 10), Column("in flight", 9), Column("backlog", 8),
    Column("dropped", 8), Column("policy", 12, True), Column("behind on", 34, True),
)  # fmt: skip
PUBLISHERS = (
    Column("publisher", 22, True), Column("at", 12, True), Column("traces", 7),
    Column("would go to", 13, True), Column("hops", 5), Column("saves", 6), Column("outcome", 34, True),
)  # fmt: skip
EVENTS = (
    Column("time", 12, True),
    Column("broker", 12, True),
    Column("kind", 17, True),
    Column("what", 90, True),
)


def brokers(engine: Engine, only: str = "") -> Rows:
    members = engine.members
    names = {broker.i: broker.name for broker in members.brokers.values()}
    rows = []
    whole = engine.whole()
    by_number = {row[0]: row for row in whole.b} if whole is not None else {}
    for broker in members.document().brokers:
        row = by_number.get(broker.i) or [broker.i, 0, *[None] * 16]
        parent = names.get(broker.parent, "") if broker.parent is not None else ""
        values = (
            broker.name,
            broker.state,
            parent,
            row[2],
            row[3],
            row[6],
            row[8],
            row[9],
            row[10],
            row[11],
            row[14],
            row[13],
        )
        cells = (
            *values[:3], shown(row[2]), shown(row[3]), shown(row[6], percent), shown(row[8]), shown(row[9]),
            shown(row[10]), shown(row[11]), shown(row[14]), shown(row[13], size),
        )  # fmt: skip
        trouble = bool(row[1] & ABSENT or row[10])
        rows.append(Row(broker.name, cells, values, trouble, broker.name))
    return Rows(BROKERS, rows)


def links(engine: Engine, only: str = "") -> Rows:
    members = engine.members
    whole = engine.whole()
    by_number = {row[0]: row for row in whole.l} if whole is not None else {}
    rows = []
    for (a, b, kind), link in members.links.items():
        if only and only not in (a, b):
            continue
        row = by_number.get(link.i) or [link.i, *[None] * 7]
        values = (a, b, kind if link.up else f"{kind}, down", row[1], row[2], row[5], row[6], row[7])
        cells = (*values[:3], *(shown(value) for value in values[3:]))
        rows.append(Row(f"{a}>{b}>{kind}", cells, values, not link.up, a))
    return Rows(LINKS, rows)


def clients(found: list[dict[str, Any]], only: str = "") -> Rows:
    rows = []
    for one in found:
        if only and one["broker"] != only:
            continue
        behind = (one.get("behind_on") or {}).get("filter", "")
        words = (one["name"], one["broker"], one["state"])
        numbers = (one["published"], one["delivered"], one["in_flight"], one["backlog"], one["dropped"])
        values = (*words, *numbers, one.get("policy", ""), behind)
        cells = (*words, *map(count, numbers), one.get("policy", ""), behind)
        rows.append(
            Row(f"{one['broker']}/{one['name']}", cells, values, one["state"] == "slow", one["broker"])
        )
    return Rows(CLIENTS, rows)


def publishers(found: list[dict[str, Any]], only: str = "") -> Rows:
    rows = []
    for one in found:
        values = (
            one["publisher"],
            one["at"],
            one["traces"],
            one["target"] or "",
            one["path"],
            one["saves"],
            one["outcome"],
        )
        cells = (
            one["publisher"], one["at"], count(one["traces"]), one["target"] or DASH, shown(one["path"]),
            shown(one["saves"], percent), one["outcome"],
        )  # fmt: skip
        rows.append(Row(one["publisher"], cells, values, bool(one.get("moving")), one["at"]))
    return Rows(PUBLISHERS, rows)


def events(engine: Engine, only: str = "") -> Rows:
    rows = []
    for event in reversed(engine.events):
        if only and event.broker != only:
            continue
        cells = (clock(1000 * event.t), event.broker, event.kind, event.text)
        rows.append(Row(str(event.n), cells, (-event.t, *cells[1:]), event.level != "info", event.broker))
    return Rows(EVENTS, rows[:500])


def tree(engine: Engine) -> Rows:
    """The topology with its rates, indented."""
    listed = {row.key: row for row in brokers(engine).rows}
    members = engine.members
    names = {broker.i: broker.name for broker in members.brokers.values()}
    below: dict[str, list[str]] = {}
    for broker in members.document().brokers:
        parent = names.get(broker.parent, "") if broker.parent is not None else ""
        below.setdefault(parent if parent in listed else "", []).append(broker.name)
    rows: list[Row] = []
    waiting = [(name, 0) for name in sorted(below.get("", []), key=natural, reverse=True)]
    while waiting:
        name, depth = waiting.pop()
        row = listed.pop(name, None)
        if row is None:
            continue
        rows.append(row._replace(cells=("  " * depth + name, *row.cells[1:])))
        waiting += [(child, depth + 1) for child in sorted(below.get(name, []), key=natural, reverse=True)]
    return Rows(BROKERS, rows + list(listed.values()))


def ordered(found: Rows, column: int, down: bool, words: str, trouble: bool) -> list[Row]:
    """Sorted by a column, numbers from the largest; only those with the words, or with trouble."""
    kept = [row for row in found.rows if not trouble or row.trouble]
    if words:
        kept = [row for row in kept if words.lower() in " ".join(row.cells).lower()]
    text = found.columns[column].text

    def key(row: Row) -> Any:
        value = row.values[column]
        return natural(str(value)) if text else (value is not None, value or 0)

    return sorted(kept, key=key, reverse=down)


def spark(values: list[float | None], width: int = 20) -> str:
    known = values[-width:]
    most = max((value for value in known if value), default=0.0)
    return "".join(
        " " if v is None else SPARKS[min(7, int(8 * v / most))] if most else SPARKS[0] for v in known
    )


def headline(engine: Engine) -> str:
    total = engine.total
    if total is None:
        return engine.state.reason or "connecting"
    accepted = spark(engine.history.series("total:accepted_s", 20)[1])
    delivered = spark(engine.history.series("total:delivered_s", 20)[1])
    bypassed = "" if not total.bypassed else f"   {100 * total.bypassed:.0f} % bypassed"
    return (
        f"{total.health.text}   {total.brokers} brokers   accepted {shown(total.accepted_s)}/s {accepted}   "
        f"delivered {shown(total.delivered_s)}/s {delivered}{bypassed}   {total.slow} slow"
    )
