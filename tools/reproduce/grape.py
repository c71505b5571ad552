"""`pubctl reproduce grape`: the figures of the POP and GRAPE paper (docs/papers/pop-grape.md explains them).

Each setting is an experiment of its own with the same map of hosts, the same quotes and, for one X, the same
clients, so that algorithms are compared on one case. Reductions are against the baseline of the same X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean
from time import perf_counter

import msgspec

from overlay.settings import RelocationSettings
from tools.reproduce.grape_experiment import Experiment, Outcome, Setting
from tools.reproduce.quotes import symbols
from tools.reproduce.row import Row

ALGORITHMS: dict[str, RelocationSettings | None] = {
    "baseline": None,
    "POP": RelocationSettings("pop"),
    "load100": RelocationSettings("grape", "load"),
    "delay100": RelocationSettings("grape", "delay"),
}
METRICS = {
    "5a": ("message_rate", "messages/s per broker"),
    "5b": ("input_utilisation", "share of the time"),
    "5c": ("delay_ms", "delay in ms"),
    "5d": ("hops", "hops"),
    "5f": ("overhead", "control per publication message"),
}
# (metric, algorithm) -> the paper's reduction in per cent at its best
HEADLINES = {
    ("message_rate", "load100"): 84.0,
    ("input_utilisation", "load100"): 68.0,
    ("delay_ms", "delay100"): 68.0,
    ("message_rate", "POP"): 85.0,
    ("input_utilisation", "POP"): 64.0,
    ("delay_ms", "POP"): 63.0,
}
WEIGHTS = (1.0, 25.0, 50.0, 75.0, 100.0)
Done = dict[tuple[str, str, int], Outcome]  # (workload, name, X)
Tell = Callable[[int, int], None]


def reproduce(quick: bool, data: Path | None, jobs: int, tell: Tell = lambda done, of: None) -> list[Row]:
    settings = list(planned(quick))
    done: Done = {}
    for setting, outcome in _run(settings, data, jobs):
        done[setting.workload, setting.name, setting.holders] = outcome
        tell(len(done), len(settings))
    return [*curves(done), *headlines(done), *random_rows(done), *sweeps(done), *waits(done), *selection()]


def planned(quick: bool) -> Iterator[Setting]:
    size = {"publishers": 8, "measured_s": 30.0} if quick else {}
    for holders in (1, 4, 16) if quick else range(1, 64):
        for name, relocation in ALGORITHMS.items():
            yield _setting(name, holders, "clustered", relocation, quick, size)
    for holders in (16,) if quick else (4, 8, 16, 32, 63):
        for name, relocation in ALGORITHMS.items():
            yield _setting(name, holders, "random", relocation, quick, size)
    for weight in (1.0,) if quick else WEIGHTS[:-1]:
        for priority in ("load", "delay"):
            relocation = RelocationSettings("grape", priority, weight)
            yield _setting(f"{priority}{weight:.0f}", 16, "clustered", relocation, quick, size)
    for threshold in (10,) if quick else (10, 50, 200, 400):
        grape = RelocationSettings("grape", threshold=threshold)
        yield _setting(f"G_threshold={threshold}", 16, "clustered", grape, quick, size)
        pop = RelocationSettings("pop", threshold=threshold, traces_max=max(threshold // 2, 1))
        yield _setting(f"P_threshold={threshold}", 16, "clustered", pop, quick, size)


def _setting(
    name: str,
    holders: int,
    workload: str,
    relocation: RelocationSettings | None,
    quick: bool,
    size: dict[str, float],
) -> Setting:
    """Nobody moves in the baseline, so it needs no time to come to rest; POP needs most."""
    seconds = 40.0 if relocation is None else 130.0 if relocation.algorithm == "grape" else 300.0
    if not quick:
        seconds = 90.0 if relocation is None else 1080.0
    setting = Setting(name, holders, workload, relocation, seconds=seconds)
    return msgspec.structs.replace(setting, **size)


def _run(settings: list[Setting], data: Path | None, jobs: int) -> Iterator[tuple[Setting, Outcome]]:
    run = partial(one, data)
    if jobs == 1:
        yield from zip(settings, map(run, settings))
    else:
        with ProcessPoolExecutor(jobs) as pool:
            yield from zip(settings, pool.map(run, settings))


def one(data: Path | None, setting: Setting) -> Outcome:
    quotes = symbols(data, Random("quotes"), setting.publishers)
    return Experiment(setting, quotes, data).run()


# --- rows --------------------------------------------------------------------------------------------------


def curves(done: Done) -> Iterator[Row]:
    """Figures 5a to 5d and 5f: every X, every algorithm."""
    for (workload, name, holders), outcome in done.items():
        if workload == "clustered" and name in ALGORITHMS:
            for figure, (metric, unit) in METRICS.items():
                yield Row(figure, f"{name} X={holders}", metric, None, getattr(outcome, metric), unit)


def reductions(done: Done, metric: str, name: str) -> dict[int, float]:
    found = {}
    for (workload, algorithm, holders), outcome in done.items():
        if workload == "clustered" and algorithm == name:
            before = getattr(done[workload, "baseline", holders], metric)
            found[holders] = 100.0 * (1.0 - getattr(outcome, metric) / before)
    return found


def headlines(done: Done) -> Iterator[Row]:
    for (metric, name), paper in HEADLINES.items():
        by_x = reductions(done, metric, name)
        best = max(by_x, key=lambda holders: by_x[holders])
        note = f"reduction in per cent against the baseline, at X={best}"
        yield Row("headline", name, metric, paper, by_x[best], note)
    for name, paper in (("load100", 16.0), ("delay100", 16.0), ("POP", 32.0)):
        worst = max(o.overhead for (w, n, _), o in done.items() if (w, n) == ("clustered", name))
        yield Row("headline", name, "overhead", paper, 100.0 * worst, "per cent, the worst X")


def random_rows(done: Done) -> Iterator[Row]:
    """Figure 5g and the text on the random workload."""
    for (workload, name, holders), outcome in done.items():
        if workload != "random":
            continue
        for figure, (metric, unit) in METRICS.items():
            figure = "5g" if metric == "delay_ms" else f"{figure} random"
            yield Row(figure, f"{name} X={holders}", metric, None, getattr(outcome, metric), unit)
        if name == "load100":
            pop = done[workload, "POP", holders]
            fewer = 100.0 * (1.0 - outcome.control_messages / max(pop.control_messages, 1))
            note = "control messages below POP's, in per cent"
            yield Row("5g", f"random X={holders}", "control_messages", 91.0, fewer, note)


def sweeps(done: Done) -> Iterator[Row]:
    """Figure 5h (weights) and 6d to 6h (thresholds), at X = 16."""
    for (workload, name, holders), outcome in done.items():
        if workload != "clustered" or name in ("baseline", "POP") or holders != 16:
            continue
        if "threshold" in name:
            figure = "6h" if name.startswith("P") else "6d-6g"
        else:
            figure = "5h"
        for metric in ("delay_ms", "hops", "message_rate", "overhead"):
            yield Row(figure, f"{name} X={holders}", metric, None, getattr(outcome, metric))


def waits(done: Done) -> Iterator[Row]:
    """Figure 6c: how long publishers were held back, by the length of the path."""
    by_hops: dict[int, list[float]] = {}
    for outcome in done.values():
        for hops, pause_s in outcome.pauses:
            by_hops.setdefault(hops, []).append(pause_s)
    for hops, pauses in sorted(by_hops.items()):
        limit = 5.0 if hops == 10 else None
        note = f"seconds, mean of {len(pauses)} moves"
        yield Row("6c", f"{hops} hops", "publisher_wait_s", limit, mean(pauses), note)


def selection() -> Iterator[Row]:
    """4.2: the computation alone, subscribers on all 63 brokers."""
    from tools.reproduce.grape_selection import evaluate_random

    for brokers, paper in ((63, 70.0), (1_000, None)):
        taken = []
        for seed in range(5):
            began = perf_counter()
            evaluate_random(seed, brokers)
            taken.append(1000 * (perf_counter() - began))
        yield Row("4.2", f"{brokers} brokers", "selection_ms", paper, min(taken), "computation, best of 5")
