"""Delivery log segments on disk: which there are, what of them is whole, and what is new since last time.

A closed segment (`.jsonl`) never changes. An open one (`.open`) grows: its last line may be half written, so
only what ends with a newline is taken, and the rest comes next time, also if the segment was closed since. A
closed segment that ends in the middle of a line belongs to a broker that was killed: that line is lost and
counted. A segment is known by its name and the digest of its first line, because a broker whose state was
removed starts to count again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec

CLOSED, OPEN = ".jsonl", ".open"
NAME = re.compile(r"(?P<broker>.+)-\d+")
BLOCK_BYTES = 1 << 16
FIRST_LINE_BYTES = 1 << 16
PIECE_BYTES = 32 << 20  # of one task


class Segment(msgspec.Struct):
    """What is there now."""

    broker: str
    key: str  # name and digest of the first line
    path: str
    whole: int  # bytes up to the last newline
    torn: int = 0  # bytes of a line that will never be finished


class Piece(msgspec.Struct):
    """Whole lines of one segment, to be read by one task."""

    path: str
    start: int
    end: int


def find(directories: Iterable[Path]) -> Iterator[Segment]:
    for directory in directories:
        for path in sorted(directory.iterdir()):
            if path.suffix in (CLOSED, OPEN) and NAME.fullmatch(path.stem):
                if (segment := look(path)) is not None:
                    yield segment


def deliveries(root: Path) -> list[Path]:
    """Every directory under `root` that holds segments, `root` itself among them."""
    found = {path.parent for suffix in (CLOSED, OPEN) for path in root.rglob(f"*-*{suffix}")}
    return sorted(path for path in found if any(NAME.fullmatch(p.stem) for p in path.iterdir()))


def look(path: Path) -> Segment | None:
    """None where there is no whole line yet."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            first = file.readline(FIRST_LINE_BYTES)
            whole = _last_newline(file, size)
    except FileNotFoundError:  # closed between the listing and now
        return look(path.with_suffix(CLOSED)) if path.suffix == OPEN else None
    if not whole:
        return None
    match = NAME.fullmatch(path.stem)
    assert match is not None
    key = f"{path.stem}:{blake2b(first, digest_size=8).hexdigest()}"
    torn = size - whole if path.suffix == CLOSED else 0
    return Segment(match["broker"], key, str(path), whole, torn)


def _last_newline(file: BinaryIO, size: int) -> int:
    """The position after the last newline within `size` bytes, 0 if there is none."""
    end = size
    while end > 0:
        start = max(0, end - BLOCK_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def pieces(segment: Segment, done: int, piece_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
    """What of the segment is not done yet, cut at ends of lines."""
    start = done
    with open_either(segment.path) as file:
        while start < segment.whole:
            end = min(segment.whole, start + piece_bytes)
            if end < segment.whole:
                file.seek(end)
                end += len(file.readline())
            yield Piece(segment.path, start, end)
            start = end


def open_either(path: str) -> BinaryIO:
    """The segment, also when it was closed in the meantime."""
    try:
        return open(path, "rb")
    except FileNotFoundError:
        return open(Path(path).with_suffix(CLOSED), "rb")


def groups(found: Iterable[Piece], group_bytes: int = PIECE_BYTES) -> list[list[Piece]]:
    """Small pieces together, so that a task is worth its start."""
    made: list[list[Piece]] = []
    filled = group_bytes
    for piece in found:
        if filled + piece.end - piece.start > group_bytes:
            made.append([])
            filled = 0
        made[-1].append(piece)
        filled += piece.end - piece.start
    return made
