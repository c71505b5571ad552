"""Named mistakes of channels (see mutants.py)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from grapevine.client.session.driving import Driver
from grapevine.wire.catalog import Channel
from grapevine.wire.channels import SubscribeChannel
from grapevine.wire.driving import Plan
from overlay.channels.backend import BackEnd
from overlay.channels.dataset_log import MemoryDatasetLog
from overlay.channels.executions import Executions
from overlay.channels.interest import BackendSubscription, Interest
from overlay.channels.records import JournalRecords
from overlay.channels.subscribers import FrontEndSubscription

Replacement = tuple[Any, str, Any]


def plan_forgotten() -> list[Replacement]:
    """The plan of an execution is in memory only: who runs it again has other input."""
    kept = JournalRecords.put

    def put(self: JournalRecords, key: str, value: bytes) -> None:
        if not key.startswith("plan/"):
            kept(self, key, value)

    return [(JournalRecords, "put", put)]


def position_kept() -> list[Replacement]:
    """A broker goes on after what it has sent, not after what has come."""
    kept = FrontEndSubscription.begin

    def begin(self: FrontEndSubscription, message: SubscribeChannel) -> None:
        if not hasattr(self, "sent"):
            kept(self, message)

    return [(FrontEndSubscription, "begin", begin)]


def fed_before_synced() -> list[Replacement]:
    return [(MemoryDatasetLog, "sync", lambda self: None)]


def taken_when_come() -> list[Replacement]:
    """Who attaches anew has taken, in the broker's eyes, whatever had come to it."""
    kept = FrontEndSubscription.begin

    def begin(self: FrontEndSubscription, message: SubscribeChannel) -> None:
        kept(self, message)
        self.taken = self.sent

    return [(FrontEndSubscription, "begin", begin)]


def state_forgotten() -> list[Replacement]:
    """A driver compares with what it remembers, and one that has just started with nothing."""
    kept = Driver._fetch_state

    def fetch(self: Driver, plan: Plan) -> Generator[Any, Any, Any]:
        before = yield from kept(self, plan)
        return before if plan.channel in self.executed else {}

    return [(Driver, "_fetch_state", fetch)]


def replaced_anew() -> list[Replacement]:
    """A channel that is replaced begins as a new one: what its last execution had not seen is left out."""
    kept = Executions.begin

    def begin(self: Executions, channel: Channel) -> None:
        if (progress := self.progress.get(channel.name)) is not None:
            progress.cuts = {}
        kept(self, channel)

    return [(Executions, "begin", begin)]


def sets_forgotten() -> list[Replacement]:
    """Every other set is in no execution: its subscribers are confirmed, and nothing ever comes. Of channels
    that deliver changes the end alone would show it."""
    kept = Interest.of

    def of(self: Interest, channel: str, version: int, generation: int) -> Iterator[BackendSubscription]:
        found = kept(self, channel, version, generation)
        return (known for known in found if known.be % 2 or channel == "All")

    return [(Interest, "of", of)]


def latecomer_empty() -> list[Replacement]:
    """Who comes when its set has a result already hears of changes only."""
    return [(BackEnd, "_first", lambda self, channel, known, fresh: fresh)]


def voided_for_all() -> list[Replacement]:
    """An execution whose channel is replaced is planned anew for everybody: who came meanwhile is past it."""
    return [(Executions, "plan_again", lambda self, voided, channel, generation: None)]


CHANNEL_MUTANTS = {
    "plan-forgotten": plan_forgotten,
    "position-kept": position_kept,
    "fed-before-synced": fed_before_synced,
    "taken-when-come": taken_when_come,
    "state-forgotten": state_forgotten,
    "replaced-anew": replaced_anew,
    "sets-forgotten": sets_forgotten,
    "latecomer-empty": latecomer_empty,
    "voided-for-all": voided_for_all,
}
