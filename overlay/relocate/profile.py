"""POP's decisions: which publications to trace, what the traces say, where the majority is.

A broker keeps one row per neighbour that the publisher's publications go to: how many subscribers are at
and behind it, as a running average. The neighbour with more subscribers than everything else together is
*closer* than the broker itself; the publisher is best placed where no neighbour is.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

NEWEST = 0.25  # weight of the newest trace; the average so far has the rest (POP 3.1)


class TagWindow:
    """P_trace = 1 - T/N: T tagged so far in the window, at most N of them (POP 3.1)."""

    __slots__ = ("began_at", "tagged")

    def __init__(self, now: float) -> None:
        self.began_at = now
        self.tagged = 0

    def tag(self, most: int, window_s: float, now: float, chance: Random) -> bool:
        if now - self.began_at >= window_s:
            self.began_at = now
            self.tagged = 0
        if self.tagged >= most or chance.random() >= trace_probability(self.tagged, most):
            return False
        self.tagged += 1
        return True


def trace_probability(tagged: int, most: int) -> float:
    return 1.0 - tagged / most


class PublisherProfileTable:
    """One publisher at one broker: average subscribers at and behind each neighbour, and here."""

    __slots__ = ("downstream", "local", "traces")

    def __init__(self) -> None:
        self.downstream: dict[int, float] = {}
        self.local = 0.0
        self.traces = 0

    def record(self, local: int, downstream: Mapping[int, float], newest: float = NEWEST) -> None:
        """One trace. A neighbour that did not get the publication has nobody for it."""
        first = not self.traces
        self.traces += 1
        self.local = float(local) if first else _running(self.local, local, newest)
        for neighbour in self.downstream.keys() | downstream.keys():
            value = downstream.get(neighbour, 0.0)
            known = self.downstream.get(neighbour)
            old = value if first else 0.0 if known is None else known
            self.downstream[neighbour] = _running(old, value, newest)

    def forget(self, neighbour: int) -> None:
        self.downstream.pop(neighbour, None)

    @property
    def total(self) -> float:
        return self.local + sum(self.downstream.values())


def _running(average: float, value: float, newest: float) -> float:
    return newest * value + (1.0 - newest) * average


def closest_neighbour(
    downstream: Mapping[int, float], local: float, upstream: float = 0.0, margin: float = 0.0
) -> tuple[int | None, float]:
    """The neighbour whose subscribers outnumber all others' together with ours and those `upstream`, or
    none; and what the request to it carries: the number of all the others (POP 3.2). `margin` is the share
    by which it must outnumber them, against publishers that move to and fro."""
    total = local + upstream + sum(downstream.values())
    for neighbour, subscribers in downstream.items():
        others = total - subscribers
        if subscribers > others * (1.0 + margin):
            return neighbour, others
    return None, total
