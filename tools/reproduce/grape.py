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

from overlay.settings import RelocationSettings
from tools.reproduce.grape_experiment import Experiment, Outcome, Setting
from tools.reproduce.grape_pictures import draw
from tools.reproduce.grape_rows import SWEPT, Done, rows
from tools.reproduce.kept import Kept
from tools.reproduce.quotes import symbols
from tools.reproduce.row import Row

__all__ = ["draw", "reproduce"]

ALGORITHMS: dict[str, RelocationSettings | None] = {
    "baseline": None,
    "POP": RelocationSettings("pop"),
    "load100": RelocationSettings("grape", "load"),
    "delay100": RelocationSettings("grape", "delay"),
}
WEIGHTS = (1.0, 25.0, 50.0, 75.0, 100.0)
Tell = Callable[[int, int], None]


def reproduce(
    quick: bool,
    data: Path | None,
    jobs: int,
    tell: Tell = lambda done, of: None,
    keep: Path | None = None,
    small: bool = False,
) -> list[Row]:
    """`small`: every setting, each as small and short as the few of `quick`. With `keep`, what was measured
    before is taken from there."""
    kept = Kept(keep, data is not None)
    settings = list(planned(quick, small))
    outcomes = {setting: kept.find(setting) for setting in settings}
    missing = [setting for setting in settings if outcomes[setting] is None]
    for number, (setting, outcome) in enumerate(_run(missing, data, jobs), len(settings) - len(missing) + 1):
        kept.add(setting, outcome)
        outcomes[setting] = outcome
        tell(number, len(settings))
    done: Done = {(s.workload, s.name, s.holders): o for s, o in outcomes.items() if o is not None}
    return rows(done)


def planned(few: bool, small: bool = False) -> Iterator[Setting]:
    setting = partial(_setting, few or small)
    for holders in (1, 4, 16) if few else range(1, 64):
        for name, relocation in ALGORITHMS.items():
            yield setting(name, holders, "clustered", relocation)
    for holders in (16,) if few else (4, 8, 16, 32, 63):
        for name, relocation in ALGORITHMS.items():
            yield setting(name, holders, "random", relocation)
    for weight in (1.0,) if few else WEIGHTS[:-1]:
        for priority in ("load", "delay"):
            relocation = RelocationSettings("grape", priority, weight)
            yield setting(f"{priority}{weight:.0f}", SWEPT, "clustered", relocation)
    for threshold in (10,) if few else (10, 50, 200, 400):
        grape = RelocationSettings("grape", threshold=threshold)
        yield setting(f"G_threshold={threshold}", SWEPT, "clustered", grape)
        pop = RelocationSettings("pop", threshold=threshold, traces_max=max(threshold // 2, 1))
        yield setting(f"P_threshold={threshold}", SWEPT, "clustered", pop)


def _setting(
    small: bool, name: str, holders: int, workload: str, relocation: RelocationSettings | None
) -> Setting:
    """The paper reads its values after 18 minutes. Nobody moves in the baseline, so it needs no time to come
    to rest; POP needs most, and more with a larger threshold."""
    if not small:
        return Setting(name, holders, workload, relocation, seconds=90.0 if relocation is None else 1080.0)
    seconds = 40.0
    if relocation is not None:
        least = 130.0 if relocation.algorithm == "grape" else 300.0
        seconds = max(least, 60.0 + relocation.threshold)
    return Setting(name, holders, workload, relocation, publishers=8, seconds=seconds, measured_s=30.0)


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
