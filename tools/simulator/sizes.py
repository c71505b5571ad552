"""How large every container inside a core is: what remains when everybody has gone is a leak.

The walk follows the attributes of the broker's own objects, so that a table added later is looked at without
anybody telling. What may remain is named below, by class and attribute; a name that no class has any more is
an error: an exception for something that was renamed hides nothing and excuses what took its place.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from sortedcontainers import SortedList

from overlay.core import Core

OURS = ("overlay.", "matching.")
CONTAINERS = (dict, list, deque, set, SortedList)

# Of the core itself: what is there without any client.
RESTING = {
    "behaviours",
    "names",
    "peers",
    "links",
    "refused",
    "report",
    "timers",
    "dispatch",
}
# One entry a neighbour, and nothing in it.
PER_NEIGHBOUR = {
    "Advertisements.announced",
    "Advertisements.confirmed",
    "Announcements._open",
    "Subscriptions.announced",
    "Subscriptions.confirmed",
    "Sync._written",
    "Table._of",
}
# What is on disk, and where.
DISK = (
    "Writer.",
    "Reader.",
    "Places.",
    "Journal.on_lost",
    "Journal._bodies",
    "Streams.on_end",
    "Holding._latest",
)
# Put together at start; free numbers; caches that a change of the tables empties; every timer knows the list
# of all of them, which is looked at once, below.
FIXED = (
    "Balance.placement",
    "BalanceVerbs._answers",
    "Census.reporters",
    "FrontEnd.handlers",
    "Calls.",
    "Census._reported",
    "Events._kept",
    "FrontEnd.handlers",
    "Handshake.purposes",
    "Readiness.on_ready",
    "Reports.gone",
    "Slot.",
    "TreeRouter.on_gone",
    "Sync.announced",
    "Sync.said",
    "Sync.forget_",
    "Sync.tables_in",
    "Advertisements.on_gone",
    "Dispatch.",
    "FrontEnd.handlers",
    "Timer.",
)
REMEMBERED = (
    "Adopting.missed",
    "MissingBrokers.",
    "Said.brokers",
    "LastSeen.gone",
    "Skipped.",
    "Copied.taken",
)  # so many, or until a timer
CACHES = (
    *("Route.", "RouteCache.", "Fan.", "Publications._fans", "Publications._named_to", "Forwarding._sides"),
    *("OneHopPublications._fans", "OneHopPublications._named_to"),
    *("MatcherPublications._fans", "MatcherPublications._named_to"),
)
# Who is near, and the links between brokers: there without any client.
MAPS = (
    "Handshake.sessions",
    "Remote.lanes",
    "Copies.owners",
    "Copying._heard",
    "Regaining._given_back",
    "SoftSessions.",
    "MasterOverlayMap.",
    "WorkingOverlayMap.",
    "Neighbourhoods.",
    "KnownEdges.",
    "Healing.gone",
    "WorkingTable.",
    "LoadExchange.",
    "Chooser.",
    "Shortcuts.",
    "Moves._ended",
    "Permissions.granted",
    "Registry.brokers",
    "GroupHomes.known",
    "Balance.placement",
    "BalanceVerbs._answers",
    "Census._unanswered",
    "Census._open",  # a coordinator asks everybody, again and again
    # Of a one-hop cluster: its members, their segments and loads, how long they took.
    "Cluster.",
    "Dialling._open",
    "SegmentTable.",
    "Cover.",
    "Reporting.",
    "Verdicts.",
    "Watching.",
    "Placing.at",
    "Placing.least",
    "Placing._acknowledged",
    "Asking._unanswered",
    "Asking._usual_s",
    "MatcherDelivery._unanswered",
    "MatcherDelivery._usual_s",
    "MatcherDelivery._needed",
    "MatcherPublications._needs",
    "Member.lanes",
    "Matching._queues",
    "Sampling.",
    "Reservoir.",
    "Handover._overlaps",
    "Meter.",
    "Sets.indexes",
    "Sets.homes",
    "Sets._members",
    "Sets._sizes",
    "Handover._asked",
    "OneHopRouter.on_gone",
)
TIMERS = "Timers._order"
TIMERS_OWN = 10  # that a broker may have for itself: rounds of its behaviours
TIMERS_EACH = 2  # and for each neighbour: its next ping, and when it is lost


class UnknownName(AssertionError):
    """An exception names a class or an attribute that does not exist."""


def leftovers(core: Core) -> list[tuple[str, int]]:
    """Containers that hold something, by class and attribute, with the size of the largest."""
    check_names()
    found: dict[str, int] = {}
    for path, container in containers(core):
        size = sum(value is not None for value in _values(container))
        if path in PER_NEIGHBOUR:
            size -= len(core.peers)
        elif path == TIMERS:
            size -= TIMERS_OWN + TIMERS_EACH * len(core.peers)
        known = path.startswith((*FIXED, *REMEMBERED, *CACHES, *DISK, *MAPS)) or path.endswith("._free")
        if size > 0 and not known:
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


# --- the names of the exceptions ----------------------------------------------------------------------


@cache
def check_names() -> None:
    """Every exception above is about something that exists; once a process, since it reads the sources."""
    known = declared()
    core = {f"Core.{name}" for name in RESTING}
    names = {TIMERS, *core, *PER_NEIGHBOUR, *FIXED, *CACHES, *MAPS}
    if unknown := sorted(name for name in names if not _exists(name, known)):
        raise UnknownName(f"no class has {', '.join(unknown)}: correct tools/simulator/sizes.py")


def _exists(name: str, known: dict[str, set[str]]) -> bool:
    """`Class.` is all of a class, `Class.beginning` some of it."""
    cls, _, beginning = name.partition(".")
    return cls in known and any(attribute.startswith(beginning) for attribute in known[cls])


@cache
def declared() -> dict[str, set[str]]:
    """By the name of a class: the attributes that its methods and its bases' set, and its fields."""
    classes = [
        node
        for package in ("overlay", "matching")
        for source in _sources(files(package))
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for node in classes:
        own.setdefault(node.name, set()).update(_attributes_of(node))
        bases.setdefault(node.name, set()).update(b.id for b in node.bases if isinstance(b, ast.Name))
    return {name: set().union(*(own.get(cls, ()) for cls in _with_bases(name, bases))) for name in own}


def _with_bases(name: str, bases: dict[str, set[str]]) -> set[str]:
    return {name}.union(*(_with_bases(base, bases) for base in bases.get(name, ())))


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry


def _attributes_of(cls: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(cls):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
