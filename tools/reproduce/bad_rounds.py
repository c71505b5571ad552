"""BAD's multistage balancing in rounds over a workload: what figures 5 to 14 plot.

A round comes every ten seconds and sees smoothed rates. `printed` is Algorithm 1 as it stands: line 17 asks
before the move, no bound on the moves of a round, a shuffle sends everybody without load to one broker. Ours
is what the coordinator does. The printed loop may never end: here it does after PRINTED_MOST steps.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from overlay.coordinate.loads import Assignment, Floats, Ints, variation
from overlay.coordinate.plan import UNBOUNDED, Scheme, Thresholds, migrate, shuffle, stage

Placed: TypeAlias = Literal["RND", "RR", "NR"]
CHECK_S = 10
DURATION_S = 1800
WINDOW_S = 60.0
PRINTED_MOST = 20_000
MOVES_FOR_TEN = 20  # in a round, for ten brokers


class Policy(NamedTuple):
    scheme: Scheme | None = None
    shuffles: bool = False
    thresholds: Thresholds = Thresholds()
    printed: bool = False
    bounded: bool = True
    keep: float | None = None

    @property
    def name(self) -> str:
        parts = [self.scheme or "", "GSH" if self.shuffles else ""]
        return "+".join(part for part in parts if part) or "No LB"


class Workload(Protocol):
    """Subscriber i wants `wanted[start[i]:start[i + 1]]` from `since_s[i]` on; it is there all the time."""

    brokers: int
    start: Ints
    wanted: Ints
    since_s: Floats

    def placed(self, by: Placed) -> Ints: ...
    def rates(self) -> list[Floats]:
        """Of each check, smoothed over WINDOW_S."""
        ...


class Course(NamedTuple):
    """One row a check: loads of the brokers before that check's moves, in bytes a second."""

    loads: npt.NDArray[np.float64]
    moves: Ints
    shuffles: int
    began: Ints  # subscribers of each broker at the start
    ended: Ints
    unfinished: int  # rounds of the printed loop that had to be stopped

    def cov(self, check: int) -> float:
        return variation(self.loads[check])


def run(workload: Workload, placed: Placed, policy: Policy) -> Course:
    home = workload.placed(placed).copy()
    counts = np.diff(workload.start)
    owner = np.repeat(np.arange(len(home)), counts)
    began = np.bincount(home, minlength=workload.brokers)
    loads, moves = [], []
    shuffles = unfinished = 0
    for check, rates in enumerate(workload.rates()):
        here = workload.since_s <= check * CHECK_S
        start = np.concatenate([[0], np.cumsum(np.where(here, counts, 0))])
        at = Assignment(workload.brokers, rates, start, workload.wanted[here[owner]], home)
        loads.append(at.loads.copy())
        done = 0
        due = stage(at.loads, policy.thresholds)
        if due == "shuffle" and policy.shuffles:
            done = len(shuffle(at, policy.keep, policy.printed).moves)
            shuffles += 1
        elif due != "none" and policy.scheme is not None:
            plan = migrate(
                at, *policy.thresholds[:2], policy.scheme, _most(workload, policy), (), policy.printed
            )
            done = plan.steps
            unfinished += policy.printed and plan.steps >= PRINTED_MOST
        home = at.home
        moves.append(done)
    ended = np.bincount(home, minlength=workload.brokers)
    return Course(np.array(loads), np.array(moves), shuffles, began, ended, unfinished)


def _most(workload: Workload, policy: Policy) -> int:
    if policy.printed:
        return PRINTED_MOST
    return MOVES_FOR_TEN * workload.brokers // 10 if policy.bounded else UNBOUNDED
