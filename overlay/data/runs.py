"""What the data path does with every publication of a run, compiled where there is a compiler.

A run is a list of publications of one publisher that came together. These few loops are all that happens
for each of them; whatever else a run needs is done once for all of it. `compiled` is None where nothing was
built: then Python does the same, and the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import attrgetter, lt, or_
from types import ModuleType
from typing import Any

from grapevine.wire.errors import WireError
from grapevine.wire.extensions import TRACEPARENT, decode_extension, encode_extension
from grapevine.wire.messages import EXTENDED, Publication
from overlay.data.client import Client
from overlay.data.routes import Fan, Route, Streams, streams_of
from overlay.links.outgoing import Outgoing
from overlay.links.session import Session

compiled: ModuleType | None
try:
    from overlay.data import _runs

    compiled = _runs if hasattr(_runs, "unite") else None  # else built from an older tree
except ImportError:
    compiled = None

_PUBLICATION: Any = Publication  # here the class and its members, not the values of one publication
_flags = attrgetter("flags")
_ATTRIBUTES, _SEQUENCE, _FLAGS = _PUBLICATION.attributes, _PUBLICATION.sequence, _PUBLICATION.flags
_STAMPED = (
    _PUBLICATION.publisher,
    _PUBLICATION.incarnation,
    _PUBLICATION.accepted_at,
    _PUBLICATION.hops,
    _PUBLICATION.plane,
    _PUBLICATION.extension,
)
_ROUTE: Any = Route
_FAN: Any = Fan
_SESSION: Any = Session
_OUTGOING: Any = Outgoing
_GATHERED = (_SESSION.out, _OUTGOING.queue, _OUTGOING.ids)
_ROUTED = (_ROUTE.fan, _ROUTE.ids, _FAN.queues, _FAN.listed)


def stamp(run: list[Publication], publisher: int, incarnation: int, now: float, plane: int = 0) -> None:
    """What a publisher's first broker fills in, whatever the publisher wrote there."""
    if compiled is not None:
        compiled.stamp(run, _STAMPED, (publisher, incarnation, now, 0, plane, b""))
        return
    for publication in run:
        publication.publisher = publisher
        publication.incarnation = incarnation
        publication.accepted_at = now
        publication.hops, publication.plane = 0, plane
        publication.extension = b""


def stamp_extended(
    run: list[Publication], publisher: int, incarnation: int, now: float, plane: int = 0
) -> None:
    """The same where some bring an extension block, of which a traceparent is kept."""
    kept = [(publication, contexts(publication.extension)) for publication in run if publication.extension]
    stamp(run, publisher, incarnation, now, plane)
    for publication in run:
        publication.flags &= ~EXTENDED
    for publication, extension in kept:
        if extension:
            publication.extension = extension
            publication.flags |= EXTENDED


def contexts(extension: bytes) -> bytes:
    """What a client may put there: `decode` has read the block, so it is well-formed."""
    try:
        records = [record for record in decode_extension(extension) if record[0] == TRACEPARENT]
    except WireError:
        return b""
    return encode_extension(records[:1])


def rising(run: list[Publication], last: int) -> bool:
    """Whether the sequence numbers rise, from above `last`."""
    if compiled is not None:
        return compiled.rising(run, _SEQUENCE, last)  # type: ignore[no-any-return]
    numbers = [publication.sequence for publication in run]
    return not numbers or (numbers[0] > last and all(map(lt, numbers, numbers[1:])))


def flags_of(run: list[Publication]) -> int:
    """The flags that some of them have."""
    if compiled is not None:
        return compiled.unite(run, _FLAGS)  # type: ignore[no-any-return]
    return reduce(or_, map(_flags, run), 0)


def look_up(run: list[Publication], known: dict[bytes, Route]) -> list[Route | None]:
    """The routes known by the attributes' bytes."""
    if compiled is not None:
        return compiled.look_up(run, _ATTRIBUTES, known)  # type: ignore[no-any-return]
    get = known.get
    return [get(publication.attributes) for publication in run]


def gather(
    deliveries: list[tuple[int, bytes]], numbered: dict[int, Client]
) -> tuple[tuple[bytes, ...], Streams]:
    """Of (number of a client, ids) pairs the ids, and the streams to these clients."""
    if compiled is not None:
        ids, *streams = compiled.gather(deliveries, numbered, _GATHERED)
        return ids, Streams(*streams)
    numbers, ids = zip(*deliveries) if deliveries else ((), ())
    return ids, streams_of([numbered[number] for number in numbers])


def scatter(run: list[Publication], routes: list[Route]) -> dict[Fan, None]:
    """Hand each publication to the fan of its route; the fans."""
    if compiled is not None:
        fans: dict[Fan, None] = compiled.scatter(run, routes, _ROUTED)
        if any(fan.dormant for fan in fans):
            for fan, start, end in _stretches(routes):
                if fan.dormant:
                    fan.lay(run[start:end], [route.ids for route in routes[start:end]])
        return fans
    fans = {}
    for fan, start, end in _stretches(routes):
        fan.take(run[start:end], routes[start:end])
        fans[fan] = None
    return fans


def _stretches(routes: list[Route]) -> Iterator[tuple[Fan, int, int]]:
    """Where routes that follow each other end in one fan."""
    fan, start = routes[0].fan, 0
    for index, route in enumerate(routes):
        if route.fan is not fan:
            yield fan, start, index
            fan, start = route.fan, index
    yield fan, start, len(routes)
