"""SPEC A1: the back end towards the driver: the lease, plans, sets, rows, results (wire/driving.py).

One driver at a time has the lease; another is refused until it has ended, and nothing is taken under an older
one. All answers can be asked again: a plan stays until it is committed, a second commit changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from grapevine.errors import ChannelError
from grapevine.wire.channels import DriverAnswer, DriverAsk
from grapevine.wire.driving import (
    LEASE_S,
    STATE,
    Commit,
    Failed,
    Listing,
    PlanAsk,
    Put,
    Rows,
    RowsAsk,
    Serve,
    Serving,
    Sets,
    SetsAsk,
    State,
    StateAsk,
    decode_body,
    encode_body,
    is_plausible,
)
from overlay.behaviour import Quiet, Status
from overlay.channels.backend import BackEnd
from overlay.channels.dataset_log import DatasetLogError
from overlay.channels.executions import store_name
from overlay.channels.results import ResultsError
from overlay.core import Core
from overlay.links.session import Session

SETS_BYTES = 1 << 20
ROWS_BYTES = 4 << 20
_state_row = msgspec.msgpack.Decoder(tuple[int, list[bytes]]).decode  # a set and its rows
FAILING = 5  # failures in a row after which subscribers are told


class Refused(Exception):
    def __init__(self, outcome: str, text: str = "") -> None:
        super().__init__(text)
        self.outcome = outcome


class DriverDesk(Quiet):
    name = "driver"

    def __init__(self, backend: BackEnd) -> None:
        self.backend = backend
        self.store = backend.store
        self.driver = ""
        self.lease = 0
        self.until = 0.0
        self.since = 0.0  # no driver since
        self.failures: dict[str, tuple[int, str]] = {}  # channel -> in a row, the last one's text
        self.verbs: dict[str, tuple[type[Any], Callable[[Any, float], Any]]] = {
            "serve": (Serve, self._serve),
            "catalog": (tuple, self._catalog),
            "plan": (PlanAsk, self._plan),
            "sets": (SetsAsk, self._sets),
            "rows": (RowsAsk, self._rows),
            "state": (StateAsk, self._state),
            "put": (Put, self._put),
            "commit": (Commit, self._commit),
            "failed": (Failed, self._failed),
            "end": (Serve, self._end),
        }

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(DriverAsk, self.on_ask)

    def start(self, now: float) -> None:
        self.since = now
        self.lease = self.core.incarnation << 20

    def on_ask(self, session: Session, message: DriverAsk, now: float) -> None:
        try:
            if message.verb not in self.verbs:
                raise Refused("usage", f"no such verb: {message.verb}")
            kind, answer = self.verbs[message.verb]
            found = answer(decode_body(message.body, kind) if message.body else (), now)
        except Refused as refused:
            self.core.tell(DriverAnswer(message.request, refused.outcome, text=str(refused)), session)
            return
        except (ValueError, AttributeError) as error:
            self.core.tell(DriverAnswer(message.request, "usage", text=str(error)), session)
            return
        except (ChannelError, DatasetLogError, ResultsError) as error:
            self.core.tell(DriverAnswer(message.request, "failed", text=str(error)), session)
            return
        self.core.tell(DriverAnswer(message.request, "done", encode_body(found)), session)

    # --- the lease ----------------------------------------------------------------------------------------

    def _serve(self, ask: Serve, now: float) -> Serving:
        name = f"{ask.driver}/{ask.incarnation}"
        if self.driver not in ("", name) and now < self.until:
            left_s = self.until - now
            raise Refused("busy", f"{self.driver} drives channels here; its lease ends in {left_s:.0f} s")
        if self.driver != name:
            self.driver = name
            self.lease += 1
        self.until = now + LEASE_S
        self.core.timers.at(self.until, self._ended)
        return Serving(self.lease, self.store.catalog.generation)

    def _end(self, ask: Serve, now: float) -> bool:
        """The driver goes; what it may still have under way is not taken."""
        if self.driver != f"{ask.driver}/{ask.incarnation}":
            return False
        self.until = now
        self.lease += 1
        self._ended(now)
        return True

    def _ended(self, now: float) -> None:
        if self.driver and now >= self.until:
            self.driver, self.since = "", now

    def _check(self, lease: int) -> None:
        if lease != self.lease:
            raise Refused("lease", "another driver has the lease")

    # --- executions ---------------------------------------------------------------------------------------

    def _catalog(self, ask: object, now: float) -> Listing:
        catalog = self.store.catalog
        channels = tuple(channel for channel in catalog.channels.values() if channel.direct is None)
        return Listing(catalog.generation, tuple(catalog.datasets.values()), channels)

    def _plan(self, ask: PlanAsk, now: float) -> Any:
        self._check(ask.lease)
        channel = self.store.catalog.channel(ask.channel)
        if channel.version != ask.version:
            raise Refused("version", f"{ask.channel} has version {channel.version} now")
        plan = self.store.executions.plan(channel, now)
        if plan is None:
            raise Refused("idle")
        return plan

    def _sets(self, ask: SetsAsk, now: float) -> Sets:
        found: list[tuple[int, bytes]] = []
        size = 0
        for known in self.store.interest.of(ask.channel, ask.version, ask.generation):
            if known.be <= ask.after:
                continue
            if size > SETS_BYTES:
                return Sets(tuple(found), True)
            found.append((known.be, known.kept.form))
            size += len(known.kept.form) + 12
        return Sets(tuple(found), False)

    def _rows(self, ask: RowsAsk, now: float) -> Rows:
        log = self.store.log
        found = log.read(ask.dataset, ask.after, ask.up_to, min(ask.most_bytes, ROWS_BYTES))
        through = found[-1].position if found else max(ask.after, min(ask.up_to, log.end(ask.dataset)))
        return Rows(tuple((read.position, read.row) for read in found), through, log.start(ask.dataset))

    def _state(self, ask: StateAsk, now: float) -> State:
        kept = self._kept_state(ask)
        found: list[bytes] = []
        size = 0
        for row in kept[ask.after :]:
            size += len(row)
            if found and size > ROWS_BYTES:
                return State(tuple(found), True)
            found.append(row)
        return State(tuple(found), False)

    def _kept_state(self, ask: StateAsk) -> list[bytes]:
        """The execution may have been of an earlier version: its sets have other ids now."""
        results = self.store.results
        for version in range(ask.version, 0, -1):
            store = store_name(ask.channel, version)
            if ask.execution in results.executions(store):
                kept = results.read(store, ask.execution, STATE)
                return kept if version == ask.version else [self._renamed(row) for row in kept]
        return []

    def _renamed(self, row: bytes) -> bytes:
        be, rows = _state_row(row)
        return msgspec.msgpack.encode((self.store.interest.later.get(be, be), rows))

    def _put(self, put: Put, now: float) -> bool:
        self._check(put.lease)
        plan = self.store.executions.plans.get(put.channel)
        if plan is None or (plan.version, plan.execution) != (put.version, put.execution):
            raise Refused("again", "this execution is not planned, or is committed already")
        if not all(map(is_plausible, put.runs)):
            raise Refused("usage", "these are no rows")
        store = store_name(put.channel, put.version)
        self.store.results.put(store, put.execution, put.attempt, put.piece, put.runs)
        return True

    def _commit(self, commit: Commit, now: float) -> bool:
        self._check(commit.lease)
        executions = self.store.executions
        plan = executions.plans.get(commit.channel)
        if plan is None or (plan.version, plan.execution) != (commit.version, commit.execution):
            progress = executions.progress.get(commit.channel)
            if progress is not None and progress.executed >= commit.execution:
                return False  # it is there already
            raise Refused("version", "this execution is not planned")
        if not executions.commit(
            plan, commit.attempt, commit.pieces, commit.took_s, now, max(commit.late, 0)
        ):
            raise Refused("missing", f"{commit.pieces} pieces were put, not all are here")
        if self.failures.pop(commit.channel, (0, ""))[0] >= FAILING:
            self.backend.troubled(commit.channel, "", "")
        self.backend.executed(plan, now)
        return True

    def _failed(self, failed: Failed, now: float) -> bool:
        self._check(failed.lease)
        if failed.channel not in self.store.catalog.channels:
            return False
        count = self.failures.get(failed.channel, (0, ""))[0] + 1
        self.failures[failed.channel] = (count, failed.text)
        if count == FAILING:
            self.backend.troubled(failed.channel, "trouble", failed.text)
        return True

    def status(self) -> Status:
        return {
            "driver": self.driver or None,
            "none_since": None if self.driver else self.since,
            "failing": {name: text for name, (count, text) in self.failures.items() if count >= FAILING},
        }
