"""`python -m bench.pulses`: what a broker keeps of its throughput while a page asks it for all brokers.

T1 at full speed through one broker with CURVE. Its neighbour is a broker that stands for 999: it answers each
question `pulse` with as many recorded ones. In one system nobody asks; in the other somebody does, once a
second, as the live page would. The share is the second's rate over the first's, interleaved; rounds last
seconds, so that several questions fall into each (`questions`, in all rounds).

python -m bench.pulses [--rounds 5] [--scale 10] [--brokers 1000] [-o json|table]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.latency import show
from bench.running import interleaved, middle
from bench.systems.grapevine import Grapevine
from bench.workloads import topic_workloads

SCHEMA = "bench.pulses/1"
EVERY_S = 1.0
_fork = multiprocessing.get_context("fork")


class Watched(Grapevine):
    """One broker with a neighbour that stands for many; `asked`: once a second for all of them."""

    def __init__(self, name: str, brokers: int, asked: bool) -> None:
        super().__init__(name, curve=True)
        self.questions = _fork.Value("i", 0)
        self.behind = brokers - 1
        self.asked = asked

    def start(self, directory: Path) -> None:
        super().start(directory)
        self._start_stub(directory)
        self._asking: Any = None
        if self.asked:
            self._asking = _fork.Process(target=self._ask, daemon=True)
            self._asking.start()

    def _start_stub(self, directory: Path) -> None:
        config, log = directory / "stub.toml", directory / "stub.log"
        config.write_text(
            f'[broker]\nname = "stub"\nlisten = ["ipc://{directory}/stub"]\n'
            f'state_dir = "{directory}/stub.d"\n[security]\nkeys = "{self.keys}"\n'
            f'[tree]\nneighbours = ["{self.addresses[0]}"]\n'
        )
        command = [sys.executable, "-m", "bench.pulses", "--stand-for", str(self.behind), str(config)]
        with open(log, "wb") as output:
            self._stub = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        deadline = time.monotonic() + 30
        while b"ready after" not in log.read_bytes():
            assert self._stub.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.02)

    def _ask(self) -> None:
        from tools.pubctl.channel import Channel

        channel = Channel(self.addresses[0], 5.0, self.keys)
        while True:
            began = time.monotonic()
            answer = channel.answer("pulse", timeout_s=5.0)
            assert len(json.loads(bytes(answer.body))["pulses"]) > self.behind, "everybody is in the answer"
            with self.questions.get_lock():
                self.questions.value += 1
            time.sleep(max(0.0, began + EVERY_S - time.monotonic()))

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.kill()
            self._asking.join()
        self._stub.terminate()
        self._stub.wait(15)
        super().stop()


def stand_for(brokers: int, config: str) -> int:
    """A broker whose answer to `pulse` has so many more rows, encoded once."""
    import msgspec

    from daemon.main import main as grapevined
    from overlay.administration.census import Census
    from tests.unit.web.pulses import beat, link

    rows = [beat(f"broker-{n}", 1000 + n, link("b1", n, n), link("b2", n, n)) for n in range(brokers)]
    recorded = [msgspec.json.encode(row) for row in rows]
    finish = Census._spread

    def spread(self: Any, request: Any, others: Any, own: Any, finished: Any, now: float) -> None:
        def more(answers: Any, later: float) -> None:
            finished(answers._replace(reports=(*answers.reports, *recorded)), later)

        finish(self, request, others, own, more if request.question == "pulse" else finished, now)

    Census._spread = spread  # type: ignore[method-assign]
    return grapevined(["--config", config])


def main() -> int:
    parser = argparse.ArgumentParser("bench.pulses", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=10.0)
    parser.add_argument("--brokers", type=int, default=1000)
    parser.add_argument("--stand-for", type=int, help=argparse.SUPPRESS)
    parser.add_argument("config", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    if options.stand_for is not None:
        return stand_for(options.stand_for, options.config)
    systems = [Watched("not asked", options.brokers, False), Watched("asked", options.brokers, True)]
    workload = topic_workloads(options.scale)["T1"]
    figures = interleaved([(system, workload) for system in systems], options.rounds)
    shown = {system.name: middle(figures[system.name, workload.name]) for system in systems}
    alone = shown["not asked"]
    rows = [
        {
            "broker": name,
            "publications_s": round(figure.publications_s),
            "share": round(figure.publications_s / alone.publications_s, 3),
            "broker_us_per_msg": round(figure.broker_us_per_msg, 3),
            "questions": system.questions.value,
        }
        for (name, figure), system in zip(shown.items(), systems, strict=True)
    ]
    result = {"schema": SCHEMA, "rows": rows, "rounds": options.rounds, "brokers": options.brokers}
    print(json.dumps(result) if options.output == "json" else show(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
