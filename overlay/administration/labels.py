"""How subscriptions and advertisements are called where people read and write them.

`b3/6919f3a4.7`: the seventh that b3 numbered in that incarnation. A serial does not fit into the numbers of
JSON, hence text; the incarnation may be left out where it is read.
"""

from __future__ import annotations

from collections.abc import Mapping

from grapevine.filters.normal import Filter
from grapevine.filters.printing import to_text
from grapevine.wire.identity import identify

FILTER_CHARS = 400
COUNT_BITS = 24  # of a serial; the incarnation is above them (Core.serial)


def label(origin: int, serial: int, names: Mapping[int, str]) -> str:
    name = names.get(origin) or f"{origin:016x}"
    return f"{name}/{serial >> COUNT_BITS:x}.{serial & (1 << COUNT_BITS) - 1}"


def is_called(wanted: str, origin: int, serial: int) -> bool:
    """Whether `wanted` names it, with its incarnation or without, at a broker that need not know the name."""
    name, _, number = wanted.rpartition("/")
    incarnation, dot, count = number.rpartition(".")
    if count != str(serial & (1 << COUNT_BITS) - 1) or (dot and incarnation != f"{serial >> COUNT_BITS:x}"):
        return False
    return origin == identify(name) or name == f"{origin:016x}"


def filter_text(filter: Filter) -> str:
    """The filter as one can read it back, or its beginning."""
    text = to_text(filter)
    return text if len(text) <= FILTER_CHARS else text[: FILTER_CHARS - 3] + "..."
