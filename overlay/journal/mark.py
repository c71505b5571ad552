"""The mark: up to which position everything is known to be on disk, beside the segments.

It is written while nothing else is, and never synced by itself: it only narrows the one case that later
records cannot decide, the last group. Two slots are written in turn, so that a torn one leaves the other.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

NAME = "mark"
SLOT_BYTES = 64
_SLOT = Struct("<IQQ")  # magic, turn, position
_MAGIC = 0x4B524D47


def pack_slot(turn: int, position: int) -> tuple[int, bytes]:
    """Where and what to write."""
    fields = _SLOT.pack(_MAGIC, turn, position)
    slot = fields + crc32(fields).to_bytes(4, "little")
    return turn % 2 * SLOT_BYTES, slot.ljust(SLOT_BYTES, b"\0")


def read_mark(data: bytes) -> tuple[int, int]:
    """(turn, position) of the newer slot that is whole; zeros if none is."""
    slots = [(0, 0)]
    for at in (0, SLOT_BYTES):
        slot = data[at : at + _SLOT.size + 4]
        if len(slot) == _SLOT.size + 4 and crc32(slot[:-4]).to_bytes(4, "little") == slot[-4:]:
            magic, turn, position = _SLOT.unpack_from(slot)
            if magic == _MAGIC:
                slots.append((turn, position))
    return max(slots)
