"""A publication as its client sends it: the fields of which only the client knows.

What its first broker fills in is left out of the frame, which is shorter to write and to read for it.
"""

from __future__ import annotations

import msgspec

from grapevine.wire.fields import AttributeBytes, Count, Flags, PayloadBytes


class Draft(msgspec.Struct, array_like=True, gc=False):
    """Attributes (a map in msgpack) and payload stay the bytes they came in."""

    attributes: AttributeBytes
    payload: PayloadBytes
    sequence: Count  # the publisher's own count within one incarnation, rising
    flags: Flags = 0
