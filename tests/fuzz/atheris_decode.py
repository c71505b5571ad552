"""Coverage-guided fuzzing of `decode` and of those who receive what it took.

`python -m tests.fuzz.atheris_decode [CORPUS] -max_total_time=300`. The corpus starts with a sample of every
kind; the first byte of the input chooses the kind so that each is reached. Any exception but WireError is a
crash, whose input atheris writes to a file.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["grapevine", "overlay", "matching"]):
    from grapevine.wire import WireError, decode, decode_attributes, encode
    from grapevine.wire.messages import KINDS, Message
    from tests.fuzz.frames import everybody, samples

KIND_LIST = sorted(KINDS)
target = everybody(seed=1)  # what happens to a message that was taken
taken: Counter[str] = Counter()


def one_input(data: bytes) -> None:
    if not data:
        return
    frame = data if data[0] in KINDS else bytes((KIND_LIST[data[0] % len(KIND_LIST)],)) + data[1:]
    try:
        message = decode(frame)
        for publication in getattr(message, "publications", ()):
            decode_attributes(publication.attributes)
        _count(message)
        target(message)
    except WireError:
        taken["refused"] += 1


def _count(message: Message) -> None:
    name = type(message).__name__
    taken[name] += 1
    if taken[name] == 1:
        print(f"reached {name} ({len(taken)} of {len(KINDS)})", file=sys.stderr)


def main() -> None:
    arguments = sys.argv
    if not any(not argument.startswith("-") for argument in arguments[1:]):
        arguments = [*arguments, tempfile.mkdtemp(prefix="grapevine-corpus-")]
    corpus = Path(next(argument for argument in arguments[1:] if not argument.startswith("-")))
    corpus.mkdir(parents=True, exist_ok=True)
    for message in samples():
        (corpus / type(message).__name__).write_bytes(encode(message))
    atheris.Setup(arguments, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
