"""Timing on a machine that has other things to do.

Functions take turns: one round over all publications each, then the next round. A publication's time is the
median of its rounds, and mean, p50 and p99 are over the publications. Beside them stand the mean and p50 of
each publication's best round: on a busy machine the slower function is put aside more often, so that ratios
of medians flatter the quicker one, and ratios are taken of these. Changes are timed together, in processor
time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from statistics import fmean, median
from time import perf_counter_ns, thread_time_ns
from typing import TypeVar

from bench.matching_workloads import Attributes

ROUNDS = 5
BUDGET_NS = 1_500_000_000  # for one function in one round
Item = TypeVar("Item")


def measured(
    functions: dict[str, Callable[[Attributes], object]],
    points: list[Attributes],
    around: dict[str, Callable[[], AbstractContextManager[None]]] | None = None,
) -> dict[str, dict[str, float]]:
    """`around`: what a function's rounds are run within."""
    rounds: dict[str, list[list[int]]] = {name: [] for name in functions}
    for number in range(ROUNDS):
        say(f"round {number + 1} of {ROUNDS}")
        for name, function in functions.items():
            with (around or {}).get(name, nullcontext)():
                rounds[name].append(_round(function, points))
    return {name: _summary(found) for name, found in rounds.items()}


def _round(function: Callable[[Attributes], object], points: list[Attributes]) -> list[int]:
    """Nanoseconds for each publication, for as many as the budget allows."""
    spent: list[int] = []
    ends = perf_counter_ns() + BUDGET_NS
    quiet()
    for point in points:
        began = perf_counter_ns()
        function(point)
        now = perf_counter_ns()
        spent.append(now - began)
        if now > ends:
            break
    return spent


def _summary(rounds: list[list[int]]) -> dict[str, float]:
    times = sorted(median(column) / 1e3 for column in zip(*rounds))
    best = sorted(min(column) / 1e3 for column in zip(*rounds))
    last = len(times)
    usual = {"mean_us": fmean(times), "p50_us": times[last // 2], "p99_us": times[last * 99 // 100]}
    return usual | {"best_mean_us": fmean(best), "best_p50_us": best[last // 2]}


def changes_us(function: Callable[[Item], object], items: Iterable[Item]) -> float:
    """Mean processor time of one change."""
    quiet()
    began, count = thread_time_ns(), 0
    for item in items:
        function(item)
        count += 1
    return (thread_time_ns() - began) / 1e3 / count


def longest_us(function: Callable[[Item], object], items: Iterable[Item]) -> float:
    """The processor time of the longest change: the pause it makes."""
    quiet()
    longest = 0
    for item in items:
        began = thread_time_ns()
        function(item)
        longest = max(longest, thread_time_ns() - began)
    return longest / 1e3


def quiet() -> None:
    """No garbage collector between two readings."""
    gc.collect()
    gc.freeze()


def say(text: str) -> None:
    print(text, file=sys.stderr)
