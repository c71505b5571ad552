"""What brokers answered, made ready for people and programs.

Ids of 64 bits do not survive a JSON number, so they stay here: names take their place, also in the names of
subscriptions whose broker the answering one did not know.
"""

from __future__ import annotations

import re
from typing import Any

from tools.pubctl.channel import Reply

Row = dict[str, Any]
UNNAMED = re.compile(r"([0-9a-f]{16})(?=/)")


def reports(reply: Reply) -> list[Row]:
    """One report per broker, ordered as in the tree: parents before children, siblings by name."""
    found: list[Row] = reply.body.get("brokers", [])
    return in_tree_order([clean(report, names(found)) for report in found])


def names(found: list[Row], key: str = "name") -> dict[str, str]:
    return {f"{row['id']:016x}": row[key] for row in found if isinstance(row.get("id"), int)}


def clean(value: Any, known: dict[str, str]) -> Any:
    """The value without ids, unnamed brokers named where they are known."""
    if isinstance(value, dict):
        return {
            key: clean(inner, known) for key, inner in value.items() if key != "id" or isinstance(inner, str)
        }
    if isinstance(value, list):
        return [clean(inner, known) for inner in value]
    if isinstance(value, str):
        return UNNAMED.sub(lambda match: known.get(match[1], match[1]), value)
    return value


def in_tree_order(found: list[Row]) -> list[Row]:
    """Depth first where the reports say who is whose parent, else by name."""
    by_name = {row["name"]: row for row in sorted(found, key=lambda row: natural(row["name"]))}
    children: dict[str | None, list[str]] = {}
    for name, row in by_name.items():
        parent = row.get("parent")
        children.setdefault(parent if parent in by_name else None, []).append(name)
    ordered: list[Row] = []
    waiting = list(reversed(children.get(None, [])))
    while waiting:
        name = waiting.pop()
        ordered.append(by_name.pop(name))
        waiting += reversed(children.get(name, []))
    return ordered + list(by_name.values())  # the rest would be a cycle


def natural(name: str) -> list[Any]:
    """b2 before b10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def flat(found: list[Row]) -> list[Row]:
    """The rows of all reports, each with its broker."""
    return [{"broker": report["name"], **row} for report in found for row in report.get("rows", [])]


def left_out(found: list[Row], reply: Reply) -> str:
    """What is not shown, in words."""
    hidden = sum(report.get("total", 0) - len(report.get("rows", [])) for report in found if "rows" in report)
    texts = []
    if hidden > 0:
        texts.append(f"{hidden} more rows: ask for them with --limit, or one broker with --at")
    if reply.body.get("left_out"):
        texts.append(f"{reply.body['left_out']} brokers did not fit into the answer")
    return "; ".join(texts)
