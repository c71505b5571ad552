"""What travels: messages, their frames, their limits. The rest of the program builds and reads messages;
bytes are met in `codec` alone."""

from grapevine.wire.codec import (
    decode,
    decode_attributes,
    decode_publications,
    encode,
    encode_attributes,
    encode_publications,
    encode_publish,
)
from grapevine.wire.errors import WireError
from grapevine.wire.extensions import decode_extension, encode_extension
from grapevine.wire.identity import identify

__all__ = [
    "WireError",
    "decode",
    "decode_attributes",
    "decode_extension",
    "decode_publications",
    "encode",
    "encode_attributes",
    "encode_extension",
    "encode_publications",
    "encode_publish",
    "identify",
]
