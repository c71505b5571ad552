"""What a matcher reports of its load, and what a dispatcher makes of it (BlueDove III-B, IV-C).

* For each dimension: q asks waiting, lambda arrivals a second, mu, the size of the set, what one publication
  costs. For the matcher: seconds of work that wait, and its busy share.
* **mu = 1 / mean matching time of that set** over the window ("1/mu is the matching time"); with nothing
  matched it comes from the size. The paper can be read in two other ways, and they decide what its adaptive
  policy is worth; all three are here by name and the reproduction prints all three.
* A report is pushed when something moved by more than a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Literal, NamedTuple

from grapevine.wire.onehop import DimensionLoad, LoadReport

WINDOW_S = 1.0  # the paper's w, which it does not give
MOVED = 0.1
STALE_S = 3.0

Reading = Literal["matching-time", "while-waiting", "of-window"]


class Measured(NamedTuple):
    """One set over one window."""

    arrived: int
    matched: int
    busy_s: float  # spent matching
    waiting_s: float  # for so long the queue was not empty
    window_s: float
    waiting: int  # q at its end
    size: int


def mu_matching_time(measured: Measured, idle_cost_s: float) -> float:
    """1 / mean matching time; `idle_cost_s` is what one would take by the size of the set."""
    if measured.matched and measured.busy_s > 0:
        return measured.matched / measured.busy_s
    return 1.0 / max(idle_cost_s, 1e-9)


def mu_while_waiting(measured: Measured, idle_cost_s: float) -> float:
    """Completed per second in which the queue was not empty."""
    if measured.matched and measured.waiting_s > 0:
        return measured.matched / measured.waiting_s
    return 1.0 / max(idle_cost_s, 1e-9)


def mu_of_window(measured: Measured, idle_cost_s: float) -> float:
    """Completed per second of the window."""
    if measured.matched:
        return measured.matched / measured.window_s
    return 1.0 / max(idle_cost_s, 1e-9)


READINGS = {"matching-time": mu_matching_time, "while-waiting": mu_while_waiting, "of-window": mu_of_window}


def dimension_load(measured: Measured, idle_cost_s: float, reading: Reading) -> DimensionLoad:
    cost = measured.busy_s / measured.matched if measured.matched else idle_cost_s
    return DimensionLoad(
        waiting=measured.waiting,
        arrivals=measured.arrived / measured.window_s,
        mu=READINGS[reading](measured, idle_cost_s),
        size=measured.size,
        cost_s=cost,
    )


def has_moved(new: LoadReport, old: LoadReport | None) -> bool:
    """IV-C: a report is pushed if the load changes more than 10 %."""
    if old is None or len(old.dimensions) != len(new.dimensions):
        return True
    pairs = [(new.backlog_s, old.backlog_s), (new.busy, old.busy)]
    for now, then in zip(new.dimensions, old.dimensions):
        pairs += zip(now.numbers(), then.numbers())
    return any(abs(a - b) > MOVED * max(abs(a), abs(b)) for a, b in pairs)


class Known(NamedTuple):
    """A report as a dispatcher has it."""

    report: LoadReport
    at: float
    sent_s: float = 0.0  # work that this dispatcher has sent since


def backlogs(known: Mapping[int, Known], now: float) -> dict[int, float]:
    """Seconds of work at each matcher as last reported; where that is too old, the median of the others."""
    fresh = {m: k.report.backlog_s for m, k in known.items() if now - k.at <= STALE_S}
    usual = median(fresh.values()) if fresh else 0.0
    return {matcher: fresh.get(matcher, usual) for matcher in known}
