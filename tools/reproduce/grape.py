"""`pubctl reproduce grape`: the figures of the POP and GRAPE paper (docs/papers/pop-grape.md explains them).

Each setting is an experiment of its own with the same map of hosts, the same quotes and, for one X, the same
clients, so that algorithms are compared on one case. Reductions are against the baseline of the same X. All
curves are counted (grape_counted); at a few X everything is sent too (grape_experiment), for what needs time
and memory, and to hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from random import Random

from msgspec.structs import replace

from overlay.settings import RelocationSettings
from tools.reproduce.grape_counted import counted
from tools.reproduce.grape_experiment import Experiment, Outcome
from tools.reproduce.grape_pictures import draw
from tools.reproduce.grape_placing import Setting
from tools.reproduce.grape_rows import SWEPT, Done, rows
from tools.reproduce.kept import Kept
from tools.reproduce.quotes import Symbol, symbols
from tools.reproduce.row import Row

__all__ = ["draw", "reproduce"]

ALGORITHMS: dict[str, RelocationSettings | None] = {
    "baseline": None,
    "POP": RelocationSettings("pop"),
    "load100": RelocationSettings("grape", "load"),
    "delay100": RelocationSettings("grape", "delay"),
}
WEIGHTS = (1.0, 25.0, 50.0, 75.0, 100.0)
SECONDS, MEASURED_S = 1080.0, 300.0  # the paper reads its values after 18 minutes
SIMULATED = (1, SWEPT, 63)
FEW = 8  # publishers of a quick run
# An algorithm's time to come to rest where everything is sent, and what is measured after it.
SENT_S = {"off": (40.0, 30.0), "grape": (160.0, 60.0), "pop": (360.0, 60.0)}
Tell = Callable[[int, int], None]
Part = str  # clustered, random; simulated, and counted as long: matched


def reproduce(
    quick: bool,
    data: Path | None,
    jobs: int,
    tell: Tell = lambda done, of: None,
    keep: Path | None = None,
) -> list[Row]:
    """With `keep`, what was measured before is taken from there."""
    kept = Kept(keep, data is not None)
    plan = list(planned(quick))
    outcomes = {setting: kept.find(setting) for _, setting in plan}
    missing = [setting for setting, outcome in outcomes.items() if outcome is None]
    for number, (setting, outcome) in enumerate(_run(missing, data, jobs), len(outcomes) - len(missing) + 1):
        kept.add(setting, outcome)
        outcomes[setting] = outcome
        tell(number, len(outcomes))
    done: Done = {(part, s.name, s.holders): o for part, s in plan if (o := outcomes[s]) is not None}
    return rows(done)


def planned(few: bool) -> Iterator[tuple[Part, Setting]]:
    publishers = FEW if few else 40
    whole = partial(Setting, publishers=publishers, seconds=SECONDS, measured_s=MEASURED_S, counted=True)
    for holders in SIMULATED[1:2] if few else SIMULATED:
        for name, relocation in ALGORITHMS.items():
            sent = _sent(name, holders, relocation, publishers)
            yield "simulated", sent
            yield "matched", replace(sent, counted=True)
    for holders in (1, 4, 16) if few else range(1, 64):
        for name, relocation in ALGORITHMS.items():
            yield "clustered", whole(name, holders, "clustered", relocation)
    for holders in (16,) if few else (4, 8, 16, 32, 63):
        for name, relocation in ALGORITHMS.items():
            yield "random", whole(name, holders, "random", relocation)
    for weight in (1.0,) if few else WEIGHTS[:-1]:
        for priority in ("load", "delay"):
            relocation = RelocationSettings("grape", priority, weight)
            yield "clustered", whole(f"{priority}{weight:.0f}", SWEPT, "clustered", relocation)
    for threshold in (10,) if few else (10, 50, 200, 400):
        grape = RelocationSettings("grape", threshold=threshold)
        yield "clustered", whole(f"G_threshold={threshold}", SWEPT, "clustered", grape)
        pop = RelocationSettings("pop", threshold=threshold, traces_max=max(threshold // 2, 1))
        yield "clustered", whole(f"P_threshold={threshold}", SWEPT, "clustered", pop)


def _sent(name: str, holders: int, relocation: RelocationSettings | None, publishers: int) -> Setting:
    seconds, measured_s = SENT_S["off" if relocation is None else relocation.algorithm]
    return Setting(
        name, holders, "clustered", relocation, publishers=publishers, seconds=seconds, measured_s=measured_s
    )


def _run(settings: list[Setting], data: Path | None, jobs: int) -> Iterator[tuple[Setting, Outcome]]:
    run = partial(one, data)
    if jobs == 1:
        yield from zip(settings, map(run, settings))
    else:
        with ProcessPoolExecutor(jobs) as pool:
            yield from zip(settings, pool.map(run, settings))


def one(data: Path | None, setting: Setting) -> Outcome:
    quotes = _quotes(data, setting.publishers)
    if setting.counted:
        return counted(setting, quotes, data)
    return Experiment(setting, quotes, data).run()


@cache
def _quotes(data: Path | None, count: int) -> list[Symbol]:
    return symbols(data, Random("quotes"), count)
