"""How many bytes a broker keeps for relocation, beside its tables."""

from __future__ import annotations

from collections import deque
from sys import getsizeof
from types import FunctionType, MethodType, ModuleType
from typing import Any

from overlay.core import Core
from overlay.links.session import Link, Session
from overlay.relocate.relocation import Relocation

ELSEWHERE = (
    Core,
    Session,
    Link,
    type,
    FunctionType,
    MethodType,
    ModuleType,
)  # counted with whoever owns them
CONTAINERS = (dict, list, tuple, set, frozenset, deque)


def share(core: Core) -> float:
    """What POP and GRAPE keep, over all else that the behaviours keep."""
    relocation = next(b for b in core.behaviours if isinstance(b, Relocation))
    seen = {id(relocation), id(relocation.tracer), id(relocation.settings)}
    tables = sum(_bytes(b, seen) for b in core.behaviours if b is not relocation)
    return (_bytes(relocation.pop, seen) + _bytes(relocation.grape, seen)) / max(tables, 1)


def _bytes(thing: Any, seen: set[int]) -> int:
    total, front = 0, [thing]
    while front:
        one = front.pop()
        if id(one) in seen or isinstance(one, ELSEWHERE):
            continue
        seen.add(id(one))
        total += getsizeof(one)
        front += _inside(one)
    return total


def _inside(thing: Any) -> list[Any]:
    if isinstance(thing, dict):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, CONTAINERS):
        return list(thing)
    slots = [slot for cls in type(thing).__mro__ for slot in _slots(cls)]
    return [getattr(thing, slot) for slot in slots if hasattr(thing, slot)] + list(
        getattr(thing, "__dict__", {}).values()
    )


def _slots(cls: type) -> tuple[str, ...]:
    slots = getattr(cls, "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
