"""The extension block of a publication: records of type (one byte), length (two, big-endian), value.

A type with the high bit set is critical: who does not know it refuses the publication. Any other type
that is not known is carried on unread. Type numbers are append only, like the kinds of messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from grapevine.wire.errors import WireError
from grapevine.wire.limits import EXTENSION_BYTES

TRACEPARENT = 2  # W3C Trace Context, as its text; 1 is a traced publication's (wire/relocation.py)
CRITICAL = 0x80
HEADER_BYTES = 3
VALUE_BYTES = 0xFFFF

KNOWN_CRITICAL: frozenset[int] = frozenset()  # 0x81 was the exclude list: see ExcludingBatch


def encode_extension(records: Iterable[tuple[int, bytes]]) -> bytes:
    """The block of these (type, value) records, in their order."""
    block = bytearray()
    for kind, value in records:
        if not 0 <= kind <= 0xFF or len(value) > VALUE_BYTES:
            raise ValueError(f"extension {kind} of {len(value)} bytes cannot be encoded")
        block += bytes((kind, len(value) >> 8, len(value) & 0xFF)) + value
    if len(block) > EXTENSION_BYTES:
        raise ValueError(f"an extension block of {len(block)} bytes is over the limit of {EXTENSION_BYTES}")
    return bytes(block)


def decode_extension(block: bytes) -> list[tuple[int, bytes]]:
    """The records of a block. WireError if it is cut off, too long, or has an unknown critical type."""
    if len(block) > EXTENSION_BYTES:
        raise WireError(f"extension block of {len(block)} bytes")
    records: list[tuple[int, bytes]] = []
    at = 0
    while at < len(block):
        start = at + HEADER_BYTES
        if start > len(block):
            raise WireError("extension block ends inside a header")
        kind = block[at]
        at = start + int.from_bytes(block[at + 1 : start], "big")
        if at > len(block):
            raise WireError("extension block ends inside a value")
        if kind & CRITICAL and kind not in KNOWN_CRITICAL:
            raise WireError(f"unknown critical extension {kind}")
        records.append((kind, block[start:at]))
    return records
