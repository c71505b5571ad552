"""Which index the simulated brokers match with."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from matching.interface import Matcher
from matching.scan import Scan


def matcher_named(name: str) -> Callable[[], Matcher]:
    """`scan` is the obvious one, `index` the fast one."""
    if name == "scan":
        return Scan
    if name == "index":
        index: Callable[[], Matcher] = import_module("matching.index").Index
        return index
    raise ValueError(f"matcher is scan or index, not {name!r}")
