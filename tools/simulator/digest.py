"""A fingerprint of a run: every frame taken and every delivery, with its time, in order.

Two runs with one digest did the same. It holds numbers only, no hash of a string and no size in bytes, so it
is the same under every PYTHONHASHSEED and with the codec on or off.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct

_FRAME = Struct("<dIIQ").pack
_DELIVERY = Struct("<dIQQQ").pack
_FLUSH = 65_536


class Digest:
    __slots__ = ("_buffer", "_hash")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._buffer = bytearray()

    def frame(self, at: float, host: int, kind: int, count: int) -> None:
        self._buffer += _FRAME(at, host, kind, count)
        if len(self._buffer) > _FLUSH:
            self._spill()

    def delivery(self, at: float, host: int, publisher: int, incarnation: int, sequence: int) -> None:
        self._buffer += _DELIVERY(at, host, publisher, incarnation, sequence)
        if len(self._buffer) > _FLUSH:
            self._spill()

    def _spill(self) -> None:
        self._hash.update(self._buffer)
        self._buffer.clear()

    def hex(self) -> str:
        self._spill()
        return self._hash.hexdigest()
