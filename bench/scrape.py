"""What does a scrape of /metrics each second cost the broker, in processor time per publication?

Pairs of equal runs, one scraped and one not, in turn; the order within a pair alternates. The result is the
median of the pairs' ratios. `--pairs 20` is the claim, the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import psutil

import grapevine
from tests.system.overlay import Overlay, free_port

BATCH = 200


class Scraper(threading.Thread):
    def __init__(self, url: str, every_s: float) -> None:
        super().__init__(daemon=True)
        self.url, self.every_s, self.count = url, every_s, 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(self.every_s if self.count else 0):
            with urllib.request.urlopen(self.url, timeout=10) as answer:
                answer.read()
            self.count += 1

    def stop(self) -> None:
        self.over.set()
        self.join()


def broker_s_per_message(pid: int, client: grapevine.Client, rate: float, seconds: float) -> float:
    """Publish at a steady rate and take the broker's processor time."""
    process = psutil.Process(pid)
    used = process.cpu_times()
    began, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < seconds:
        while sent < elapsed * rate:
            for _ in range(BATCH):
                client.publish({"topic": "t"}, b"x" * 100)
            sent += BATCH
        time.sleep(0.005)
    client.flush(30)
    after = process.cpu_times()
    return (after.user + after.system - used.user - used.system) / sent


def measure(pairs: int, rate: float, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory, Overlay(Path(directory)) as overlay:
        listen = f"127.0.0.1:{free_port()}"
        daemon = overlay.start("b1", http={"listen": listen})
        url = f"http://{listen}/metrics"
        ratios = []
        reader = [sys.executable, "-m", "tools.pubctl.main", "-q", "-o", "jsonl", "-b", daemon.address]
        environment = {"GRAPEVINE_KEYS": str(daemon.keys), "PATH": "/usr/bin:/bin"}
        with (
            grapevine.connect(daemon.address, name="publisher", keys=daemon.keys) as client,
            subprocess.Popen(
                [*reader, "sub", "topic = 't'"], stdout=subprocess.DEVNULL, env=environment
            ) as subscriber,
        ):
            broker_s_per_message(daemon.pid, client, rate, 2.0)
            for number in range(pairs):
                costs = {}
                for scraped in (True, False) if number % 2 else (False, True):
                    scraper = Scraper(url, 1.0)
                    if scraped:
                        scraper.start()
                    costs[scraped] = broker_s_per_message(daemon.pid, client, rate, seconds)
                    if scraped:
                        scraper.stop()
                ratios.append(costs[True] / costs[False])
                print(f"pair {number + 1}: {1e6 * costs[False]:.2f} us, scraped {1e6 * costs[True]:.2f} us")
            subscriber.terminate()
    return {
        "pairs": pairs,
        "ratio": round(statistics.median(ratios), 4),
        "spread": round(statistics.pstdev(ratios), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=20_000, help="publications a second")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one run")
    options = parser.parse_args()
    print(json.dumps(measure(options.pairs, options.rate, options.seconds)))


if __name__ == "__main__":
    main()
