"""`pubctl reproduce bad`: figures 5 to 14 of the paper on balancing subscribers (see docs/papers/bad.md).

Every policy stands twice: as the coordinator does it, and *as printed*, with Algorithm 1's slips. The paper
gives its figures as curves without numbers, so a row has no value of the paper's but the trend that the text
states; `python -m tools.reproduce.bad_bars` holds the rows against those. The test-bed is the mean of its
seeds. The simulation runs once for each policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overlay.coordinate.plan import Thresholds
from tools.reproduce.bad_pictures import draw
from tools.reproduce.bad_prototype import Prototype
from tools.reproduce.bad_rounds import CHECK_S, DURATION_S, Course, Placed, Policy, run
from tools.reproduce.bad_simulation import Simulation
from tools.reproduce.row import Row

Tell = Callable[[int, int], None]
__all__ = ["draw", "reproduce"]

SEEDS = (1, 2, 3, 4, 5)
MINUTES = (5, 10, 15, 20, 25, 29)
LATE_S = 900  # the second half of a run
TESTBED = Thresholds(0.15, 50e3, 0.5, 50e3)  # a quarter of what flows when all have subscribed
ALWAYS = Thresholds(0.15, 0.0, 0.5, 0.0)
BETA = 300e6
ALPHAS = (0.05, 0.1, 0.15, 0.2, 0.3)
BETAS = (300e6, 400e6, 500e6)
PLACED: tuple[Placed, ...] = ("RND", "RR", "NR")
FIGURES = {"RND": "5, 6", "RR": "7", "NR": "8-11"}
PRINTED = " as printed"


class Case(NamedTuple):
    """One run of the simulation."""

    name: str
    policy: Policy
    results: int = 1_000


def testbed_policies() -> Iterator[Policy]:
    for printed in (False, True):
        yield Policy(None, False, TESTBED, printed)
        for scheme in ("LDM", "SDM"):
            for shuffles in (False, True):
                yield Policy(scheme, shuffles, TESTBED, printed)
        yield Policy("LDM", False, ALWAYS, printed)


def cases(quick: bool) -> Iterator[Case]:
    by = Thresholds(0.15, BETA, 0.5, BETA)
    yield Case("No LB", Policy())
    yield Case("LDM", Policy("LDM", False, by))
    yield Case("LDM unbounded", Policy("LDM", False, by, bounded=False))
    yield Case("LDM" + PRINTED, Policy("LDM", False, by, printed=True))
    yield Case("GSH", Policy(None, True, by))
    yield Case("GSH" + PRINTED, Policy(None, True, by, printed=True))
    yield Case("GSH keep 0.02", Policy(None, True, by, keep=0.02))
    if quick:
        return
    yield Case("SDM unbounded", Policy("SDM", False, by, bounded=False))
    for scheme in ("LDM", "SDM"):
        policy = Policy(scheme, False, by, bounded=False)
        yield Case(f"{scheme} unbounded, 20,000 BE", policy, 20_000)
    for alpha in ALPHAS:
        for beta in BETAS:
            thresholds = Thresholds(alpha, beta, 0.5, beta)
            yield Case(f"LDM beta={beta / 1e6:g} alpha={alpha:g}", Policy("LDM", False, thresholds))


def reproduce(quick: bool, data: Path | None, jobs: int, tell: Tell = lambda done, of: None) -> list[Row]:
    seeds = SEEDS[:1] if quick else SEEDS
    with ProcessPoolExecutor(jobs) as pool:
        testbed = [pool.submit(run_testbed, seed, data) for seed in seeds]
        simulated = [(case, pool.submit(run_case, case, data)) for case in cases(quick)]
        waiting: list[Future[Any]] = [*testbed, *(future for _, future in simulated)]
        for number, _ in enumerate(as_completed(waiting), 1):
            tell(number, len(waiting))
    rows = testbed_rows([future.result() for future in testbed])
    for case, future in simulated:
        rows += simulation_rows(case, future.result())
    return rows


def run_testbed(seed: int, data: Path | None) -> dict[tuple[Placed, str], Course]:
    workload = Prototype(seed, data)
    return {
        (placed, policy.name + " beta 0" * (policy.thresholds == ALWAYS) + PRINTED * policy.printed): run(
            workload, placed, policy
        )
        for placed in PLACED
        for policy in testbed_policies()
    }


def run_case(case: Case, data: Path | None) -> Course:
    return run(Simulation(1, data, case.results), "NR", case.policy)


def testbed_rows(runs: list[dict[tuple[Placed, str], Course]]) -> list[Row]:
    rows = []
    for placed, name in runs[0]:
        if placed == "RR" and "GSH" in name:
            continue
        courses = [each[placed, name] for each in runs]
        setting = f"test-bed {placed} {name}"
        figure = FIGURES[placed]
        values = {
            "max load, kB/s": [_late_loads(c).max() / 1e3 for c in courses],
            "cov": [_late_cov(c) for c in courses],
            "migrations": [c.moves.sum() for c in courses],
            "shuffles": [c.shuffles for c in courses],
        }
        stopped = sum(c.unfinished for c in courses)
        note = f"{stopped} rounds never ended" if stopped else ""
        for metric, found in values.items():
            which = "12" if metric == "migrations" and "GSH" not in name else figure
            rows.append(Row(which, setting, metric, None, float(np.mean(found)), note))
        if not name.endswith(PRINTED):
            rows += _over_time(figure, setting, "kB/s", 1e3, courses[0])
    return rows


def simulation_rows(case: Case, course: Course) -> list[Row]:
    figure = "14" if "=" in case.name else "13"
    setting = f"simulation NR {case.name}"
    rows = [
        Row(figure, setting, "cov", None, _late_cov(course)),
        Row(figure, setting, "migrations", None, float(course.moves.sum())),
        Row(figure, setting, "migrations in the second half", None, float(_late(course.moves).sum())),
        Row(figure, setting, "seconds until cov <= 0.16", None, _balanced_s(course)),
    ]
    if figure == "13":
        most, least = float(course.ended.max()), float(course.ended.min())
        rows += [
            Row(figure, setting, "max load, MB/s", None, float(_late_loads(course).max()) / 1e6),
            Row(figure, setting, "total load, MB/s", None, float(course.loads[-1].sum()) / 1e6),
            Row(figure, setting, "shuffles", None, float(course.shuffles)),
            Row(
                figure,
                setting,
                "most subscribers of a broker",
                2000.0 if case.name == "No LB" else None,
                most,
            ),
            Row(
                figure,
                setting,
                "fewest subscribers of a broker",
                500.0 if case.name == "No LB" else None,
                least,
            ),
        ]
        if case.name in ("No LB", "LDM", "GSH", "GSH" + PRINTED):
            rows += _over_time(figure, setting, "MB/s", 1e6, course)
    return rows


def _over_time(figure: str, setting: str, unit: str, scale: float, course: Course) -> list[Row]:
    rows = []
    for minute in MINUTES:
        check = minute * 60 // CHECK_S
        rows.append(Row(figure, f"{setting} minute={minute}", "cov then", None, course.cov(check)))
        for broker, load in enumerate(course.loads[check], 1):
            where = f"{setting} broker={broker} minute={minute}"
            rows.append(Row(figure, where, f"load, {unit}", None, float(load) / scale))
    return rows


def _late(values: np.ndarray) -> np.ndarray:
    return values[LATE_S // CHECK_S :]


def _late_loads(course: Course) -> np.ndarray:
    return _late(course.loads)


def _late_cov(course: Course) -> float:
    return float(np.mean([course.cov(check) for check in range(LATE_S // CHECK_S, len(course.loads))]))


def _balanced_s(course: Course) -> float:
    """From the first migration on; the length of the run if it never was."""
    first = next((check for check, moves in enumerate(course.moves) if moves), 0)
    checks = range(first, len(course.loads))
    return next(((check - first) * CHECK_S for check in checks if course.cov(check) <= 0.16), DURATION_S)
