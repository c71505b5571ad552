"""What a run says of itself: the JSON contract of `pubctl sim run` and a line for people."""

from __future__ import annotations

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = "pubctl.sim.run/1"
    scenario: str
    seed: int
    digest: str
    brokers: int
    messages: int  # publications that crossed a link or reached a client
    messages_per_s: int = 0  # of processor time, once all are at work: the median over slices of the load
    deliveries: int
    publications: int
    owed: int  # pairs of settled publication and subscription that were checked
    excused: int  # pairs that are missing and may be
    excused_by_reason: dict[str, int] = {}
    cut: int = 0  # settled publications that their publisher was told not to have reached everybody
    crying_wolf: int = 0  # of these: everybody who was owed it has it
    faults: dict[str, int]
    faults_by_step: dict[str, int]
    crashes_by_step: dict[str, int]
    violations: list[str]
    violation_count: int
    virtual_s: float
    seconds: float
    memory_mb: int = 0  # the largest that this process has been
    overlay: dict[str, float] = {}  # what there is to say of the overlay as a whole, once it is at rest
    mutant: str = ""

    @property
    def ok(self) -> bool:
        return not self.violation_count

    def replay(self, small: bool = False) -> str:
        size = " --size small" if small else ""
        mutant = f" --mutant {self.mutant}" if self.mutant else ""
        return f"pubctl sim run {self.scenario} --seed {self.seed}{size}{mutant}"
