"""`python -m tests.system.proof_balance [--subscribers 400]`: subscribers of channels move under traffic.

Five brokers about a town, subscribers placed at the nearest one, most of them in the middle. Balancing is
switched on while reports go on; then everybody is placed anew as the paper prints it. At the end each has
every report above its parameters, once and in order; every fourth is subscribed to the reports themselves,
too, and has all of these.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import grapevine
from tests.system.balanced import EDGES, People, Person, Publisher, Town, complete, mistakes
from tests.system.overlay import eventually

ON = {"mode": "on", "beta": 1, "theta": 1, "gamma": 50, "moves": 400, "check_s": 2, "cooldown_s": 1}
SHUFFLE = {"mode": "off", "gamma": 1e-4, "alpha": 1e-4, "keep": -1, "cooldown_s": 0}


def run(subscribers: int, wanted: int, directory: Path, seed: int, edges: int = len(EDGES)) -> dict[str, Any]:
    chance = Random(seed)
    people = [Person(number, chance, EDGES["south"]) for number in range(subscribers)]
    with Town(directory, edges) as town, town.driven():
        keys = str(town["back"].keys)
        crowd = People(people, town["back"].address, keys)
        eventually(lambda: crowd.check() or crowd.here == subscribers, 300, 0.2)
        placed = dict(crowd.at())
        with grapevine.connect(town["back"].address, name="reporter", keys=keys) as client:
            publisher = Publisher(client, 0.05)
            try:
                before = eventually(lambda: flowing(town), 120, 1.0)
                town.balance("set", window_s=15, **ON)
                even = eventually(lambda: settled(town, before["alpha"]), 300, 1.0)
                shuffles = 0
                while town.balance()["moved"] < wanted:
                    town.balance("set", **SHUFFLE)
                    town.balance("apply")
                    shuffles += 1
                    eventually(lambda: town.balance()["moving"] == 0, 300, 1.0)
                    # One alone may plan nothing: where loads are equal just then there is nothing to shuffle.
                    assert shuffles < 10, town.balance()
                ended = town.balance()
            finally:
                count = publisher.stop()
        deadline = time.monotonic() + 120
        while not complete(people, count) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(2.0)  # what would come twice
        crowd.stop()
        wrong = mistakes(people, count)
    return {
        "subscribers": subscribers,
        "mixed": sum(person.reports is not None for person in people),
        "placed": placed,
        "cov_nearest": before["cov"],
        "cov_balanced": even["cov"],
        "alpha": before["alpha"],
        "moved_balanced": even["moved"],
        "shuffles": shuffles,
        "moved": ended["moved"],
        "failed": ended["failed"],
        "reports": count,
        "rows": sum(len(rows) for person in people for rows in person.rows.values()),
        "wrong": wrong,
    }


def flowing(town: Town) -> Any:
    """Once rates are known of every broker's subscribers."""
    shown = town.balance()
    steady = shown["mean_bytes_s"] > 0 and shown["subscribers"] > 0
    return {**shown, "alpha": shown["settings"]["alpha"]} if steady else None


def settled(town: Town, alpha: float) -> Any:
    shown = town.balance()
    return shown if shown["moved"] and not shown["moving"] and shown["cov"] <= alpha else None


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscribers", type=int, default=400)
    parser.add_argument("--moves", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as directory:
        try:
            found = run(given.subscribers, given.moves, Path(directory), given.seed)
        except BaseException:
            for log in sorted(Path(directory).rglob("log")):
                print(log.parent.name, *log.read_text().splitlines()[-20:], sep="\n  ", file=sys.stderr)
            raise
    print(msgspec.json.encode(found).decode())
    return 0 if not found["wrong"] and found["cov_balanced"] <= found["alpha"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
