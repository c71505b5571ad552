"""What the reconfiguration manager asks of every broker, and what it makes of the answers (DYNATOPS 5).

Each broker says where it is, which topics its subscribers want, and how many publications of each topic it
has sent on as the topic's root. The manager keeps the last answer of each, and of each topic the estimated
publications of a period (8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from grapevine.wire.chord import RingNode
from overlay.chord.planes import Planes
from overlay.coordinate.greedy import estimated_rate

QUESTION = "interests"


class Interests(msgspec.Struct, frozen=True):
    node: RingNode
    plane: int
    busy: bool  # a reconfiguration is not over there
    topics: tuple[int, ...]
    emitted: dict[int, int]  # since it started


def reporter(planes: Planes, brief: Callable[[], dict[str, Any]]) -> Callable[[bytes], dict[str, Any]]:
    def report(argument: bytes) -> dict[str, Any]:
        path = planes.path
        said = Interests(
            planes.membership.me,
            planes.current.number,
            planes.next is not None or not planes.membership.member,
            tuple(planes.subscribed),
            path.emitted,
        )
        return {**brief(), QUESTION: msgspec.to_builtins(said)}

    return report


class Survey:
    """All that the manager knows."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.answers: dict[int, Interests] = {}
        self.missing: tuple[str, ...] = ()
        self.complete_at: float | None = None  # when everybody had answered
        self.changed_at = 0.0  # when somebody was last seen to come or go
        self.rates: dict[int, float] = {}  # topic -> publications of a period, estimated
        self._observed: dict[int, int] = {}  # in this one
        self._emitted: dict[int, dict[int, int]] = {}  # broker -> as it last said

    def take(self, reports: list[dict[str, Any]], now: float) -> None:
        found = {}
        for report in reports:
            try:
                said = msgspec.convert(report.get(QUESTION), Interests, str_keys=True)
            except msgspec.ValidationError:
                continue
            found[said.node.broker] = said
            self._count(said)
        self.missing = tuple(str(report.get("name")) for report in reports if report.get("missing"))
        if {said.node for said in found.values()} != {said.node for said in self.answers.values()}:
            self.changed_at = now
        self.answers = found
        if not self.missing:
            self.complete_at = now

    def _count(self, said: Interests) -> None:
        before = self._emitted.get(said.node.broker, {})
        for topic, count in said.emitted.items():
            fresh = count - before.get(topic, 0)
            self._observed[topic] = self._observed.get(topic, 0) + (fresh if fresh >= 0 else count)
        self._emitted[said.node.broker] = said.emitted

    def end_period(self) -> None:
        """The filter of rates; a topic seen for the first time counts as it is."""
        topics = self.rates.keys() | self._observed.keys()
        self.rates = {
            topic: estimated_rate(self.rates[topic], self._observed.get(topic, 0), self.alpha)
            if topic in self.rates
            else float(self._observed[topic])
            for topic in sorted(topics)
        }
        self.rates = {topic: rate for topic, rate in self.rates.items() if rate > 1e-3}
        self._observed = {}

    def expected(self) -> dict[int, float]:
        """Publications of a period: what was estimated, or seen so far where nothing was."""
        return {
            topic: self.rates.get(topic, 0.0) or float(self._observed.get(topic, 0))
            for topic in (self.rates.keys() | self._observed.keys())
        }

    def nodes(self) -> list[RingNode]:
        """In the order of their positions."""
        return sorted((said.node for said in self.answers.values()), key=lambda node: node.position)

    def unfit(self, now: float, calm_s: float) -> str:
        """Why nothing can be reconfigured now; empty: it can."""
        if self.missing:
            return f"{', '.join(self.missing[:3])} did not answer"
        if self.complete_at is None:
            return "nobody has reported yet; brokers are asked each reconfiguration.report_s"
        planes = {said.plane for said in self.answers.values()}
        if len(planes) > 1 or any(said.busy for said in self.answers.values()):
            return "brokers are on different planes"
        if len(self.answers) < 3:
            return "fewer than three brokers"
        if len({node.position for node in self.nodes()}) < len(self.answers):
            return "two brokers have one position"
        if now - self.changed_at < calm_s:
            return f"a broker came or went less than {calm_s:g} s ago"
        return ""
