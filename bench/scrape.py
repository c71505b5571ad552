"""What does a scrape of /metrics each second cost the broker, in processor time per publication?

A turn is a second with the same number of publications, in the same small steps; in every other one, the
broker is scraped once. A pair is some turns with and as many without (on, off, off, on), so that what drifts
on the machine drifts for both. The broker has a processor for itself where there are two. The result is the
median of the pairs' ratios with the interval that holds it in 95 of 100 draws from them. Beside it, far
steadier: `answering` is what the thread that answers took itself, as a share of what the broker takes
without.
`--pairs 20` is the claim; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import grapevine
from tests.system.overlay import Daemon, Overlay, free_port

STEPS = 100  # of a turn
DRAWS = 10_000
SCRAPES = """
import sys, urllib.request
for line in sys.stdin:
    if line == "scrape\\n":
        urllib.request.urlopen(sys.argv[1], timeout=10).read()
    print("ok", flush=True)
"""
READS = """
import sys, grapevine
with grapevine.connect(sys.argv[1], name="reader", keys=sys.argv[2]) as client:
    subscription = client.subscribe("topic = 't'")
    print("ok", flush=True)
    while True:
        subscription.next_batch(10_000, timeout=1)
"""


class Scraper:
    """A process of its own, so that the publisher beside it goes on as it did."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-c", SCRAPES, url]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def hear(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Bench:
    def __init__(self, daemon: Daemon, client: grapevine.Client, scraper: Scraper, rate: int) -> None:
        self.daemon = daemon
        self.client = client
        self.scraper = scraper
        self.step = rate // STEPS
        self.answerer, self.alone_s = self._alone(50)

    def turn(self, scraped: bool) -> tuple[float, float]:
        """The broker's processor time in a second of publishing, and that of the thread that answers; what
        happens beside it is the same."""
        before = processor_s(self.daemon.pid)
        began = time.monotonic()
        for number in range(STEPS):
            if number == STEPS // 2:
                self.scraper.say("scrape" if scraped else "rest")
            for _ in range(self.step):
                self.client.publish({"topic": "t"}, b"x" * 100)
            time.sleep(max(0.0, began + (number + 1) / STEPS - time.monotonic()))
        self.client.flush(30)
        self.scraper.hear()
        spent = spent_since(before, self.daemon.pid)
        return sum(spent.values()), spent[self.answerer]

    def pair(self, number: int, seconds: int) -> tuple[float, float, float]:
        """With, without, and of the first the part of the thread that answers."""
        costs, answering = [0.0, 0.0], 0.0
        for turn in range(2 * seconds):
            scraped = (number + turn + turn // 2) % 2 == 0  # on, off, off, on, ...
            spent, answered = self.turn(scraped)
            costs[not scraped] += spent
            answering += answered if scraped else 0.0
        return costs[0], costs[1], answering

    def _alone(self, count: int) -> tuple[str, float]:
        """Who answers, and what a scrape takes of a broker that has nothing else to do."""
        before = processor_s(self.daemon.pid)
        for _ in range(count):
            self.scraper.say("scrape")
            self.scraper.hear()
        spent = spent_since(before, self.daemon.pid)
        return max(spent, key=lambda thread: spent[thread]), sum(spent.values()) / count


def processor_s(pid: int) -> dict[str, float]:
    """Of each of its threads, by the scheduler's own clock: that of psutil has ticks of 10 ms."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return {file.parent.name: int(file.read_text().split()[0]) / 1e9 for file in files}


def spent_since(before: dict[str, float], pid: int) -> dict[str, float]:
    return {thread: spent - before.get(thread, 0.0) for thread, spent in processor_s(pid).items()}


def apart(pid: int) -> None:
    """The broker on one processor, this process and those it starts on the others."""
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) > 1:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), mine[:1])
        os.sched_setaffinity(0, mine[1:])


def interval(ratios: list[float]) -> tuple[float, float]:
    """Of the median, by drawing from the ratios again and again."""
    random = Random(1)
    drawn = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return drawn[DRAWS * 25 // 1000], drawn[DRAWS * 975 // 1000]


def measure(pairs: int, rate: int, seconds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory, Overlay(Path(directory)) as overlay:
        listen = f"127.0.0.1:{free_port()}"
        daemon = overlay.start("b1", http={"listen": listen})
        apart(daemon.pid)
        ratios, shares = [], []
        reader = [sys.executable, "-c", READS, daemon.address, str(daemon.keys)]
        with (
            grapevine.connect(daemon.address, name="publisher", keys=daemon.keys) as client,
            subprocess.Popen(reader, stdout=subprocess.PIPE) as subscriber,
        ):
            assert subscriber.stdout is not None and subscriber.stdout.readline() == b"ok\n"
            scraper = Scraper(f"http://{listen}/metrics")
            bench = Bench(daemon, client, scraper, rate)
            bench.pair(0, 2)  # warm
            for number in range(pairs):
                on, off, answering = bench.pair(number, seconds)
                ratios.append(on / off)
                shares.append(answering / off)
                messages = rate * seconds
                print(
                    f"pair {number + 1}: {1e6 * off / messages:.2f} us, scraped {1e6 * on / messages:.2f} us"
                )
            scraper.close()
            subscriber.terminate()
    low, high = interval(ratios)
    return {
        "pairs": pairs,
        "ratio": round(statistics.median(ratios), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "spread": round(statistics.pstdev(ratios), 4),
        "answering": round(statistics.median(shares), 4),
        "answering_most": round(max(shares), 4),
        "scrape_ms": round(1e3 * bench.alone_s, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--rate", type=int, default=20_000, help="publications a second")
    parser.add_argument("--seconds", type=int, default=5, help="with and without, in each pair")
    options = parser.parse_args()
    print(json.dumps(measure(options.pairs, options.rate, options.seconds)))


if __name__ == "__main__":
    main()
