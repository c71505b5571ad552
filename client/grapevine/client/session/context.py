"""The context that a publication was made in: a traceparent (W3C Trace Context), carried as it is.

It travels in the extension block, so that brokers who do not read it carry it on; nothing is exported here. A
broker older than protocol 3 would not take the frame: to such a one the publication goes without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from grapevine.errors import Invalid
from grapevine.filters.normal import Value
from grapevine.wire.errors import WireError
from grapevine.wire.extensions import TRACEPARENT, decode_extension, encode_extension
from grapevine.wire.messages import EXTENDED, Publication

if TYPE_CHECKING:
    from grapevine.client.session.session import Session

# version, trace id, parent id, flags; what a later version appends is kept
FORM = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{1,128})?"
)


def publish_in(
    session: Session,
    context: str,
    attributes: Mapping[str, Value],
    payload: bytes = b"",
    durable: bool = False,
    sequence: int | None = None,
) -> int:
    """Append a publication with its context; its sequence number. Only while `can_publish`."""
    if FORM.fullmatch(str(context)) is None:
        raise Invalid(f"context {context!r}: a traceparent is written 00-<32 hex>-<16 hex>-<2 hex>")
    number = session.publish(attributes, payload, durable, sequence)
    session.outgoing.extend_last(encode_extension([(TRACEPARENT, context.encode())]))
    return number


def context_of(publication: Publication) -> str | None:
    if not publication.flags & EXTENDED:
        return None
    try:
        found = [value for kind, value in decode_extension(publication.extension) if kind == TRACEPARENT]
    except WireError:  # a critical record of a later version, beside it
        return None
    return found[0].decode("ascii", "replace") if found else None
