"""`pubctl channel serve`: the one driver of a back end's channels, between it and Spark.

Questions and executions run in threads of their own, so that a long execution keeps neither the lease nor the
other channels waiting. Whatever dies, the driver is started again and goes on: the plan of an execution that
was under way is still there. Without its Java a driver can do nothing, so it ends, too, and says so.
"""

from __future__ import annotations

import queue
import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from grapevine.client.session.driving import Driver, Execute, KeepRows
from grapevine.errors import Error
from grapevine.wire.channels import DriverAnswer
from grapevine.wire.driving import Serve, encode_body
from pipeline.channels.execution import Executor
from pipeline.channels.tables import Tables
from pipeline.session import java_ended
from pipeline.trouble import FAILED, Trouble

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from grapevine.client.sync import Client

ASK_S = 60.0
WAIT_MOST_S = 1.0
END_S = 3.0
SAY_S = 10.0


class Clock:
    """Seconds since 1970 that never jump: a wall clock that is set back would keep channels waiting."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


class Service:
    """`say` gets lines for people; `stopping` ends it."""

    def __init__(
        self,
        client: Client,
        spark: SparkSession,
        parallel: int = 2,
        say: Callable[[str], None] = lambda text: None,
        stopping: Callable[[], bool] = lambda: False,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.client = client
        self.clock = Clock()
        self.tables = Tables()
        self.executor = Executor(spark, self.tables)
        self.say = say
        self.stopping = stopping
        self.ready = ready
        self.driver = Driver(socket.gethostname(), secrets.randbits(31))
        self._answers: queue.Queue[tuple[str, int, Any]] = queue.Queue()
        self._asking = ThreadPoolExecutor(8, "ask")
        self._running = ThreadPoolExecutor(parallel, "execute")
        self._keeping = ThreadPoolExecutor(1, "rows")
        self._told: dict[str, str] = {}

    def run(self) -> None:
        """Until it is to stop; Trouble if Java has ended."""
        try:
            self._turn_until_stopped()
        finally:
            self._running.shutdown(wait=False, cancel_futures=True)
            self._give_back()

    def _turn_until_stopped(self) -> None:
        self.driver.start(self.clock())
        begun = False
        while not self.stopping():
            if (code := java_ended(self.executor.spark)) is not None:
                raise Trouble(
                    f"Java has ended with {code}: channels stand still until a driver is started", FAILED
                )
            self._hand_out()
            deadline = self.driver.next_deadline()
            wait_s = WAIT_MOST_S if deadline is None else min(max(deadline - self.clock(), 0.0), WAIT_MOST_S)
            try:
                kind, task, value = self._answers.get(timeout=wait_s)
                if kind == "answer":
                    self.driver.answered(task, value, self.clock())
                else:
                    self.driver.done(task, value, self.clock())
            except queue.Empty:
                pass
            self.driver.tick(self.clock())
            if self.driver.lease and self.driver.generation >= 0 and not begun:
                begun = True
                self.ready()
                self.say(f"drives {len(self.driver.channels)} channels")
            self._tell()

    def _give_back(self) -> None:
        """The lease: the next driver need not wait until it ends, as it does if this cannot be said."""
        if self.driver.lease:
            body = encode_body(Serve(self.driver.name, self.driver.incarnation))
            try:
                self.client.ask_back_end("end", body, END_S)
            except Error:
                pass

    def _hand_out(self) -> None:
        asks, self.driver.asks = self.driver.asks, []
        for task, verb, body in asks:
            self._asking.submit(self._ask, task, verb, body)
        jobs, self.driver.jobs = self.driver.jobs, []
        for task, job in jobs:
            (self._running if isinstance(job, Execute) else self._keeping).submit(self._do, task, job)

    def _ask(self, task: int, verb: str, body: bytes) -> None:
        try:
            answer = self.client.ask_back_end(verb, body, ASK_S)
        except Error as error:  # asked again by whoever needs it
            answer = DriverAnswer(0, "failed", text=str(error))
        self._answers.put(("answer", task, answer))

    def _do(self, task: int, job: Execute | KeepRows) -> None:
        result: Any
        try:
            if isinstance(job, Execute):
                result = self.executor.run(job)
            else:
                result = self.tables.keep(job.dataset, job.rows, job.start)
        except Exception as error:
            result = error
        self._answers.put(("done", task, result))

    def _tell(self) -> None:
        refused = self.driver.refused
        if refused != self._told.get("", ""):
            self._told[""] = refused
            if refused:
                self.say(f"waits: {refused}")
        for name, text in self.driver.trouble.items():
            if self._told.get(name) != text:
                self._told[name] = text
                self.say(f"channel {name}: {text}")
        for name in [each for each in self._told if each and each not in self.driver.trouble]:
            del self._told[name]
            self.say(f"channel {name} goes on")
