"""`python -m bench.bystanders`: what stalled readers and strangers cost those who behave.

The honest flow is T1 at full speed through one broker with CURVE on. Beside it: one and a hundred
subscribers of the same topic that have stopped reading (a new one holds its publishers up once, for
`stall_s`), and strangers (random bytes, half-open connections, wrong keys) as fast as one process can make
them. The share is the honest rate over the rate alone, interleaved.

python -m bench.bystanders [--rounds 5] [--scale 1.0] [-o json|table]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import zmq

from bench.latency import show
from bench.running import interleaved, middle
from bench.systems.grapevine import Grapevine
from bench.systems.raw import Libzmq, Raw
from bench.workloads import topic_workloads
from grapevine.filters import EVERYTHING, parse
from grapevine.wire import encode_attributes, encode_publications, encode_publish
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import ClientAdvertise, Detach

SCHEMA = "bench.bystanders/1"
QUEUE = 2_000  # deliveries that the broker keeps for each stalled reader
WINDOW = 500  # that such a reader promised to take
HALF_OPEN = 1_000
_fork = multiprocessing.get_context("fork")


class Beset(Grapevine):
    """A broker with company: `trouble(self, ready)` runs in a process of its own until the end."""

    def __init__(self, name: str, trouble: Callable[[Beset, Any], None] | None) -> None:
        super().__init__(name, curve=True, clients={"queue": QUEUE})
        self.trouble = trouble
        self.grown_mb = 0.0

    def start(self, directory: Path) -> None:
        super().start(directory)
        self._company: Any = None
        self._idle_mb = self._memory_mb()
        if self.trouble is not None:
            here, there = _fork.Pipe()
            self._company = _fork.Process(target=self.trouble, args=(self, there), daemon=True)
            self._company.start()
            assert here.poll(60), f"{self.name}: no trouble came"

    def stop(self) -> None:
        if self.processes and self.processes[0].poll() is None:
            self.grown_mb = max(self.grown_mb, self._memory_mb() - self._idle_mb)
        if self._company is not None:
            self._company.kill()
            self._company.join()
        super().stop()

    def _memory_mb(self) -> float:
        return float(psutil.Process(self.processes[0].pid).memory_info().rss) / 1e6


def stalled(count: int) -> Callable[[Beset, Any], None]:
    def trouble(system: Beset, ready: Any) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        asleep = [
            Raw(Libzmq(context, system.addresses[0], system.keys), f"asleep{n}", WINDOW) for n in range(count)
        ]
        for client in asleep:
            client.subscribe([(1, parse("topic = 't000'"))])
            for other in asleep:
                other.attend()
        _fill(system.client(context, "filler"))
        ready.send("asleep")
        time.sleep(3600)

    return trouble


def _fill(writer: Raw) -> None:
    """More than the sleepers' windows take, and the second after which nobody waits for them."""
    writer.confirmed(ClientAdvertise(1, 1, EVERYTHING))
    attributes = encode_attributes({"topic": "t000"})
    some = [Draft(attributes, b"", number + 1) for number in range(2 * WINDOW)]
    writer.wire.send(encode_publish(writer.epoch, 1, encode_publications(some)))
    while writer.settled < len(some):
        writer.wait()
    writer.send(Detach())


def strangers(system: Beset, ready: Any) -> None:
    """Half of the connections say nothing, the others say nonsense; nobody has a key."""
    port = int(system.addresses[0].rpartition(":")[2])
    open_ones: list[socket.socket] = []
    ready.send("here they come")
    while True:
        try:
            stranger = socket.create_connection(("127.0.0.1", port), 1)
        except OSError:
            continue
        if len(open_ones) < HALF_OPEN:
            open_ones.append(stranger)
            continue
        try:
            stranger.sendall(os.urandom(256))
        except OSError:
            pass
        stranger.close()
        open_ones.pop(0).close()


def main() -> None:
    parser = argparse.ArgumentParser("bench.bystanders", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    systems = [
        Beset("alone", None),
        Beset("1 stalled", stalled(1)),
        Beset("100 stalled", stalled(100)),
        Beset("strangers", strangers),
    ]
    workload = topic_workloads(options.scale)["T1"]
    figures = interleaved([(system, workload) for system in systems], options.rounds)
    rates = {s.name: middle(figures[s.name, workload.name]).publications_s for s in systems}
    rows = [
        {
            "beside": system.name,
            "publications_s": round(rates[system.name]),
            "share": round(rates[system.name] / rates["alone"], 3),
            "grown_mb": round(system.grown_mb, 1),
        }
        for system in systems
    ]
    result = {"schema": SCHEMA, "rows": rows, "rounds": options.rounds}
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
