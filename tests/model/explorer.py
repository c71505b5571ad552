"""Walks through the states of a model, and makes a counterexample short.

A model is a world that lists what may happen next (`events`), does one of it (`do`), names its state (`key`)
and, when the faults are over, runs until nothing is left to happen and checks what must hold then (`calm`).
A property that breaks raises Violation; its first word is the property's name. A walk is random; every walk
ends with `calm`. A trace can be replayed: events that are not possible any more are left out, which is how
`shrink` works.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pickle import dumps, loads
from random import Random
from typing import Any, Protocol

Event = tuple[Any, ...]
CALM: Event = ("calm",)


class Violation(Exception):
    """A property does not hold; the text begins with its name."""

    @property
    def what(self) -> str:
        return str(self).split(" ", 1)[0]


class World(Protocol):
    def events(self, free: bool = False) -> list[Event]:
        """`free`: also what only the way to rest may do."""

    def do(self, event: Event) -> None: ...
    def key(self) -> Hashable: ...
    def calm(self, random: Random | None, done: list[Event]) -> None:
        """Appends what it does."""


Make = Callable[[], World]


@dataclass
class Found:
    """What some walks have seen."""

    walks: int = 0
    steps: int = 0
    states: set[int] = field(default_factory=set)
    violation: Violation | None = None
    trace: list[Event] = field(default_factory=list)

    def sentence(self) -> str:
        if self.violation is None:
            return f"{self.walks} walks, {self.steps} steps, {len(self.states)} states: clean"
        shown = " ; ".join(show(event) for event in self.trace)
        seen = f"{self.walks} walks, {len(self.states)} states"
        return f"{seen}: {self.violation}\n{len(self.trace)} events: {shown}"


def show(event: Event) -> str:
    return event[0] + (f"({','.join(map(str, event[1:]))})" if event[1:] else "")


def walk(
    make: Make,
    weights: Mapping[str, float],
    *,
    states: int,
    seed: int = 1,
    steps: int = 120,
    start: Sequence[Event] = (),
    progress: Callable[[Found], None] = lambda found: None,
) -> Found:
    """Random walks until so many states were seen, or one breaks a property. Most walks begin with the events
    of `start`, which bring a world to rest: what is interesting comes afterwards."""
    random = Random(f"model {seed}")
    found = Found()
    while len(found.states) < states:
        found.walks += 1
        trace: list[Event] = []
        try:
            _walk_once(make(), weights, random, steps, start, found, trace)
        except Violation as violation:
            found.violation, found.trace = violation, [*trace, CALM]
            return found
        progress(found)
    return found


def _walk_once(
    world: World,
    weights: Mapping[str, float],
    random: Random,
    steps: int,
    start: Sequence[Event],
    found: Found,
    trace: list[Event],
) -> None:
    if random.random() < 0.7:
        for event in start:
            trace.append(event)
            world.do(event)
    bias = {name: weight * random.choice((0.3, 1, 1, 3)) for name, weight in weights.items()}
    for _ in range(random.randint(10, steps)):
        events = world.events()
        if not events:
            break
        event = random.choices(events, [bias[one[0]] for one in events])[0]
        trace.append(event)
        world.do(event)
        found.steps += 1
        found.states.add(hash(world.key()))
    world.calm(random, trace)


def replay(make: Make, trace: Sequence[Event]) -> tuple[Violation | None, list[Event]]:
    """What breaks, and the events that were possible."""
    world = make()
    used: list[Event] = []
    try:
        for event in trace:
            if event == CALM:
                used.append(event)
                world.calm(None, [])
            elif event in world.events(free=True):
                used.append(event)
                world.do(event)
    except Violation as violation:
        return violation, used
    return None, used


def shrink(make: Make, trace: Sequence[Event], what: str) -> list[Event] | None:
    """The trace without events that the same property breaks without; None if it does not break again."""

    def breaks(events: Sequence[Event]) -> list[Event] | None:
        violation, used = replay(make, events)
        return used if violation is not None and violation.what == what else None

    best = breaks(trace)
    if best is None:
        return None
    size = max(1, len(best) // 2)
    while size:
        place, before = 0, len(best)
        while place < len(best):
            shorter = breaks(best[:place] + best[place + size :])
            if shorter is not None and len(shorter) < len(best):
                best = shorter
            else:
                place += size
        size = size // 2 if size > 1 or len(best) == before else 1
    return best


def search(make: Make, most: int, start: Sequence[Event] = ()) -> Found:
    """Breadth first from the state after `start`: the shortest counterexample within so many states."""
    world = make()
    for event in start:
        world.do(event)
    found = Found(walks=1, states={hash(world.key())})
    queue: deque[tuple[bytes, tuple[Event, ...]]] = deque([(dumps(world, -1), tuple(start))])
    while queue and len(found.states) < most:
        data, trace = queue.popleft()
        here: World = loads(data)
        for event in here.events():
            world = loads(data)
            found.steps += 1
            try:
                world.do(event)
            except Violation as violation:
                found.violation, found.trace = violation, [*trace, event]
                return found
            key = hash(world.key())
            if key not in found.states:
                found.states.add(key)
                queue.append((dumps(world, -1), (*trace, event)))
    return found


def frozen(value: Any) -> Hashable:
    """The same for equal contents, whatever the order in which they came."""
    if isinstance(value, dict):
        return tuple(sorted((key, frozen(item)) for key, item in value.items()))
    if isinstance(value, set | frozenset):
        return tuple(sorted(value))
    if isinstance(value, list | tuple):
        return tuple([frozen(item) for item in value])
    if isinstance(value, int | str | type(None)):
        return value
    return tuple([frozen(getattr(value, name)) for name in value.__slots__])
