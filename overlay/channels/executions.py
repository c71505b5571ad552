"""SPEC A1: a channel's executions at the back end: planned, run elsewhere, committed.

Execution e is planned once: which rows of each fed dataset are new to it and up to where it sees them, and
for which generation of sets it runs. The plan is on disk before the driver has it and is the answer until e
is committed, so that a driver that runs it again has the same input. Executions of a channel count from 1
without a gap, over all its versions. A channel without sets moves its cut on and counts nothing.
"""

from __future__ import annotations

import msgspec

from grapevine.wire.catalog import Channel, Dataset
from grapevine.wire.driving import STATE, Plan
from overlay.channels.catalog import Catalog, mentions
from overlay.channels.dataset_log import DatasetLog
from overlay.channels.interest import Interest
from overlay.channels.records import Records
from overlay.channels.results import Results


class Progress(msgspec.Struct, array_like=True, gc=False):
    """How far a channel has come."""

    executed: int = 0
    cuts: dict[str, int] = msgspec.field(default_factory=dict)  # of each dataset that is new to it
    at: float = 0.0  # of the last execution
    rows: int = 0
    size: int = 0  # bytes
    took_s: float = 0.0
    late: int = 0  # executions that were due and left out


def store_name(channel: str, version: int) -> str:
    return f"{channel}@{version}"


