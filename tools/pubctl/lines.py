"""Publications as lines of standard input: words as on the command line, or JSON.

`symbol=YHOO volume=6200` is a publication without a payload, `{"symbol": "YHOO", "volume": 6200}` the same;
`{"attributes": {..}, "payload": "text"}` is what `pubctl sub -o jsonl` prints; the rest of it is left out.
`payload_base64` is for bytes that are no text. A line that cannot be read ends it, with its number.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tools.pubctl import attributes
from tools.pubctl.failure import USAGE, Failure

WORD = re.compile(r"""([^\s=]+)=('(?:[^']|'')*'|"[^"]*"|\S*)(?:\s+|$)""")
Line = tuple[dict[str, attributes.Value], bytes]


def read(lines: Iterable[str]) -> Iterator[Line]:
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            yield _json(text) if text.startswith("{") else (attributes.read(_words(text)), b"")
        except (Failure, ValueError) as error:
            raise Failure(f"line {number}: {error}", USAGE) from None


def _words(text: str) -> Iterator[str]:
    """In double quotes a value may have spaces; in single ones too, and it is a string then."""
    at = 0
    while at < len(text):
        found = WORD.match(text, at)
        if found is None:
            raise ValueError(f"{text[at:].split()[0]!r} is no attribute: write name=value")
        name, value = found.groups()
        yield f"{name}={value[1:-1] if value.startswith(chr(34)) else value}"
        at = found.end()


def _json(text: str) -> Line:
    try:
        found: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(found.get("attributes"), dict):
        return found, b""
    if "payload_base64" in found:
        try:
            return found["attributes"], b64decode(found["payload_base64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"payload_base64: {error}") from None
    payload = found.get("payload", "")
    if not isinstance(payload, str):
        raise ValueError("payload: a text; payload_base64 is for bytes")
    return found["attributes"], payload.encode()
