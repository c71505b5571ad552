"""SPEC A5: a plan that is being carried out: so many subscribers at a time, and what became of each.

Nobody is told that a subscriber has moved: it has when its target reports it. One that stays, by its broker's
word or because it is not there in time, is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

ARRIVE_S = 90.0  # a handover takes as long as a broker that cannot be reached is waited for


class Step(NamedTuple):
    subscriber: str
    source: str
    target: str


class Migrations:
    def __init__(self) -> None:
        self.waiting: deque[Step] = deque()
        self.flying: dict[str, tuple[Step, float]] = {}  # subscriber -> its step, and until when
        self.moved_at: dict[str, float] = {}
        self.moved = self.failed = 0
        self.last: list[str] = []  # why the last ones failed

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.flying)

    def add(self, steps: Iterable[Step]) -> None:
        self.waiting.extend(steps)

    def look(self, homes: Mapping[str, str], now: float, cooldown_s: float) -> None:
        """By what brokers report."""
        for name, (step, until) in list(self.flying.items()):
            if homes.get(name) == step.target:
                del self.flying[name]
                self.moved += 1
                self.moved_at[name] = now
            elif now >= until:
                self.refuse(name, f"not at {step.target} within {ARRIVE_S:g} s")
        for name in [name for name, at in self.moved_at.items() if at < now - cooldown_s]:
            del self.moved_at[name]

    def refuse(self, name: str, why: str) -> None:
        if self.flying.pop(name, None) is not None:
            self.failed += 1
            self.last = [*self.last[-9:], f"{name}: {why}"]

    def stayed(self, source: str, stays: Mapping[str, str]) -> None:
        """What a broker says of those that it was to send on."""
        for name, why in stays.items():
            if name in self.flying and self.flying[name][0].source == source:
                self.refuse(name, why)

    def launch(self, homes: Mapping[str, str], now: float, most: int) -> list[Step]:
        """Who is to go now; who is no longer where the plan saw it stays."""
        steps = []
        while self.waiting and len(self.flying) < most:
            step = self.waiting.popleft()
            if homes.get(step.subscriber) == step.source:
                self.flying[step.subscriber] = (step, now + ARRIVE_S)
                steps.append(step)
        return steps
