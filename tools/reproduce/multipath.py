"""`pubctl reproduce multipath`: the figures of the soft links' paper (see docs/papers/multipath.md).

The workload is calibrated on S0's deliveries and yield and then frozen. S1, S2 and SH run as printed, without
an order promise; SD stands beside them. A run is ten minutes of 3,600 publications a minute with a round of
links every 20 seconds, beginning without soft links; "settled" rows look at the last third of it. With wall
posts in the data directory there is DT-FB as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tools.reproduce import multipath_covering as covering
from tools.reproduce.multipath_datasets import (
    CALIBRATED,
    DATASETS,
    FANOUTS,
    SWEPT,
    WALL,
    dataset_of,
)
from tools.reproduce.multipath_experiment import Make, Outcome, experiment
from tools.reproduce.multipath_fanout import Swept, fanout_rows, sweep
from tools.reproduce.multipath_pictures import draw
from tools.reproduce.multipath_rows import rows_of
from tools.reproduce.multipath_wall import FILE, WallWorkload, read_posts
from tools.reproduce.multipath_workload import Tree, Workload, calibrate, scaled_to
from tools.reproduce.row import Row

STRATEGIES = ("S0", "S1", "S2", "SH", "SD")
SEED = 1
SAMPLE = 1500
Tell = Callable[[int, int], None]
__all__ = ["draw", "reproduce"]


class Size(NamedTuple):
    share: float  # of the publications
    swept: tuple[str, ...]
    swept_share: float
    fanouts: tuple[int, ...]
    covering_fanouts: tuple[int, ...]
    covering_brokers: int
    covering_rounds: int
    covering_round: int  # publications


FULL = Size(1.0, SWEPT, 0.25, FANOUTS, covering.FANOUTS, covering.BROKERS, 12, 300)
QUICK = Size(0.1, ("C1/DT1",), 0.1, (5, 35), (5, 10, 25), 120, 12, 20)


def reproduce(
    quick: bool, data: Path | None, jobs: int, tell: Tell = lambda done, of: None, others: bool = True
) -> list[Row]:
    """Without `others` C1/DT1 and C1/DT2 alone."""
    size = QUICK if quick else FULL
    with ProcessPoolExecutor(jobs) as pool:
        makers = freeze(pool, DATASETS if others else CALIBRATED)
        if others and data is not None and (data / FILE).is_file():
            makers[WALL] = partial(WallWorkload, posts=read_posts(data), seed=SEED)
        cases = {
            (name, strategy): pool.submit(experiment, dataset_of(name), strategy, make, size.share)
            for name, make in makers.items()
            for strategy in STRATEGIES
        }
        swept = [
            pool.submit(sweep, name, DATASETS[name], fanout, makers[name], size.swept_share)
            for name in (size.swept if others else ())
            for fanout in size.fanouts
        ]
        covered = submit_covering(pool, size) if others else []
        _wait([*cases.values(), *swept, *covered], tell)
    done = {case: future.result() for case, future in cases.items()}
    return [
        *rows_of(done),
        *fanout_rows(future.result() for future in swept),
        *covering.covering_rows(future.result() for future in covered),
    ]


def freeze(pool: ProcessPoolExecutor, names: Iterable[str]) -> dict[str, Make]:
    """The two free numbers of each workload: by S0's figures, or its like's exponent and its deliveries."""
    found = dict(zip(CALIBRATED, pool.map(_calibrated, CALIBRATED)))
    exponents = {name: exponent for name, (_, exponent) in found.items()}
    others = [name for name in names if name not in found]
    found |= zip(others, pool.map(_scaled, others, [exponents[DATASETS[name].like] for name in others]))
    return {
        name: partial(Workload, scale=scale, exponent=exponent, seed=SEED)
        for name, (scale, exponent) in found.items()
    }


def _calibrated(name: str) -> tuple[float, float]:
    dataset = DATASETS[name]
    assert dataset.percent is not None, name
    workload = calibrate(Tree(dataset.brokers), dataset.deliveries, dataset.percent, SEED, SAMPLE)
    return workload.scale, workload.exponent


def _scaled(name: str, exponent: float) -> tuple[float, float]:
    dataset = DATASETS[name]
    workload = scaled_to(Tree(dataset.brokers), dataset.deliveries, exponent, SEED, SAMPLE)
    return workload.scale, workload.exponent


def submit_covering(pool: ProcessPoolExecutor, size: Size) -> list[Future[covering.Covered]]:
    """Subscriptions for each broker stay as many."""
    brokers = size.covering_brokers
    count = covering.SUBSCRIPTIONS * brokers // covering.BROKERS
    width = covering.calibrate_width(count, SEED)
    return [
        pool.submit(
            covering.measure, fanout, brokers, count, width, size.covering_rounds, size.covering_round, SEED
        )
        for fanout in size.covering_fanouts
    ]


def _wait(futures: list[Future[Outcome] | Future[Swept] | Future[covering.Covered]], tell: Tell) -> None:
    for number, _ in enumerate(as_completed(futures), 1):
        tell(number, len(futures))
