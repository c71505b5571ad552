"""What has happened at a broker, for who looks at it: a ring of the latest, each with a number.

An event is a change that an operator would want to be told of: a link came or went, a publisher moves, a
client does not keep up. It is no log of publications and costs nothing where nothing changes. Numbers rise
by one and begin anew with each incarnation, so that who asks for what came since a number misses nothing
without being told that something is missing. `kind` is a word or two joined by a dot ("soft.promoted"),
`text` a sentence for people, fields say the same for programs. Levels: "info", "warn" (look at it), "bad".
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any, NamedTuple

KEPT = 1_024


class Happened(NamedTuple):
    number: int
    at: float
    kind: str
    text: str
    level: str
    fields: dict[str, Any]

    def row(self) -> dict[str, Any]:
        said = {"n": self.number, "t_ms": round(self.at * 1000), "kind": self.kind, "level": self.level}
        return {**self.fields, **said, "text": self.text}


class Events:
    __slots__ = ("_kept", "last")

    def __init__(self, kept: int = KEPT) -> None:
        self._kept: deque[Happened] = deque(maxlen=kept)
        self.last = 0  # the number of the latest

    def add(self, now: float, kind: str, text: str, level: str, fields: dict[str, Any]) -> None:
        self.last += 1
        self._kept.append(Happened(self.last, now, kind, text, level, fields))

    def since(self, number: int, limit: int = KEPT) -> list[Happened]:
        """The latest `limit` of those after `number`, the oldest first."""
        wanted = min(self.last - number, limit, len(self._kept))
        return list(islice(self._kept, len(self._kept) - wanted, None)) if wanted > 0 else []
