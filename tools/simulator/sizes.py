"""How large every container inside a core is: what remains when everybody has gone is a leak.

The walk follows the attributes of the broker's own objects, so that a table added later is looked at without
anybody telling.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from overlay.core import Core

OURS = ("overlay.", "matching.")
CONTAINERS = (dict, list, deque, set)

# Of the core itself: what is there without any client.
RESTING = {
    "behaviours",
    "names",
    "peers",
    "soft_in",
    "soft_out",
    "links",
    "refused",
    "report",
    "timers",
    "dispatch",
}
# One entry a neighbour, and nothing in it.
PER_NEIGHBOUR = {
    "Advertisements._epochs",
    "Advertisements.announced",
    "Announcements._open",
    "Subscriptions.announced",
    "Sync._written",
    "Table._of",
}
# Put together at start, free numbers, and caches that a change of the tables empties.
FIXED = ("Census.reporters", "Sync.on_ready", "Sync.forget_", "Advertisements.on_gone", "Dispatch.")
CACHES = ("Route.", "RouteCache.", "Fan.", "Publications._fans", "Publications._told", "Forwarding._sides")
# Who is near, and the links between brokers: there without any client.
MAPS = (
    "MasterOverlayMap.",
    "WorkingOverlayMap.",
    "Neighbourhoods.",
    "WorkingTable.",
    "LoadExchange.",
    "Chooser.",
    "Shortcuts.",
    "Moves._ended",
    "Permissions.granted",
)
TIMERS = 4  # a neighbour may have, cancelled ones included


def leftovers(core: Core) -> list[tuple[str, int]]:
    """Containers that hold something, by class and attribute, with the size of the largest."""
    found: dict[str, int] = {}
    for path, container in containers(core):
        size = sum(value is not None for value in _values(container))
        if path in PER_NEIGHBOUR:
            size -= len(core.peers)
        elif path == "Timers._heap":
            size -= TIMERS * (1 + len(core.peers))
        if size > 0 and not path.startswith((*FIXED, *CACHES, *MAPS)) and not path.endswith("._free"):
            found[path] = max(found.get(path, 0), size)
    return sorted(found.items())


def containers(core: Core) -> Iterator[tuple[str, Any]]:
    seen: set[int] = {id(core)}
    front: list[Any] = [core]
    while front:
        thing = front.pop()
        for name, value in attributes(thing):
            if isinstance(value, CONTAINERS):
                path = f"{type(thing).__name__}.{name}"
                if path.startswith(CACHES):
                    continue  # may remember who is gone, until the tables change
                if not (thing is core and name in RESTING):
                    yield from _nested(path, value)
                front += [v for v in _values(value) if _walked(v, seen)]
            elif _walked(value, seen):
                front.append(value)


def _nested(path: str, container: Any) -> Iterator[tuple[str, Any]]:
    yield path, container
    for value in _values(container):
        if isinstance(value, CONTAINERS):
            yield from _nested(f"{path}[]", value)


def attributes(thing: Any) -> list[tuple[str, Any]]:
    slots = [slot for cls in type(thing).__mro__ for slot in getattr(cls, "__slots__", ())]
    named = [(slot, getattr(thing, slot)) for slot in slots if hasattr(thing, slot)]
    return [*named, *getattr(thing, "__dict__", {}).items()]


def _values(container: Any) -> list[Any]:
    return list(container.values()) if isinstance(container, dict) else list(container)


def _walked(value: Any, seen: set[int]) -> bool:
    if not type(value).__module__.startswith(OURS) or id(value) in seen or isinstance(value, type):
        return False
    seen.add(id(value))
    return True
