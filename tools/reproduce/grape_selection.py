"""GRAPE's selection by itself, on a random overlay with subscribers at every broker."""

from __future__ import annotations

from random import Random

from bitarray import bitarray

from overlay.relocate.selection import Evaluation, Node, relocation_target


def evaluate_random(seed: int, brokers: int) -> int:
    random = Random(seed)
    neighbours: dict[int, list[int]] = {1: []}
    for broker in range(2, brokers + 1):
        parent = broker // 2
        neighbours[broker] = [parent]
        neighbours[parent].append(broker)
    nodes = {
        broker: Node(
            broker,
            bitarray([random.random() < 0.3 for _ in range(100)]),
            random.randint(1, 500),
            {other: random.random() for other in around},
            random.random(),
        )
        for broker, around in neighbours.items()
    }
    return relocation_target(Evaluation(nodes, 1).run(), 1, "delay", 1.0)
