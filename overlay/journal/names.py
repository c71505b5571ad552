"""Names of the journal's files. A segment's name says its number and its first position: where damage at
its beginning begins is known even if nothing in it can be read."""

from __future__ import annotations

import re
from typing import NamedTuple

_SEGMENT = re.compile(r"(\d{8,})-(\d{16,})\.seg")


class Segment(NamedTuple):
    number: int
    first: int  # position

    @property
    def name(self) -> str:
        return f"{self.number:08d}-{self.first:016d}.seg"

    @property
    def index_name(self) -> str:
        return f"{self.number:08d}-{self.first:016d}.idx"

    @property
    def beside(self) -> str:
        """While a tail is written anew: not a segment yet."""
        return f"{self.number:08d}-{self.first:016d}.new"


def segments(names: list[str]) -> list[Segment]:
    """The segments among these files, in order."""
    found = (_SEGMENT.fullmatch(name) for name in names)
    return sorted(Segment(int(match[1]), int(match[2])) for match in found if match)
