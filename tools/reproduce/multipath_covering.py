"""Figure 12: covering against fanout, on 500 brokers with 10,000 subscriptions (C3/DT-C).

Covering sets are made of subscriptions with the same working anchor: more links, more anchors, smaller
groups, less that covers. Of DT-C the paper says that subscriptions cover each other, that generic ones have
fewer predicates, and that a publication matches 4 % of them. Here a subscription asks for one to four of four
attributes, each within an interval; the intervals' mean width is set by the 4 % and by nothing else. A
subscription is matched predicate by predicate until one fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import msgspec
import numpy

from tools.reproduce.multipath_datasets import COVERING
from tools.reproduce.multipath_experiment import CANDIDATES
from tools.reproduce.multipath_mesh import Mesh, Node
from tools.reproduce.multipath_workload import Publication, Tree
from tools.reproduce.row import Row

BROKERS, SUBSCRIPTIONS, MATCHING = 500, 10_000, 0.04
FANOUTS = (5, 10, 15, 20, 25)
ATTRIBUTES = 4
CHUNK = 500
Array = Any  # of numpy


class Subscriptions:
    """Intervals [low, high] by subscription and attribute; what is not asked for is unbounded."""

    def __init__(self, count: int, width: float, seed: int, brokers: int) -> None:
        random = numpy.random.default_rng(seed)
        order = random.random((count, ATTRIBUTES)).argsort(axis=1)
        self.asked = order < random.integers(1, ATTRIBUTES + 1, (count, 1))
        middle, half = random.random((2, count, ATTRIBUTES))
        self.low = numpy.where(self.asked, middle - half * width, -numpy.inf)
        self.high = numpy.where(self.asked, middle + half * width, numpy.inf)
        self.home = random.integers(1, brokers + 1, count)

    def match(self, point: Array) -> tuple[Array, Array]:
        """Which subscriptions match, and how many predicates of each are evaluated."""
        inside = (self.low <= point) & (point <= self.high)
        before = numpy.cumprod(numpy.hstack([numpy.ones((len(inside), 1), bool), inside[:, :-1]]), axis=1)
        return inside.all(axis=1), (before.astype(bool) & self.asked).sum(axis=1)

    def coverings(self) -> tuple[Array, Array]:
        """Pairs (covered, covering); of two that are equal the first covers."""
        covered, covering = [], []
        for start in range(0, len(self.low), CHUNK):
            part = slice(start, start + CHUNK)
            wider = numpy.ones((len(self.low[part]), len(self.low)), bool)
            narrower = wider.copy()
            for a in range(ATTRIBUTES):
                low, high = self.low[part, a, None], self.high[part, a, None]
                wider &= (self.low[:, a] <= low) & (self.high[:, a] >= high)
                narrower &= (self.low[:, a] >= low) & (self.high[:, a] <= high)
            mine, other = numpy.nonzero(wider)
            keep = (other != mine + start) & (~narrower[mine, other] | (other < mine + start))
            covered.append(mine[keep] + start)
            covering.append(other[keep])
        return numpy.concatenate(covered), numpy.concatenate(covering)


def covering_sets(anchors: Array, covered: Array, covering: Array) -> Array:
    """Which subscriptions are left when those are gone that one with the same anchor covers."""
    left = numpy.ones(len(anchors), bool)
    left[covered[anchors[covered] == anchors[covering]]] = False
    return left


def calibrate_width(count: int, seed: int) -> float:
    """By bisection, over publications spread evenly."""
    points = numpy.random.default_rng(seed + 1).random((200, ATTRIBUTES))
    low, high = 0.0, 1.0
    for _ in range(14):
        width = (low + high) / 2
        subscriptions = Subscriptions(count, width, seed, 1)
        if numpy.mean([subscriptions.match(point)[0].mean() for point in points]) < MATCHING:
            low = width
        else:
            high = width
    return width


class Covered(msgspec.Struct):
    fanout: int
    size: float  # subscriptions in a broker's covering sets
    evaluations: float  # predicates evaluated for a publication at a broker
    links: float  # soft ones, a broker
    groups: float  # working anchors, a broker


def measure(
    fanout: int, brokers: int, count: int, width: float, rounds: int, per_round: int, seed: int
) -> Covered:
    """The mesh that S2 grows; then every broker's covering sets, and publications matched against them."""
    subscriptions = Subscriptions(count, width, seed, brokers)
    points = numpy.random.default_rng(seed + 2).random((rounds + 1, per_round, ATTRIBUTES))
    random = Random(f"sources {seed}")
    mesh = Mesh(Tree(brokers), "S2")
    for batch in points[:-1]:
        for point in batch:
            for _ in mesh.visits(_publication(subscriptions, point, random.randint(1, brokers))):
                pass
        mesh.choose_links(fanout, fanout + CANDIDATES)
    pairs = subscriptions.coverings()
    anchors = {broker: _anchors(node, subscriptions.home) for broker, node in mesh.nodes.items()}
    left = {broker: covering_sets(found, *pairs) for broker, found in anchors.items()}
    evaluated = []
    for point in points[-1]:
        cost = subscriptions.match(point)[1]
        publication = _publication(subscriptions, point, random.randint(1, brokers))
        evaluated += [cost[left[broker]].sum() for broker, *_ in mesh.visits(publication)]
    return Covered(
        fanout,
        float(numpy.mean([kept.sum() for kept in left.values()])),
        float(numpy.mean(evaluated)),
        sum(len(node.soft) for node in mesh.nodes.values()) / brokers,
        float(numpy.mean([len(numpy.unique(found)) for found in anchors.values()])),
    )


def _publication(subscriptions: Subscriptions, point: Array, source: int) -> Publication:
    homes = {int(home) for home in subscriptions.home[subscriptions.match(point)[0]]}
    return Publication(source, frozenset(homes - {source}))


def _anchors(node: Node, homes: Array) -> Array:
    """The working anchor of each subscription, by its place on the map; -1: at home here."""
    return numpy.array(node.hop)[homes]


def covering_rows(found: Iterable[Covered]) -> Iterator[Row]:
    first: Covered | None = None
    for one in found:
        first = first or one
        setting = f"C3/DT-C fanout={one.fanout}"
        for metric, value, base in (
            ("covering set size", one.size, first.size),
            ("predicate evaluations", one.evaluations, first.evaluations),
        ):
            paper = COVERING[metric].get(one.fanout)
            name = f"{metric}, per cent of fanout {first.fanout}"
            yield Row("12", setting, name, paper, 100 * value / base, f"{value:.0f}")
        yield Row("12", setting, "soft links a broker", None, one.links)
        yield Row("12", setting, "working anchors a broker", None, one.groups)
