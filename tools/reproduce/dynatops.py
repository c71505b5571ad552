"""`pubctl reproduce dynatops`: the figures of the DYNATOPS paper (docs/papers/dynatops.md explains them).

The systems are models over the product's own decisions: topics and placement, trees of the ring, notification
cost and the greedy searches. The full form is the whole 100 hours with 50,000 users over five seeds, and the
location model over five; with a file of check-ins in the data directory users move as in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tools.reproduce import dynatops_location as location
from tools.reproduce import dynatops_poisson as poisson
from tools.reproduce import dynatops_searches as searches
from tools.reproduce.dynatops_pictures import draw
from tools.reproduce.dynatops_rows import Done, rows
from tools.reproduce.row import Row

__all__ = ["draw", "reproduce"]

SEEDS = 5
RATES = (0.025, 0.05, 0.1, 0.2)
FREE_H = (2, 5, 20, 50)
CLUSTERS = (2, 5, 20, 50)
SIZES = ((10, 100), (100, 100), (1000, 100), (100, 50), (100, 500), (100, 5000))
Tell = Callable[[int, int], None]
Setting = poisson.Setting | location.Setting | searches.Setting


def reproduce(quick: bool, data: Path | None, jobs: int, tell: Tell = lambda done, of: None) -> list[Row]:
    plan = list(dict.fromkeys(_quick() if quick else _full()))
    done = Done()
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(_one, setting, data): setting for setting in plan}
        for number, future in enumerate(as_completed(waiting), 1):
            _keep(done, waiting[future], future.result())
            tell(number, len(plan))
    return rows(_in_order(done, plan))


def _full() -> Iterator[Setting]:
    for seed in range(1, SEEDS + 1):
        for pattern in "UZ":
            yield poisson.Setting(pattern, seed=seed)
        for rate in RATES:
            yield poisson.Setting("M", rate, seed=seed)
        yield location.Setting(seed=seed)
    for pattern in "MZU":
        yield poisson.Setting(pattern, whole=False)
    for free_h in FREE_H:
        yield poisson.Setting("M", 0.025, free_h, tco_every_h=0)
    for cluster in CLUSTERS:
        yield location.Setting(cluster)
    for cluster in (10, 50):
        yield location.Setting(cluster, load_weight=1.0)
    for brokers, topics in SIZES:
        for pattern in "UM":
            for patience in (1, 10):
                yield searches.Setting(brokers, topics, pattern, patience)


def _quick() -> Iterator[Setting]:
    for pattern in "MZU":
        yield poisson.Setting(pattern, hours=12)
    for seed in (1, 2):
        yield location.Setting(seed=seed, users=2000)
    yield location.Setting(50, users=2000)
    for brokers, topics in SIZES[:2]:
        for pattern in "UM":
            yield searches.Setting(brokers, topics, pattern, 10)


def _one(setting: Setting, data: Path | None) -> object:
    if isinstance(setting, poisson.Setting):
        return poisson.run(setting)
    return location.run(setting, data) if isinstance(setting, location.Setting) else searches.run(setting)


def _keep(done: Done, setting: Setting, outcome: object) -> None:
    tables: dict[type, dict] = {  # type: ignore[type-arg]
        poisson.Setting: done.poisson,
        location.Setting: done.location,
        searches.Setting: done.searches,
    }
    tables[type(setting)][setting] = outcome


def _in_order(done: Done, plan: list[Setting]) -> Done:
    """Processes end in any order, rows do not depend on it."""
    found = Done()
    for setting in plan:
        for table in (done.poisson, done.location, done.searches):
            if setting in table:
                _keep(found, setting, table[setting])  # type: ignore[index]
    return found