class Executions:
    def __init__(
        self, catalog: Catalog, interest: Interest, log: DatasetLog, results: Results, records: Records
    ) -> None:
        self.catalog = catalog
        self.interest = interest
        self.log = log
        self.results = results
        self.records = records
        self.progress: dict[str, Progress] = {}
        self.plans: dict[str, Plan] = {}
        self.times: dict[str, dict[int, float]] = {}  # store name -> execution -> when
        # By dataset and since when it is that one: the first row that was not too old when it was looked at.
        self._fresh_from: dict[tuple[str, int], int] = {}
        for key, value in records.items():
            kind, _, rest = key.partition("/")
            if kind == "progress":
                self.progress[rest] = msgspec.msgpack.decode(value, type=Progress)
            elif kind == "plan":
                self.plans[rest] = msgspec.msgpack.decode(value, type=Plan)
            elif kind == "at":
                store, _, execution = rest.rpartition("/")
                self.times.setdefault(store, {})[int(execution)] = msgspec.msgpack.decode(value, type=float)
        self._finish_committed()

    def _finish_committed(self) -> None:
        """Results that were committed just before a crash: the plan is done, whatever was noted of it."""
        for channel, plan in list(self.plans.items()):
            store = store_name(channel, plan.version)
            if plan.execution in self.results.executions(store):
                self._done(plan, 0.0, plan.at)
        self._drop_unplanned()

    def _drop_unplanned(self) -> None:
        """A direct channel plans and commits in one burst: results whose plan did not come to disk were told
        to nobody, and the rows are new to the next execution."""
        for channel in self.catalog.channels.values():
            executed = self.progress.get(channel.name, Progress()).executed
            self.results.drop(store_name(channel.name, channel.version), 2**62, executed)

    def begin(self, channel: Channel) -> Plan | None:
        """A channel that is new or other: from here on rows are new to it, or from where its version before
        has come. The plan that was open is void and returned."""
        voided = self.plans.get(channel.name)
        progress = self.progress.setdefault(channel.name, Progress())
        progress.cuts = {each: progress.cuts.get(each, self.log.end(each)) for each in channel.new}
        self._note(channel.name)
        self._void(channel.name)
        return voided

    def plan_again(self, voided: Plan, channel: Channel, generation: int) -> None:
        """The new version runs what was planned for the one before: the same sets, which `generation` ends,
        over the same rows. Who came after the plan was told to begin with the next execution, and is owed
        what has come since."""
        progress, seen = self.progress[channel.name], {name: up_to for name, _, up_to in voided.cuts}
        cuts = []
        for name in self._fed(channel):
            after = progress.cuts[name] if name in channel.new else self.log.end(name)
            cuts.append((name, after, max(after, seen.get(name, 0)) if name in channel.new else after))
        again = msgspec.structs.replace(
            voided, version=channel.version, generation=generation, cuts=tuple(cuts)
        )
        self._open(again)

    def _fed(self, channel: Channel) -> list[str]:
        """The datasets of its query that publications feed."""
        datasets = self.catalog.datasets.items()
        return [name for name, dataset in datasets if dataset.fed and mentions(channel, name)]

    def _open(self, plan: Plan) -> None:
        self.plans[plan.channel] = plan
        self.records.put(f"plan/{plan.channel}", msgspec.msgpack.encode(plan))

    def end(self, channel: Channel) -> None:
        """The channel is dropped: its results go. Its number goes on if it comes again."""
        self._void(channel.name)
        for version in range(1, channel.version + 1):
            self.drop_results(store_name(channel.name, version), 2**62)
        if (progress := self.progress.get(channel.name)) is not None:
            progress.cuts = {}
            self._note(channel.name)

    def _void(self, channel: str) -> None:
        if self.plans.pop(channel, None) is not None:
            self.records.delete(f"plan/{channel}")
        self.interest.forget_left(channel)

    def planned(self, channel: str) -> int | None:
        """The generation of the open plan."""
        plan = self.plans.get(channel)
        return None if plan is None else plan.generation

    def plan(self, channel: Channel, now: float) -> Plan | None:
        """None: nobody has subscribed, or a continuous one has nothing new."""
        if (known := self.plans.get(channel.name)) is not None:
            return known
        progress = self.progress.setdefault(channel.name, Progress())
        generation = self.interest.generation
        if next(self.interest.of(channel.name, channel.version, generation), None) is None:
            self._move_on(channel, progress)
            return None
        cuts = []
        for name in self._fed(channel):
            end = self.log.end(name)
            cuts.append((name, progress.cuts.get(name, end) if name in channel.new else end, end))
        if channel.period_s == 0 and all(after == end for _, after, end in cuts):
            return None
        plan = Plan(channel.name, channel.version, progress.executed + 1, generation, now, tuple(cuts))
        self._open(plan)
        return plan

    def _move_on(self, channel: Channel, progress: Progress) -> None:
        ends = {dataset: self.log.end(dataset) for dataset in channel.new}
        if progress.cuts != ends:
            progress.cuts = ends
            self._note(channel.name)

    def commit(self, plan: Plan, attempt: int, pieces: int, took_s: float, now: float, late: int = 0) -> bool:
        """False: results are missing. The commit of the results is the decision; the rest follows from it."""
        store = store_name(plan.channel, plan.version)
        if not self.results.commit(store, plan.execution, attempt, pieces):
            return False
        self._done(plan, took_s, now, late)
        return True

    def _done(self, plan: Plan, took_s: float, now: float, late: int = 0) -> None:
        store = store_name(plan.channel, plan.version)
        progress = self.progress.setdefault(plan.channel, Progress())
        index = {be: e for be, e in self.results.index(store, plan.execution).items() if be != STATE}
        progress.executed = plan.execution
        progress.cuts = {name: end for name, _, end in plan.cuts if name in progress.cuts}
        progress.at, progress.took_s = now, took_s
        progress.late += late
        progress.rows = sum(extent.rows for extent in index.values())
        progress.size = sum(extent.size for extent in index.values())
        self._note(plan.channel)
        self.times.setdefault(store, {})[plan.execution] = now
        self.records.put(f"at/{store}/{plan.execution}", msgspec.msgpack.encode(now))
        self._void(plan.channel)

    def _note(self, channel: str) -> None:
        self.records.put(f"progress/{channel}", msgspec.msgpack.encode(self.progress[channel]))

    # --- keeping ------------------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """Results and rows that are older than they are to be kept."""
        for channel in self.catalog.channels.values():
            last = 0 if channel.new else self.progress[channel.name].executed  # is compared with
            for version in range(1, channel.version + 1):
                store = store_name(channel.name, version)
                times = self.times.get(store, {})
                gone = [e for e, at in times.items() if at < now - channel.keep_s and e != last]
                if gone:
                    self.drop_results(store, max(gone))
        for dataset in self.catalog.datasets.values():
            if dataset.fed:
                self._trim(dataset, now)

    def drop_results(self, store: str, up_to: int) -> None:
        self.results.drop(store, up_to)
        times = self.times.get(store, {})
        for execution in [each for each in times if each <= up_to]:
            del times[execution]
            self.records.delete(f"at/{store}/{execution}")

    def _trim(self, kept: Dataset, now: float) -> None:
        """Rows that are old and that every execution has seen. A log may keep them all the same, by whole
        segments: each is looked at once."""
        dataset, key = kept.name, (kept.name, kept.since)
        needed = self.log.end(dataset) + 1
        for plan in self.plans.values():  # who runs it again is to see what it saw
            now = min(now, plan.at) if any(name == dataset for name, _, _ in plan.cuts) else now
        for channel, progress in self.progress.items():
            if channel in self.catalog.channels and dataset in progress.cuts:
                needed = min(needed, progress.cuts[dataset] + 1)
        first = max(self.log.start(dataset), self._fresh_from.get(key, 0))
        while first < needed:
            rows = self.log.read(dataset, first - 1, needed - 1, 1 << 20)
            fresh = next((read for read in rows if read.row.accepted_at >= now - kept.keep_s), None)
            if fresh is not None or not rows:
                first = fresh.position if fresh is not None else needed
                break
            first = rows[-1].position + 1
        self._fresh_from[key] = first = min(first, needed)
        self.log.trim(dataset, first)
