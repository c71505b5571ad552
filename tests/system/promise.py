"""What README promises where the topology changes, tried on real daemons: four situations, each of which once
settled publications that a confirmed subscriber never got.

*Judged*: whatever a publisher knows to be settled reached the subscriber, in order and once, or it was told:
the publisher by Undelivered, the subscriber by `gaps`. `client.partial` excuses only what was accepted while
it named somebody: what was accepted before is delivered or named, also when it is settled after.

`python -m tests.system.promise [RUNS] [SITUATION...]` plays each so often, at random times, one line of JSON
each. (A side hangs here because its broker is stopped: for the one before it that is a connection that hangs;
`client.partial` is looked at before each publication, and again when it is accepted.)
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import grapevine
from tests.system.overlay import ROOT, Overlay, eventually

LOST_AFTER_S = 3.0
BATCH, EVERY_S = 20, 0.005
PATIENCE_S = 60.0
QUIET_S = 2.0  # nothing has come for so long: nothing more comes
LINKS = {"lost_after_s": LOST_AFTER_S}


@dataclass
class Verdict:
    """Sequence numbers of one publisher."""

    settled: list[int] = field(default_factory=list)
    cut: set[int] = field(default_factory=set)
    parted: set[int] = field(default_factory=set)  # accepted when the publisher knew who was missing
    got: list[int] = field(default_factory=list)
    gaps: int = 0

    @property
    def wrong(self) -> list[str]:
        missing = set(self.settled) - set(self.got) - self.cut - self.parted
        wrong = (
            [] if self.gaps or not missing else [f"{len(missing)} settled and lost: {sorted(missing)[:9]}"]
        )
        return wrong + ([] if self.got == sorted(set(self.got)) else ["twice or out of order"])

    def line(self) -> dict[str, object]:
        missing = len(set(self.settled) - set(self.got))
        told = {"cut": len(self.cut), "parted": len(self.parted), "gaps": self.gaps}
        return {"settled": len(self.settled), "missing": missing, **told, "wrong": self.wrong}


class Stream:
    """A publisher that goes on until it is told to end, and asks after every few whether they are settled."""

    def __init__(self, client: grapevine.Client) -> None:
        self.client = client
        self.verdict = Verdict()
        self._over = threading.Event()
        client.advertise("exists n", timeout=PATIENCE_S)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            sent = []
            for n in range(BATCH):
                before = self.client.partial
                sent.append(self.client.publish({"n": n}))
                self._try(lambda: self.client.flush(timeout=PATIENCE_S, until="accepted"))
                if before or self.client.partial:
                    self.verdict.parted.add(sent[-1])
                time.sleep(EVERY_S)
            self._settle(sent)

    def _settle(self, sent: list[int]) -> None:
        self._try(lambda: self.client.flush(timeout=PATIENCE_S))
        self.verdict.settled += sent

    def _try(self, flush: Callable[[], None]) -> None:
        try:
            flush()
        except grapevine.Undelivered as error:
            for first, last in error.ranges:
                self.verdict.cut |= set(range(first, last + 1))

    def end(self) -> Verdict:
        self._over.set()
        self._thread.join()
        return self.verdict


def read(subscription: grapevine.Subscription, verdict: Verdict) -> Verdict:
    while message := subscription.next(QUIET_S):
        verdict.got.append(message.sequence)
    verdict.gaps = len(subscription.gaps)
    return verdict


def chain(directory: Path, count: int) -> Overlay:
    overlay = Overlay(directory, links=LINKS)
    overlay.start("b1")
    for number in range(2, count + 1):
        overlay.start(f"b{number}", f"b{number - 1}")
    return overlay


def connect(overlay: Overlay, name: str, *brokers: str) -> grapevine.Client:
    addresses = [overlay[broker].address for broker in brokers]
    return grapevine.connect(addresses, name, keys=overlay[brokers[0]].keys, timeout=PATIENCE_S)


def fails_over(directory: Path, random: Random) -> Verdict:
    """The publisher's broker is killed and comes back while the publisher has gone on behind it."""
    with chain(directory, 3) as overlay, connect(overlay, "reader", "b1") as reader:
        subscription = reader.subscribe("n >= 0", timeout=PATIENCE_S)
        with connect(overlay, "writer", "b2", "b3") as writer:
            stream = Stream(writer)
            time.sleep(random.uniform(0.2, 1.0))
            overlay["b2"].kill()
            time.sleep(random.uniform(0.5, 2 * LOST_AFTER_S))
            overlay["b2"].start()
            time.sleep(random.uniform(0.5, 2.0))
            return read(subscription, stream.end())


