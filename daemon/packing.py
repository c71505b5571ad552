"""Publications from the frames of clients and brokers and to those of everybody, compiled where it can be.

Both are what `grapevine.wire.codec` does, to the byte and to the error: the compiled functions know the usual
shapes and leave everything else to it. `compiled` is None where nothing was built, or where it does something
else than msgspec does: then the codec does it all.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec

from grapevine.wire import codec
from grapevine.wire.drafts import Draft
from grapevine.wire.limits import (
    ATTRIBUTE_BYTES,
    BATCH_PUBLICATIONS,
    FRAME_BYTES,
    HOPS,
    PAYLOAD_BYTES,
    SECONDS,
)
from grapevine.wire.messages import Batch, Message, Publication, Publish

_PUBLICATION: Any = Publication  # here the class and its members, not the values of one publication
_MEMBERS = tuple(getattr(_PUBLICATION, name) for name in Publication.__struct_fields__)
_OTHERS = Publication.__struct_defaults__[-6:]  # of the fields that a client leaves out
_LIMITS = (ATTRIBUTE_BYTES, PAYLOAD_BYTES, 2**63 - 1, 0xFFFF, BATCH_PUBLICATIONS, HOPS, SECONDS)
_NUMBERS = {Publish.kind: 2, Batch.kind: 5}  # before the publications


def _agrees(module: ModuleType) -> bool:
    """A class is laid out by msgspec, and another version of it might do so in another way."""
    sent = [Publication(b"\x81\xa1a\x01" * n, b"xy", n, 0, *_OTHERS) for n in range(20)]
    frame = codec.encode_publish(7, 1, codec.encode_publications([*map(_draft, sent)]))
    try:
        packed, read = module.pack(sent, _MEMBERS), module.unpack(frame, 2, _MEMBERS, _OTHERS, _LIMITS)
    except (TypeError, ValueError):
        return False
    return bool(packed == bytes(codec.encode_publications(sent)) and read == (7, 1, sent))


def _draft(publication: Publication) -> Draft:
    return Draft(publication.attributes, publication.payload, publication.sequence, publication.flags)


compiled: ModuleType | None
try:
    from daemon import _packing

    compiled = _packing if _agrees(_packing) else None
except ImportError:
    compiled = None


def pack(publications: list[Publication]) -> msgspec.Raw:
    """Publications encoded once, to be spliced into the frames of several destinations."""
    if compiled is not None:
        packed = compiled.pack(publications, _MEMBERS)
        if packed is not None:
            return msgspec.Raw(packed)
    return codec.encode_publications(publications)


def unpack(frame: memoryview) -> Message:
    """The message of a frame, as `codec.decode`."""
    if (
        compiled is not None
        and len(frame)
        and (numbers := _NUMBERS.get(frame[0]))
        and len(frame) <= FRAME_BYTES
    ):
        read = compiled.unpack(frame, numbers, _MEMBERS, _OTHERS, _LIMITS)
        if read is not None:
            return Publish(*read) if numbers == 2 else Batch(*read)
    return codec.decode(frame)
