"""What the data path does with every publication of a run, compiled where there is a compiler.

A run is a list of publications of one publisher that came together. These few loops are all that happens
for each of them; whatever else a run needs is done once for all of it. `compiled` is None where nothing was
built: then Python does the same, and the tests compare the two.
"""

from __future__ import annotations

from operator import lt
from types import ModuleType
from typing import Any

from grapevine.wire.messages import Publication
from overlay.tree.routes import Fan, Route

compiled: ModuleType | None
try:
    from overlay.tree import _runs

    compiled = _runs
except ImportError:
    compiled = None

_PUBLICATION: Any = Publication  # here the class and its members, not the values of one publication
_ATTRIBUTES, _SEQUENCE = _PUBLICATION.attributes, _PUBLICATION.sequence
_STAMPED = (_PUBLICATION.publisher, _PUBLICATION.incarnation, _PUBLICATION.accepted_at)
_ROUTE: Any = Route
_FAN: Any = Fan
_ROUTED = (_ROUTE.fan, _ROUTE.ids, _FAN.queues, _FAN.listed)


def stamp(run: list[Publication], publisher: int, incarnation: int, now: float) -> None:
    """What a publisher's first broker fills in."""
    if compiled is not None:
        compiled.stamp(run, _STAMPED, (publisher, incarnation, now))
        return
    for publication in run:
        publication.publisher = publisher
        publication.incarnation = incarnation
        publication.accepted_at = now


def rising(run: list[Publication], last: int) -> bool:
    """Whether the sequence numbers rise, from above `last`."""
    if compiled is not None:
        return compiled.rising(run, _SEQUENCE, last)  # type: ignore[no-any-return]
    numbers = [publication.sequence for publication in run]
    return not numbers or (numbers[0] > last and all(map(lt, numbers, numbers[1:])))


def look_up(run: list[Publication], known: dict[bytes, Route]) -> list[Route | None]:
    """The routes known by the attributes' bytes."""
    if compiled is not None:
        return compiled.look_up(run, _ATTRIBUTES, known)  # type: ignore[no-any-return]
    get = known.get
    return [get(publication.attributes) for publication in run]


def scatter(run: list[Publication], routes: list[Route]) -> dict[Fan, None]:
    """Hand each publication to the fan of its route; the fans."""
    if compiled is not None:
        return compiled.scatter(run, routes, _ROUTED)  # type: ignore[no-any-return]
    fan, start = routes[0].fan, 0
    fans = {fan: None}
    for index, route in enumerate(routes):
        if route.fan is not fan:
            fan.take(run[start:index], routes[start:index])
            fan, start = route.fan, index
            fans[fan] = None
    fan.take(run[start:], routes[start:])
    return fans
