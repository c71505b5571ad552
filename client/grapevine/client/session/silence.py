"""Whether the broker is still there: it is asked at half of the time, and given up at the whole of it."""

from __future__ import annotations


class Silence:
    __slots__ = ("_asked", "_limit_s", "heard_at")

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._asked = False
        self.heard_at = 0.0

    def heard(self, now: float) -> None:
        self.heard_at = now
        self._asked = False

    def deadline(self) -> float:
        return self.heard_at + (self._limit_s if self._asked else self._limit_s / 2)

    def due(self, now: float) -> str:
        """What is to be done now: "ask", "give up", or nothing."""
        if now < self.deadline():
            return ""
        if now >= self.heard_at + self._limit_s:
            self.heard(now)
            return "give up"
        self._asked = True
        return "ask"
