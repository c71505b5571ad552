"""The clients of one home that a publication goes to, packed: number, how many labels, labels, next client.

Little-endian u32 throughout, as in Deliver. A matcher packs them, the publisher's dispatcher passes them on
as they are, the home takes them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

_HEAD = Struct("<II")
_QUESTION = Struct("<III")
_ASKED = 0xFFFFFFFF  # no client has this number


def pack_question(number: int, dimension: int) -> bytes:
    """In the place of the clients: whoever gets this is to find them, by its set of this dimension."""
    return _QUESTION.pack(_ASKED, number, dimension)


def unpack_question(packed: bytes) -> tuple[int, int] | None:
    """Number and dimension; None: these are clients."""
    if len(packed) != _QUESTION.size:
        return None
    asked, number, dimension = _QUESTION.unpack(packed)
    return (number, dimension) if asked == _ASKED else None


def pack_clients(clients: Iterable[tuple[int, bytes]]) -> bytes:
    """(number, packed labels) of each."""
    parts: list[bytes] = []
    for number, labels in clients:
        parts.append(_HEAD.pack(number, len(labels) >> 2))
        parts.append(labels)
    return b"".join(parts)


def unpack_clients(packed: bytes) -> Iterator[tuple[int, bytes]]:
    """What is not whole at the end is left out: another broker's mistake must not end this one."""
    place, end = 0, len(packed)
    while place + _HEAD.size <= end:
        number, count = _HEAD.unpack_from(packed, place)
        place += _HEAD.size
        labels = packed[place : place + 4 * count]
        if not count or len(labels) != 4 * count:
            return
        yield number, labels
        place += 4 * count
