"""A filter tried out: is it well-formed, what does it mean, would it match, and who nearly gets this?

Pure: the library's own language decides, no broker is asked. A subscription is *near* if one condition alone
keeps a publication from matching it; that condition is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from grapevine.filters import Filter, FilterError, Value, matches, parse, to_text
from grapevine.filters.evaluate import holds

NEAR_MAX = 20


def tried(text: str, attributes: Mapping[str, Value] | None) -> dict[str, Any]:
    try:
        filter = parse(text)
    except FilterError as error:
        where = {"position": error.position, "expected": list(error.expected), "message": error.message}
        return {"ok": False, "normal": None, "error": where, "matches": None, "why": []}
    found: dict[str, Any] = {"ok": True, "normal": to_text(filter), "error": None, "matches": None, "why": []}
    if attributes is not None:
        found["matches"] = matches(filter, attributes)
        found["why"] = [] if found["matches"] else failing(filter, attributes)
    return found


def failing(filter: Filter, attributes: Mapping[str, Value]) -> list[str]:
    """The conditions that are false, of the alternative with the fewest of them."""
    best: list[str] | None = None
    for conjunction in filter.conjunctions:
        false = [to_text(Filter(((p,),))) for p in conjunction if not holds(p, attributes)]
        if best is None or len(false) < len(best):
            best = false
    return best or []


def near(subscriptions: Iterable[Mapping[str, Any]], attributes: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Which of these subscriptions match, and which miss by one condition."""
    found = []
    for row in subscriptions:
        if row["filter"].endswith("..."):
            continue  # a long one comes without its end
        try:
            filter = parse(row["filter"])
        except FilterError:
            continue
        false = failing(filter, attributes)
        if matches(filter, attributes) or len(false) == 1:
            found.append({**row, "matches": not false, "why": false[0] if false else ""})
    return sorted(found, key=lambda row: not row["matches"])[:NEAR_MAX]
