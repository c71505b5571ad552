"""One reconfiguration as the manager leads it: which step, whom it waits for, what it keeps on disk.

Before the decision anything that goes wrong ends the attempt: a refusal, a broker that is lost, a step that
takes too long. The decision is on the disk before anybody hears of it; from then on it only goes forward, and
who is lost meanwhile is not waited for.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grapevine.wire.chord import RingNode
from grapevine.wire.reconfiguration import (
    STEPS,
    Process,
    RcfgAbort,
    RcfgDone,
    RcfgFinish,
    RcfgInit,
    RcfgNullify,
    RcfgOverlay,
    RcfgPubsub,
    Version,
)
from overlay.chord.contacts import LIVES
from overlay.chord.participation import NAMES, Step
from overlay.chord.ring import ideal


class Kept(msgspec.Struct, frozen=True):
    """What the manager must know after a restart."""

    version: Version
    plane: int
    nodes: tuple[RingNode, ...]  # the participants as they are
    decided: bool


class Attempt:
    def __init__(
        self,
        version: Version,
        plane: int,
        nodes: tuple[RingNode, ...],
        target: tuple[RingNode, ...],
        now: float,
    ) -> None:
        self.version, self.plane = version, plane
        self.nodes = {node.broker: node for node in nodes}
        self.target = target
        self.decided = False
        self.reason = ""  # why it was ended
        self.began_at = now
        self.messages = 0  # said by the manager and answered to it
        self.lost_at: dict[int, float] = {}
        self.step: type[Step] = RcfgInit
        self.since = now
        self.waiting: set[int] = set(self.nodes)
        self.befores: dict[int, int] = {}  # broker -> who is before it, as it says

    @classmethod
    def again(cls, kept: Kept, now: float) -> Attempt:
        """After a restart of the manager: forward if it was decided, back if not."""
        attempt = cls(kept.version, kept.plane, kept.nodes, (), now)
        attempt.decided = kept.decided
        attempt.turn(RcfgFinish if kept.decided else RcfgAbort, now)
        attempt.reason = "" if kept.decided else "the manager was restarted"
        return attempt

    def kept(self) -> Kept:
        return Kept(self.version, self.plane, tuple(self.nodes.values()), self.decided)

    def turn(self, step: type[Step], now: float) -> None:
        self.step, self.since = step, now
        self.waiting = set(self.nodes)

    def message(self, broker: int, length: int, base: int) -> Step:
        """What the present step says to this broker."""
        step = self.step
        if step is RcfgInit:
            processes = (Process(node.broker, node.incarnation >> LIVES) for node in self.nodes.values())
            return RcfgInit(self.version, self.plane, tuple(processes))
        if step is RcfgOverlay:
            rank = next(rank for rank, node in enumerate(self.target) if node.broker == broker)
            known = ideal(self.target, rank, length, base)
            pointers = (known.predecessor, known.successors, known.fingers)
            return RcfgOverlay(self.version, self.target[rank], *pointers)
        bare: type[RcfgPubsub | RcfgFinish | RcfgNullify | RcfgAbort] = step  # type: ignore[assignment]
        return bare(self.version)

    def answered(self, broker: int, done: RcfgDone) -> str:
        """Why this ends the attempt; empty: it does not."""
        if done.version != self.version or done.step != self.step.kind or broker not in self.nodes:
            return ""
        name = self.nodes[broker].name
        if done.refusal:
            return "" if self.over else f"{name}: {done.refusal}"
        if self.step is RcfgInit:
            if done.node != self.nodes[broker] or done.predecessor is None:
                return f"{name} is another node by now"
            self.befores[broker] = done.predecessor.broker
        self.messages += 1
        self.waiting.discard(broker)
        return ""

    @property
    def over(self) -> bool:
        """Whether nothing can end it any more."""
        return self.decided or self.step is RcfgAbort

    def gaps(self) -> str:
        """Whether somebody else is between the participants, by their own words."""
        ring = sorted(self.nodes.values(), key=lambda node: node.position)
        for place, node in enumerate(ring):
            if self.befores.get(node.broker) != ring[place - 1].broker:
                return f"before {node.name} is somebody else than {ring[place - 1].name}"
        return ""

    def following(self) -> type[Step] | None:
        place = STEPS.index(self.step) + 1 if self.step is not RcfgAbort else len(STEPS)
        return STEPS[place] if place < len(STEPS) else None

    def row(self, now: float) -> dict[str, Any]:
        names = sorted(self.nodes[broker].name for broker in self.waiting)
        moved = sum(self.nodes[node.broker].position != node.position for node in self.target)
        return {
            "version": [f"{self.version.manager:016x}", self.version.incarnation, self.version.number],
            "plane": self.plane,
            "step": NAMES[self.step.kind],
            "decided": self.decided,
            "for_s": round(now - self.began_at, 3),
            "waiting_for": names,
            "moved": moved,
            "messages": self.messages,
            "reason": self.reason,
        }
