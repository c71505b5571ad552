"""The driver of channels without any input or output: the lease, due times, plans, retries, commits.

Each part of it is a generator that yields what it needs: a question to the back end, a job for who drives it,
or time. The process `pubctl channel serve` and the simulator turn the same crank: they take asks and jobs,
and say `answered`, `done` and `tick`. A failing execution is tried again with the same plan after 1, 2, 4 ..
60 s; one that comes too late is not caught up, the next one has its rows, and it is counted.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeAlias

from grapevine.client.session.comparing import Before, compared, read_state
from grapevine.wire.catalog import Channel, Dataset
from grapevine.wire.channels import DriverAnswer
from grapevine.wire.driving import (
    RENEW_S,
    Commit,
    Failed,
    FedRow,
    Listing,
    Plan,
    PlanAsk,
    Put,
    Rows,
    RowsAsk,
    Run,
    Serve,
    Serving,
    Sets,
    SetsAsk,
    State,
    StateAsk,
    decode_body,
    encode_body,
    rows_of,
    run_of,
)

BUSY_S = 2.0  # another driver has the lease
POLL_S = 0.5  # of a continuous channel
RETRY_MOST_S = 60.0
PUT_BYTES = 4 << 20
ROW_BYTES = 8 << 20  # more does not fit into a message
PULL_BYTES = 4 << 20

Runs: TypeAlias = list[Run]


class Question(NamedTuple):
    verb: str
    body: Any


class Sleep(NamedTuple):
    until: float


class KeepRows(NamedTuple):
    """A job: rows of a dataset, to be at hand for executions."""

    dataset: Dataset
    rows: tuple[tuple[int, FedRow], ...]
    through: int
    start: int  # rows before this are not needed any more


class Execute(NamedTuple):
    """A job: run the plan; its result is Runs, sorted by back-end subscription."""

    channel: Channel
    plan: Plan
    sets: Mapping[int, bytes]
    datasets: Mapping[str, Dataset]


class Interrupted(Exception):
    """This driver has lost its lease, or its channel is another one now."""


Step: TypeAlias = Question | Sleep | KeepRows | Execute
Task: TypeAlias = Generator[Step, Any, None]


class Driver:
    def __init__(self, name: str, incarnation: int, positions: Mapping[str, int] | None = None) -> None:
        self.name = name
        self.incarnation = incarnation
        self.asks: list[
            tuple[int, str, bytes]
        ] = []  # (task, verb, body), for the driver of this driver to send
        self.jobs: list[tuple[int, KeepRows | Execute]] = []
        self.lease = 0
        self.generation = -1  # of the catalog
        self.datasets: dict[str, Dataset] = {}
        self.channels: dict[str, Channel] = {}
        self.positions: dict[str, int] = dict(positions or {})  # rows of datasets that are at hand
        self.late: dict[str, int] = {}  # executions that were left out, and not told yet
        self.executed: dict[str, int] = {}
        self.trouble: dict[str, str] = {}
        self.refused = ""  # why there is no lease
        self._tasks: dict[int, Task] = {}
        self._sleeping: dict[int, float] = {}
        self._of_channel: dict[str, int] = {}
        self._fetching: set[str] = set()
        self._sets: dict[str, tuple[int, int, dict[int, bytes]]] = {}  # channel -> version, generation, sets
        self._number = 0
        self._now = 0.0

    # --- the crank ----------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        self._now = now
        self._begin(self._keep_lease())

    def tick(self, now: float) -> None:
        self._now = now
        for task, until in list(self._sleeping.items()):
            if until <= now:
                del self._sleeping[task]
                self._go_on(task, None)

    def next_deadline(self) -> float | None:
        return min(self._sleeping.values(), default=None)

    def answered(self, task: int, answer: DriverAnswer, now: float) -> None:
        self._now = now
        self._go_on(task, answer)

    def done(self, task: int, result: Any, now: float) -> None:
        """A job's result, or the exception that it ended with."""
        self._now = now
        self._go_on(task, result)

    def _begin(self, task: Task) -> int:
        self._number += 1
        self._tasks[self._number] = task
        self._go_on(self._number, None)
        return self._number

    def _go_on(self, number: int, value: Any) -> None:
        task = self._tasks.get(number)
        if task is None:
            return
        try:
            step = task.throw(value) if isinstance(value, Exception) else task.send(value)
        except StopIteration:
            del self._tasks[number]
            return
        if isinstance(step, Question):
            self.asks.append((number, step.verb, encode_body(step.body) if step.body is not None else b""))
        elif isinstance(step, Sleep):
            self._sleeping[number] = step.until
        else:
            self.jobs.append((number, step))

    # --- the lease and the catalog ------------------------------------------------------------------------

    def _keep_lease(self) -> Task:
        while True:
            answer = yield Question("serve", Serve(self.name, self.incarnation))
            if answer.outcome != "done":
                self.refused, self.lease = answer.text, 0
                yield Sleep(self._now + BUSY_S)
                continue
            serving = decode_body(answer.body, Serving)
            self.refused, self.lease = "", serving.lease
            if serving.generation != self.generation:
                answer = yield Question("catalog", None)
                if answer.outcome == "done":  # else it is asked with the next renewal
                    self._take(decode_body(answer.body, Listing))
            yield Sleep(self._now + min(RENEW_S, POLL_S * 4))

    def _take(self, listing: Listing) -> None:
        self.generation = listing.generation
        before, self.datasets = self.datasets, {dataset.name: dataset for dataset in listing.datasets}
        self.channels = {channel.name: channel for channel in listing.channels}
        for name in list(self.positions):
            if not _same(before.get(name), self.datasets.get(name)):
                del self.positions[name]
        for name in self.channels:
            if self._of_channel.get(name) not in self._tasks:
                self._of_channel[name] = self._begin(self._run_channel(name))

    # --- a channel ----------------------------------------------------------------------------------------

    def _run_channel(self, name: str) -> Task:
        """Until the channel is gone."""
        failures = 0
        while (channel := self.channels.get(name)) is not None:
            if failures:
                yield Sleep(self._now + min(2.0 ** (failures - 1), RETRY_MOST_S))
            else:
                yield from self._until_due(channel)
            if not self.lease or name not in self.channels:
                continue
            try:
                yield from self._execute(self.channels[name])
                failures = 0
                self.trouble.pop(name, None)
            except Interrupted:
                yield Sleep(self._now + POLL_S)
            except Exception as error:  # whatever the job met: it is told, and tried again
                failures += 1
                self.trouble[name] = _first_line(error)
                yield Question("failed", Failed(self.lease, name, self.trouble[name][:2000]))

    def _until_due(self, channel: Channel) -> Task:
        if not channel.period_s:
            yield Sleep(self._now + POLL_S)
            return
        due = (math.floor(self._now / channel.period_s) + 1) * channel.period_s
        yield Sleep(due)
        missed = int((self._now - due) / channel.period_s)
        if missed:
            self.late[channel.name] = self.late.get(channel.name, 0) + missed

    def _execute(self, channel: Channel) -> Task:
        begun = self._now
        answer = yield Question("plan", PlanAsk(self.lease, channel.name, channel.version))
        if answer.outcome == "idle":
            return
        plan = decode_body(self._good(answer), Plan)
        sets = yield from self._fetch_sets(plan)
        for name, _, up_to in plan.cuts:
            yield from self._fetch_rows(name, up_to)
        runs: Runs = yield Execute(channel, plan, sets, self.datasets)
        if not channel.new:
            before = yield from self._fetch_state(plan)
            runs = compared(before, runs, sets, plan.at)
        pieces = list(split(runs))
        where = (self.lease, plan.channel, plan.version, plan.execution, self.incarnation & 0x7FFFFFFF)
        for number, piece in enumerate(pieces):
            self._good((yield Question("put", Put(*where, number, piece))), also=("again",))
        late = self.late.get(channel.name, 0)
        answer = yield Question("commit", Commit(*where, len(pieces), self._now - begun, late))
        self._good(answer)
        self.late[channel.name] = self.late.get(channel.name, 0) - late
        self.executed[channel.name] = plan.execution

    def _good(self, answer: DriverAnswer, also: tuple[str, ...] = ()) -> bytes:
        if answer.outcome in ("lease", "version"):
            raise Interrupted(answer.text)
        if answer.outcome != "done" and answer.outcome not in also:
            raise RuntimeError(f"the back end says {answer.outcome}: {answer.text}")
        return answer.body

    def _fetch_sets(self, plan: Plan) -> Generator[Step, Any, dict[int, bytes]]:
        known = self._sets.get(plan.channel)
        if known is not None and known[:2] == (plan.version, plan.generation):
            return known[2]
        sets: dict[int, bytes] = {}
        after, more = -1, True
        while more:
            asked = SetsAsk(plan.channel, plan.version, plan.generation, after)
            part = decode_body(self._good((yield Question("sets", asked))), Sets)
            sets.update(part.sets)
            more = part.more and bool(part.sets)
            after = part.sets[-1][0] if part.sets else after
        self._sets[plan.channel] = (plan.version, plan.generation, sets)
        return sets

    def _fetch_state(self, plan: Plan) -> Generator[Step, Any, Before]:
        """What the execution before this one gave; nothing if this version has none."""
        rows: list[bytes] = []
        more = True
        while more:
            asked = StateAsk(plan.channel, plan.version, plan.execution - 1, len(rows))
            part = decode_body(self._good((yield Question("state", asked))), State)
            rows += part.rows
            more = part.more
        return read_state(rows)

    def _fetch_rows(self, name: str, up_to: int) -> Task:
        """One fetch for all channels; who comes second waits."""
        while self.positions.get(name, 0) < up_to:
            if name in self._fetching:
                yield Sleep(self._now + 0.05)
                continue
            self._fetching.add(name)
            try:
                if (dataset := self.datasets.get(name)) is None:
                    raise Interrupted(f"dataset {name} is gone")
                asked = RowsAsk(name, self.positions.get(name, 0), up_to, PULL_BYTES)
                rows = decode_body(self._good((yield Question("rows", asked))), Rows)
                yield KeepRows(dataset, rows.rows, rows.through, rows.start)
                if not _same(dataset, self.datasets.get(name)):
                    raise Interrupted(f"dataset {name} is another one now")
                self.positions[name] = max(self.positions.get(name, 0), rows.through)
            finally:
                self._fetching.discard(name)


def split(runs: Runs) -> Generator[Runs, None, None]:
    """Pieces that fit into a message, at least one."""
    piece: Runs = []
    size = 0
    for run in runs:
        for part in [run] if len(run.body) <= PUT_BYTES else cut(run):
            if piece and size + len(part.body) > PUT_BYTES:
                yield piece
                piece, size = [], 0
            piece.append(part)
            size += len(part.body)
    yield piece


def cut(run: Run) -> Generator[Run, None, None]:
    """One that is too much for a message."""
    part: list[bytes] = []
    size = 0
    for row in rows_of(run):
        if len(row) > ROW_BYTES:
            raise RuntimeError(f"a row of {len(row)} bytes: {ROW_BYTES} at most")
        if part and size + len(row) > PUT_BYTES:
            yield run_of(run.be, part)
            part, size = [], 0
        part.append(row)
        size += len(row) + 8
    yield run_of(run.be, part)


def _same(one: Dataset | None, other: Dataset | None) -> bool:
    """Whether rows of one are rows of the other."""
    return one is not None and other is not None and one.since == other.since


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
