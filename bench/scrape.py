"""What does a scrape of /metrics each second cost the broker, in processor time per publication?

A pair is some seconds with a scrape and as many without, in turn (on, off, off, on), so that what drifts on
the machine drifts for both. The result is the median of the pairs' ratios. `--pairs 20` is the claim; the
last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grapevine
from tests.system.overlay import Overlay, free_port

BATCH = 200
# Scrapes at once and then every so often after "go", until "rest".
SCRAPES = """
import select, sys, urllib.request
url, every_s, due = sys.argv[1], float(sys.argv[2]), None
while True:
    if select.select([sys.stdin], [], [], due)[0]:
        if not (word := sys.stdin.readline()):
            break
        print("ok", flush=True)
        due = 0 if word == "go\\n" else None
    elif due is not None:
        urllib.request.urlopen(url, timeout=10).read()
        due = every_s
"""


class Scraper:
    """A process of its own, so that the publisher beside it goes on as it did."""

    def __init__(self, url: str, every_s: float) -> None:
        command = [sys.executable, "-c", SCRAPES, url, str(every_s)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, word: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def broker_s_per_message(pid: int, client: grapevine.Client, rate: float, seconds: float) -> float:
    """Publish at a steady rate and take the broker's processor time."""
    used_s = processor_s(pid)
    began, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < seconds:
        while sent < elapsed * rate:
            for _ in range(BATCH):
                client.publish({"topic": "t"}, b"x" * 100)
            sent += BATCH
        time.sleep(0.005)
    client.flush(30)
    return (processor_s(pid) - used_s) / sent


def processor_s(pid: int) -> float:
    """Of all its threads, by the scheduler's own clock: that of psutil has ticks of 10 ms."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def measure(pairs: int, rate: float, seconds: int) -> dict[str, float]:
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
            scraper = Scraper(url, 1.0)
            broker_s_per_message(daemon.pid, client, rate, 2.0)
            for number in range(pairs):
                costs = {True: 0.0, False: 0.0}
                for turn in range(2 * seconds):
                    scraped = (number + turn + turn // 2) % 2 == 0  # on, off, off, on, ...
                    scraper.say("go" if scraped else "rest")
                    costs[scraped] += broker_s_per_message(daemon.pid, client, rate, 1.0) / seconds
                scraper.say("rest")
                ratios.append(costs[True] / costs[False])
                print(f"pair {number + 1}: {1e6 * costs[False]:.2f} us, scraped {1e6 * costs[True]:.2f} us")
            scraper.close()
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
    parser.add_argument("--seconds", type=int, default=3, help="with and without, in each pair")
    options = parser.parse_args()
    print(json.dumps(measure(options.pairs, options.rate, options.seconds)))


if __name__ == "__main__":
    main()
