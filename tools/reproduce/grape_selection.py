"""GRAPE's selection by itself, on a random overlay with subscribers at every broker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import NamedTuple

from bitarray import bitarray

from overlay.relocate.selection import Evaluation, Node, relocation_target


class Evaluated(NamedTuple):
    whole_ms: float
    longest_ms: float  # of the pieces between which a broker does other things
    pieces: int


def evaluate_random(seed: int, brokers: int, clock: Callable[[], float]) -> Evaluated:
    evaluation = Evaluation(random_nodes(seed, brokers), 1)
    marks, more = [clock()], True
    while more:
        more = evaluation.step()
        marks.append(clock())
    relocation_target(evaluation.candidates, 1, "delay", 1.0)
    marks.append(clock())
    pieces = [1000 * (end - begin) for begin, end in pairwise(marks)]
    return Evaluated(sum(pieces), max(pieces), len(pieces))


def random_nodes(seed: int, brokers: int) -> dict[int, Node]:
    random = Random(seed)
    neighbours: dict[int, list[int]] = {1: []}
    for broker in range(2, brokers + 1):
        parent = broker // 2
        neighbours[broker] = [parent]
        neighbours[parent].append(broker)
    return {
        broker: Node(
            broker,
            bitarray([random.random() < 0.3 for _ in range(100)]),
            random.randint(1, 500),
            {other: random.random() for other in around},
            random.random(),
        )
        for broker, around in neighbours.items()
    }
