"""How much of its rate does an honest pair of clients keep while strangers hold half-open connections?

Pairs of equal runs, with and without `--strangers` connections that send nothing or random bytes; the result
is the median of the pairs' ratios, the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import tempfile
import time
from pathlib import Path

from grapevine.client.keys import KeyPair, client_keys
from tests.system.frames import exchange
from tests.system.overlay import Daemon, Overlay


def knock(daemon: Daemon, count: int, chance: random.Random) -> list[socket.socket]:
    host, port = daemon.address.removeprefix("tcp://").split(":")
    opened = []
    for number in range(count):
        connection = socket.create_connection((host, int(port)), timeout=10)
        if number % 2:
            connection.sendall(chance.randbytes(chance.randrange(1, 200)))
        opened.append(connection)
    return opened


def rate(daemon: Daemon, pair: KeyPair, name: str, count: int) -> float:
    """Publications a second of an honest pair of clients, settled."""
    return count / exchange(daemon.address, pair, daemon.keys, name, count, time.monotonic)


def measure(pairs: int, strangers: int, count: int) -> dict[str, float]:
    chance, ratios = random.Random(7), []
    with tempfile.TemporaryDirectory() as directory, Overlay(Path(directory)) as overlay:
        daemon = overlay.start("b1")
        pair = client_keys(daemon.keys)
        for number in range(pairs):
            alone = rate(daemon, pair, f"alone{number}", count)
            opened = knock(daemon, strangers, chance)
            beside = rate(daemon, pair, f"beside{number}", count)
            for connection in opened:
                connection.close()
            ratios.append(beside / alone)
            print(f"pair {number + 1}: {alone:,.0f}/s alone, {beside:,.0f}/s beside {strangers} strangers")
    return {"pairs": pairs, "strangers": strangers, "ratio": round(statistics.median(ratios), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--strangers", type=int, default=1000)
    parser.add_argument("--count", type=int, default=40_000, help="publications of one run")
    options = parser.parse_args()
    print(json.dumps(measure(options.pairs, options.strangers, options.count)))


if __name__ == "__main__":
    main()
