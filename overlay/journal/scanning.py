"""Read a segment's bytes: what is there, where it is damaged. What the damage means is judged elsewhere.

Between two true headers that follow each other byte by byte nothing can be missing: positions that are
skipped there were never written (a full disk refused them). Positions that go back cannot be true.
"""

from __future__ import annotations

from typing import NamedTuple

from overlay.journal.record import ALIGN, Header, find_next, read_body, read_header


class Damage(NamedTuple):
    """Bytes from `offset` to `end` that are no record. The positions `first`..`last` were there, if it is
    known which; `last` is None at the end of what can be read."""

    offset: int
    end: int
    first: int
    last: int | None


class Scanned(NamedTuple):
    records: list[Header]
    damages: list[Damage]
    size: int
    next: int  # the position after the last seen


def scan(data: bytes, segment: int, want: int) -> Scanned:
    """`want`: the position that the first record has (a segment's name says it)."""
    records: list[Header] = []
    damages: list[Damage] = []
    at, size = 0, len(data)
    while at < size:
        header = read_header(data, at, segment)
        if header is not None and header.position < want:
            header = None
        if header is not None:
            if read_body(data, header) is not None:
                records.append(header)
            else:
                damages.append(Damage(at, at + header.size, header.position, header.last))
            want = header.position + header.items
            at += header.size
            continue
        found = _behind(data, at + ALIGN, segment, want)
        if found is None:
            damages.append(Damage(at, size, want, None))
            break
        damages.append(Damage(at, found.offset, want, found.position - 1))
        at = found.offset
        want = found.position
    return Scanned(records, damages, size, want)


def _behind(data: bytes, at: int, segment: int, want: int) -> Header | None:
    """The next header that can be true."""
    while (found := find_next(data, at, segment)) is not None:
        if found.position >= want:
            return found
        at = found.offset + ALIGN
    return None