def hangs(directory: Path, random: Random) -> Verdict:
    """The reader's side hangs until it is given up; what was upstream then is not settled as if nobody had
    wanted it."""
    with chain(directory, 3) as overlay, connect(overlay, "reader", "b3") as reader:
        subscription = reader.subscribe("n >= 0", timeout=PATIENCE_S)
        with connect(overlay, "writer", "b1") as writer:
            stream = Stream(writer)
            time.sleep(random.uniform(0.2, 1.0))
            overlay["b3"].signal(signal.SIGSTOP)
            time.sleep(random.uniform(0.5, 3.0) + LOST_AFTER_S)
            overlay["b3"].signal(signal.SIGCONT)
            time.sleep(random.uniform(0.0, 1.0))
            return read(subscription, stream.end())


READER = """
import json, sys, grapevine
from pathlib import Path
client = grapevine.connect(sys.argv[1], "reader", keys=Path(sys.argv[2]), timeout=60)
subscription = client.subscribe("n >= 0", timeout=60)
print("ready", flush=True)
got = []
while (message := subscription.next(20)) is not None and message.attributes["n"] < 10_000:
    got.append(message.sequence)
print(json.dumps({"got": got, "gaps": len(subscription.gaps)}), flush=True)
"""


def stops_reading(directory: Path, random: Random) -> Verdict:
    """The reader is stopped for longer than `clients.stall_s`, then its broker dies with what waited."""
    with chain(directory, 2) as overlay, connect(overlay, "writer", "b1") as writer:
        words = [sys.executable, "-c", READER, overlay["b2"].address, str(overlay["b2"].keys)]
        reader = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert reader.stdout is not None and reader.stdout.readline().strip() == "ready"
            reader.send_signal(signal.SIGSTOP)
            stream = Stream(writer)
            time.sleep(random.uniform(0.3, 1.5))
            verdict = stream.end()
            overlay["b2"].kill()
            reader.send_signal(signal.SIGCONT)
            overlay["b2"].start().ready()
            end = eventually(lambda: _ended(reader, writer), 120, 0.5)
        finally:
            reader.kill()
            reader.wait()
        verdict.got, verdict.gaps = end["got"], end["gaps"]
        return verdict


def _ended(reader: subprocess.Popen[str], writer: grapevine.Client) -> dict[str, list[int]] | None:
    """What it prints at the end; it is sent the last one until then."""
    writer.publish({"n": 10_000})
    assert reader.stdout is not None
    return json.loads(reader.stdout.readline()) if reader.poll() is not None else None


def splits(directory: Path, random: Random) -> Verdict:
    """The broker between is gone for good: both halves go on, and every client of both knows."""
    with chain(directory, 3) as overlay, connect(overlay, "reader", "b3") as reader:
        subscription = reader.subscribe("n >= 0", timeout=PATIENCE_S)
        with connect(overlay, "writer", "b1") as writer:
            stream = Stream(writer)
            time.sleep(random.uniform(0.2, 1.0))
            overlay["b2"].kill()
            time.sleep(random.uniform(0.1, 1.0))
            late = reader.subscribe("n < 0", timeout=PATIENCE_S)
            assert reader.partial == ("b2",) and not late.gaps, "confirmed without the others, and not told"
            eventually(lambda: writer.partial == ("b2",))
            time.sleep(random.uniform(0.2, 1.0))
            return read(subscription, stream.end())


SITUATIONS: dict[str, Callable[[Path, Random], Verdict]] = {
    "fails-over": fails_over,
    "hangs": hangs,
    "stops-reading": stops_reading,
    "splits": splits,
}


def main(words: list[str]) -> int:
    runs = int(words[0]) if words else 10
    bad = 0
    for name in words[1:] or SITUATIONS:
        for run in range(runs):
            with tempfile.TemporaryDirectory() as directory:
                verdict = SITUATIONS[name](Path(directory), Random(f"{name} {run}"))
            bad += bool(verdict.wrong)
            print(json.dumps({"situation": name, "run": run, **verdict.line()}), flush=True)
    print(f"{bad} bad")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
