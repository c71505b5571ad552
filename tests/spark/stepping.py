"""A driver that says at which step of an execution it is, so that others can be killed there.

`python -m tests.spark.stepping DIRECTORY ...` is `pubctl ...` with that. Whoever waits for a step writes its
name to DIRECTORY/wanted; the driver that comes to it renames the file to `reached`, and at most steps waits
there until there is a file `go`.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pipeline.channels.serve as serve
from grapevine.client.session.driving import Execute
from grapevine.wire.channels import DriverAnswer
from grapevine.wire.driving import Commit, PlanAsk, Put, decode_body

CHANNEL = "Live"
BODIES = {"plan": PlanAsk, "put": Put, "commit": Commit}
AFTER = {"plan": "planned", "put": "put", "commit": "told"}
STEPS = {
    "planned": "the plan is on disk, nothing has run",
    "running": "a stage is under way in Spark",
    "put": "results are at the back end, not committed",
    "committing": "the commit is on its way",
    "told": "committed; brokers are told and pull",
}
HELD = ("planned", "put", "told")
HELD_MOST_S = 30.0


class Gate:
    def __init__(self, directory: Path) -> None:
        self.wanted, self.reached, self.go = (directory / each for each in ("wanted", "reached", "go"))

    def want(self, step: str) -> None:
        for path in (self.reached, self.go):
            path.unlink(missing_ok=True)
        draft = self.wanted.with_suffix(".new")
        draft.write_text(step)
        draft.rename(self.wanted)

    def is_wanted(self, step: str) -> bool:
        try:
            return self.wanted.read_text() == step
        except OSError:
            return False

    def at(self, step: str) -> None:
        """The driver is here."""
        if not self.is_wanted(step):
            return
        self.wanted.rename(self.reached)
        deadline = time.monotonic() + HELD_MOST_S
        while step in HELD and not self.go.exists() and time.monotonic() < deadline:
            time.sleep(0.005)


class Asking:
    """The driver's client, with steps around its questions."""

    def __init__(self, client: Any, gate: Gate) -> None:
        self._client = client
        self._gate = gate

    def ask_back_end(self, verb: str, body: bytes, timeout: float) -> DriverAnswer:
        mine = verb in BODIES and decode_body(body, BODIES[verb]).channel == CHANNEL
        if mine and verb == "commit":
            self._gate.at("committing")
        answer: DriverAnswer = self._client.ask_back_end(verb, body, timeout)
        if mine and answer.outcome == "done":
            self._gate.at(AFTER[verb])
        return answer


class Stepping(serve.Service):
    gate: Gate

    def __init__(self, client: Any, *arguments: Any) -> None:
        super().__init__(Asking(client, self.gate), *arguments)  # type: ignore[arg-type]

    def _do(self, task: int, job: Any) -> None:
        if isinstance(job, Execute) and job.channel.name == CHANNEL and self.gate.is_wanted("running"):
            done = threading.Event()
            threading.Thread(target=self._watch, args=(done,), daemon=True).start()
            super()._do(task, job)
            done.set()
        else:
            super()._do(task, job)

    def _watch(self, done: threading.Event) -> None:
        tracker = self.executor.spark.sparkContext.statusTracker()
        while not done.is_set():
            if tracker.getActiveStageIds():
                self.gate.at("running")
                return
            time.sleep(0.002)


if __name__ == "__main__":
    from tools.pubctl.main import main

    Stepping.gate = Gate(Path(sys.argv.pop(1)))
    serve.Service = Stepping  # type: ignore[misc]
    main()
