"""BlueDove's workload (IV-B): subscriptions around a hot spot in each dimension, messages as points.

* Four dimensions of length 1000, predicates 250 wide, placed by a cropped normal; the hot spots of the
  dimensions spread evenly over the range. The stated 2.7 times the mean density at a hot spot fits one at the
  *edge* of the range, not in its middle; `hot_spot_density` says what each gives.
* `overlap`: a copy at every matcher whose segment the predicate meets, as III-A says. `one`: one copy in each
  dimension, at the owner of the predicate's middle: not what the text says, but what its figures look like.
* A world is what a cluster simulation needs: candidates of each message of a pool, sizes of the sets,
  matches.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.onehop.segments import Candidate

LENGTH = 1000.0
DIMENSIONS = 4
SUBSCRIPTIONS = 40_000
WIDTH = 250.0
SD = 250.0
POOL = 20_000
Placement = Literal["one", "overlap"]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Workload(NamedTuple):
    middle: Floats  # of every subscription's predicates, by dimension
    low: Floats
    high: Floats
    messages: Floats


class World(NamedTuple):
    candidates: list[list[Candidate]]  # of each message of the pool
    sizes: Floats  # dimensions x matchers
    matches: Floats  # of each message
    subscriptions: int

    @property
    def matchers(self) -> int:
        return int(self.sizes.shape[1])


def hot_spots(where: str = "even") -> list[float]:
    if where == "edge":
        return [LENGTH * place / (DIMENSIONS - 1) for place in range(DIMENSIONS)]
    return [LENGTH * (place + 0.5) / DIMENSIONS for place in range(DIMENSIONS)]


def cropped_normal(chance: Any, spot: float, sd: float, count: int) -> Floats:
    found = np.empty(0)
    while len(found) < count:
        drawn = chance.normal(spot, sd, 4 * count)
        found = np.concatenate((found, drawn[(drawn >= 0) & (drawn <= LENGTH)]))
    return found[:count]


def workload(
    count: int = SUBSCRIPTIONS,
    width: float = WIDTH,
    sd: float = SD,
    skewed: int = 0,
    where: str = "even",
    pool: int = POOL,
    seed: int = 1,
) -> Workload:
    """`skewed`: on so many dimensions the messages are placed as the subscriptions are (IV-F)."""
    chance = np.random.default_rng(seed)
    middle = np.stack([cropped_normal(chance, spot, sd, count) for spot in hot_spots(where)], 1)
    messages = chance.uniform(0, LENGTH, (pool, DIMENSIONS))
    for dimension, spot in enumerate(hot_spots(where)[:skewed]):
        messages[:, dimension] = cropped_normal(chance, spot, sd, pool)
    low, high = middle - width / 2, middle + width / 2
    return Workload(middle, low.clip(0, LENGTH), high.clip(0, LENGTH), messages)


def equal_edges(matchers: int) -> Floats:
    return np.linspace(0, LENGTH, matchers + 1)[1:-1]


def set_sizes(load: Workload, dimension: int, edges: Floats, placement: Placement) -> Floats:
    """Subscriptions in each segment of one dimension."""
    low, high = load.low[:, dimension], load.high[:, dimension]
    if placement == "one":
        places = np.searchsorted(edges, load.middle[:, dimension], "right")
        return np.bincount(places, minlength=len(edges) + 1).astype(float)
    starts = np.concatenate(([-np.inf], edges))
    ends = np.concatenate((edges, [np.inf]))
    # Those that begin before a segment ends, less those that end before it begins.
    begun = np.searchsorted(np.sort(low), ends, "left")
    ended = np.searchsorted(np.sort(high), starts, "right")
    return (begun - ended).astype(np.float64)


def count_matches(load: Workload, sample: int = 4000) -> Floats:
    """Of each message, counted over a sample of the subscriptions."""
    step = max(1, len(load.low) // sample)
    low, high = load.low[::step].astype(np.float32), load.high[::step].astype(np.float32)
    found = np.zeros(len(load.messages))
    for start in range(0, len(found), 500):
        points = load.messages[start : start + 500, None, :].astype(np.float32)
        found[start : start + 500] = ((low <= points) & (points < high)).all(2).sum(1)
    return found * (len(load.low) / len(low))


def world(
    load: Workload,
    matchers: int,
    placement: Placement,
    dimensions: int = DIMENSIONS,
    matches: bool = False,
) -> World:
    """Equal widths, the owner of the nth segment is the nth matcher in every dimension."""
    edges = equal_edges(matchers)
    sizes = np.stack([set_sizes(load, d, edges, placement) for d in range(dimensions)])
    owners = np.searchsorted(edges, load.messages[:, :dimensions], "right")
    known = [[Candidate(m, d) for m in range(matchers)] for d in range(dimensions)]
    found = [[known[d][m] for d, m in enumerate(row)] for row in owners.tolist()]
    counted = count_matches(load) if matches else np.zeros(len(found))
    return World(found, sizes, counted, len(load.low))


def first_dimension(some: World) -> World:
    """P2P: a DHT over one dimension (IV-B)."""
    return World([one[:1] for one in some.candidates], some.sizes[:1], some.matches, some.subscriptions)


def full_replication(some: World) -> World:
    """Every set is everything, and any matcher will do (IV-B)."""
    everyone = [Candidate(matcher, 0) for matcher in range(some.matchers)]
    sizes = np.full((1, some.matchers), float(some.subscriptions))
    return World([everyone] * len(some.candidates), sizes, some.matches, some.subscriptions)


def scaled(some: World, share: float) -> World:
    """The same with so many times the subscriptions."""
    return some._replace(
        sizes=some.sizes * share,
        matches=some.matches * share,
        subscriptions=round(some.subscriptions * share),
    )


def hot_spot_density(sd: float, where: str, segments: int = 20) -> float:
    """Predicates' middles in the fullest of the segments of a dimension, over the mean; the largest one."""
    load = workload(sd=sd, where=where, width=0.0, pool=1)
    edges = equal_edges(segments)
    sizes = [set_sizes(load, d, edges, "one") for d in range(DIMENSIONS)]
    return float(max(of.max() / of.mean() for of in sizes))


def alone_share(width: float, placement: Placement, matchers: int = 20) -> float:
    """Of the subscriptions, those whose copies of all dimensions lie on one matcher (III-A)."""
    load, edges = workload(1_000_000, width, pool=1), equal_edges(matchers)
    low, high = (load.middle, load.middle) if placement == "one" else (load.low, load.high)
    first, last = np.searchsorted(edges, low, "right"), np.searchsorted(edges, high, "left")
    last = np.maximum(first, last)  # a point on an edge lies in the segment that begins there
    return float(((first == last) & (first == first[:, :1])).all(1).mean())
