"""The clients of one home that a publication goes to, packed: number, how many labels, labels, next client.

Little-endian u32 throughout, as in Deliver. A matcher packs them, the publisher's dispatcher passes them on
as they are, the home takes them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

_HEAD = Struct("<II")


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
