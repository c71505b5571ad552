"""Delivery logs of an overlay that never ran, in any amount: what `collect` and `report` are measured on.

A binary tree of brokers, publishers at some, subscribers at all; who wants what follows from a seed. Lines
are those of the daemon (daemon/delivery_log.py), paths those of the tree. Copies can be lost and deliveries
doubled on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

START_NS = 1_780_000_000_000_000_000
HOP_US = 400


@dataclass(frozen=True)
class Story:
    events: int  # about so many
    brokers: int = 15
    publishers: int = 12
    clients: int = 40
    seed: int = 1
    rate: float = 5_000.0  # publications a second
    lose: float = 0.0  # share of copies that never arrive
    double: float = 0.0  # share of deliveries that come twice
    segment_lines: int = 200_000


class Overlay:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.chance = Random(story.seed)
        self.parent = [(number - 1) // 2 if number else -1 for number in range(story.brokers)]
        places = [self.chance.randrange(story.brokers) for _ in range(story.clients)]
        self.clients = [
            (f"c{n}", place, self.chance.choice((0.01, 0.05, 0.3))) for n, place in enumerate(places)
        ]
        self.publishers = [(f"p{n}", self.chance.randrange(story.brokers)) for n in range(story.publishers)]

    def neighbours(self, broker: int) -> list[int]:
        below = [child for child in (2 * broker + 1, 2 * broker + 2) if child < self.story.brokers]
        return below if self.parent[broker] < 0 else [self.parent[broker], *below]

    def ways(self, broker: int, came: int, wanted: set[int]) -> list[int]:
        """The neighbours behind which somebody wants it."""
        return [n for n in self.neighbours(broker) if n != came and self._behind(n, broker, wanted)]

    def _behind(self, broker: int, came: int, wanted: set[int]) -> bool:
        stack = [(broker, came)]
        while stack:
            at, before = stack.pop()
            if at in wanted:
                return True
            stack += [(other, at) for other in self.neighbours(at) if other != before]
        return False


def lines(story: Story) -> Iterator[tuple[int, bytes]]:
    """(broker, line), in the order of time at each broker."""
    overlay = Overlay(story)
    chance, choose = overlay.chance, overlay.chance.random
    sequences = [0] * story.publishers
    routes: dict[tuple[int, frozenset[int]], list[tuple[int, int, list[int]]]] = {}
    written = 0
    number = 0
    while written < story.events:
        t_ns = START_NS + int(number / story.rate * 1e9)
        number += 1
        which = chance.randrange(story.publishers)
        sequences[which] += 1
        publisher, source = overlay.publishers[which]
        getters = [(name, place) for name, place, share in overlay.clients if choose() < share]
        for broker, line in _story(overlay, routes, publisher, sequences[which], source, getters, t_ns):
            written += 1
            yield broker, line


def _story(
    overlay: Overlay,
    routes: dict[tuple[int, frozenset[int]], list[tuple[int, int, list[int]]]],
    publisher: str,
    sequence: int,
    source: int,
    getters: list[tuple[str, int]],
    t_ns: int,
) -> Iterator[tuple[int, bytes]]:
    """What one publication leaves in the logs."""
    story, choose = overlay.story, overlay.chance.random
    wanted = frozenset(place for _, place in getters)
    key = (source, wanted)
    if key not in routes:
        if len(routes) > 100_000:
            routes.clear()
        routes[key] = _route(overlay, source, set(wanted))
    slow = 1.0 + overlay.chance.expovariate(2.0)
    gone: set[int] = set()
    for broker, hops, onwards in routes[key]:
        if broker in gone:
            gone.update(onwards)
            continue
        delay_us = int(60 + hops * HOP_US * slow)
        at = t_ns + delay_us * 1000
        told = f'{{"t_ns":{at},"broker":"b{broker + 1}","event":'
        pub = f'"publisher":"{publisher}","seq":{sequence},'
        local = [name for name, place in getters if place == broker]
        if hops == 0:
            yield broker, _line(told, "accept", pub, publisher, "", 0, delay_us, "false")
        for other in onwards:
            pure = "false" if local else "true"
            yield broker, _line(told, "forward", pub, f"b{other + 1}", "", hops, delay_us, pure)
            if story.lose and choose() < story.lose:
                gone.add(other)
        for name in local:
            for _ in range(2 if story.double and choose() < story.double else 1):
                yield broker, _line(told, "deliver", pub, name, "1", hops, delay_us, "false")
        if not local and not onwards:
            yield broker, _line(told, "drop", pub, "", "", hops, delay_us, "false", "no match")


def _line(
    told: str, event: str, pub: str, to: str, ids: str, hops: int, delay_us: int, pure: str, reason: str = ""
) -> bytes:
    return (
        f'{told}"{event}",{pub}"to":"{to}","subscriptions":[{ids}],"hops":{hops},"delay_us":{delay_us},'
        f'"pure":{pure},"reason":"{reason}"}}\n'
    ).encode()


def _route(overlay: Overlay, source: int, wanted: set[int]) -> list[tuple[int, int, list[int]]]:
    """Brokers on the way with their distance and whom they send to, parents before those."""
    found = []
    stack = [(source, -1, 0)]
    while stack:
        broker, came, hops = stack.pop()
        onwards = overlay.ways(broker, came, wanted)
        found.append((broker, hops, onwards))
        stack += [(other, broker, hops + 1) for other in onwards]
    return found


def write(story: Story, directory: Path) -> int:
    """Closed segments at DIRECTORY/bN/state/deliveries; the number of lines."""
    waiting: list[list[bytes]] = [[] for _ in range(story.brokers)]
    segments = [0] * story.brokers
    total = 0

    def close(broker: int) -> None:
        segments[broker] += 1
        name = f"b{broker + 1}"
        place = directory / name / "state" / "deliveries"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}-{segments[broker]:08d}.jsonl").write_bytes(b"".join(waiting[broker]))
        waiting[broker].clear()

    for broker, line in lines(story):
        waiting[broker].append(line)
        total += 1
        if len(waiting[broker]) >= story.segment_lines:
            close(broker)
    for broker in range(story.brokers):
        if waiting[broker]:
            close(broker)
    return total
