"""`python -m bench.pauses`: how long a publisher is held back while it moves, by the length of the path.

    python -m bench.pauses [--hops 10] [--rounds 5] [--rate 200] [-o json|table]

A chain of real daemons with a subscriber at its head, which checks that it gets everything once and in order.
A publisher is moved away from it to the n-th broker and back, for every n, some rounds. The pause is what the
client's session measured: from when it stops publishing to the word that it may go on. On the way back it
holds the time in which the last publications settle over these n hops. The line is the least-squares fit over
all pauses; what is left of it at no hops is the time of the client's own exchanges.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import correlation, linear_regression, median
from threading import Event, Thread
from typing import Any

import grapevine
from bench.broker import machine
from bench.latency import show
from bench.running import say
from bench.systems.grapevine import Grapevine
from tools.pubctl.channel import Channel

SCHEMA = "bench.pauses/1"
ATTEMPT_S = 0.02
MOVE_S = 20.0


class Publisher(Thread):
    """Publishes at a steady rate until it is told to stop."""

    def __init__(self, address: str, keys: Path, rate_s: float) -> None:
        super().__init__(daemon=True)
        self.client = grapevine.connect(address, name="mover", keys=keys)
        self.client.advertise("kind = 'tick'")
        self.rate_s = rate_s
        self.published = 0
        self.done = Event()

    @property
    def moves(self) -> Any:
        return self.client._engine.session.moving

    def run(self) -> None:
        while not self.done.wait(1 / self.rate_s):
            self.client.publish({"kind": "tick"}, bytes(100))
            self.published += 1


def move(control: Path, publisher: Publisher, target: str) -> tuple[int, float]:
    """Hops and seconds of one move."""
    before, deadline = publisher.moves.moves, time.monotonic() + MOVE_S
    channel = Channel(f"ipc://{control}", 10.0, None)
    try:
        while (
            channel.ask("relocate.apply", publisher="mover", broker=target).body.get("outcome") != "offered"
        ):
            assert time.monotonic() < deadline, f"not offered to {target}"
            time.sleep(ATTEMPT_S)
    finally:
        channel.close()
    while publisher.moves.moves == before:
        assert time.monotonic() < deadline, f"not moved to {target}"
        time.sleep(ATTEMPT_S)
    return publisher.moves.hops, publisher.moves.pause_s


def run(hops: int, rounds: int, rate_s: float) -> dict[str, Any]:
    system = Grapevine(brokers=hops + 1)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        system.start(Path(directory))
        try:
            pauses = measured(system, Path(directory), hops, rounds, rate_s)
        finally:
            system.stop()
    slope, at_none = linear_regression([h for h, _ in pauses], [1000 * s for _, s in pauses])
    rows = []
    for length in range(1, hops + 1):
        own = [1000 * seconds for found, seconds in pauses if found == length]
        row = {"hops": length, "moves": len(own), "median_ms": median(own), "worst_ms": max(own)}
        rows.append({key: round(value, 2) for key, value in row.items()})
    medians = correlation([row["hops"] for row in rows], [row["median_ms"] for row in rows])
    line = {
        "per_hop_ms": round(slope, 3),
        "at_none_ms": round(at_none, 3),
        "correlation": round(medians, 3),  # of the medians with the hops
    }
    return {"schema": SCHEMA, "rows": rows, **line, "rate_s": rate_s, "machine": machine()}


def measured(
    system: Grapevine, directory: Path, hops: int, rounds: int, rate_s: float
) -> list[tuple[int, float]]:
    pauses: list[tuple[int, float]] = []
    got: list[int] = []
    control, keys = directory / "bench0" / "control", directory / "keys"
    with grapevine.connect(system.addresses[0], name="reader", keys=keys) as reader:
        ticks = reader.subscribe("kind = 'tick'")
        publisher = Publisher(system.addresses[0], keys, rate_s)
        publisher.start()
        for number in range(1, rounds + 1):
            for length in range(1, hops + 1):
                for target in (f"bench{length}", "bench0"):
                    pauses.append(move(control, publisher, target))
                    got += [message.sequence for message in ticks.next_batch(10_000, 0.05)]
            say(f"{number}/{rounds}")
        publisher.done.set()
        publisher.join()
        publisher.client.flush(30)
        while len(got) < publisher.published and (more := ticks.next_batch(10_000, 5.0)):
            got += [message.sequence for message in more]
        assert got == list(range(1, publisher.published + 1)), "not once and in order"
        publisher.client.close()
    return pauses


def main() -> None:
    parser = argparse.ArgumentParser("bench.pauses", description="how long a move holds a publisher back")
    parser.add_argument("--hops", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    result = run(options.hops, options.rounds, options.rate)
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
