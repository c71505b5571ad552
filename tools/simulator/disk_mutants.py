"""Named mistakes of the journal and of what stands on it (see mutants.py)."""

from __future__ import annotations

from typing import Any

from grapevine.wire.messages import Publication
from overlay.data.client import Client
from overlay.journal import recovery
from overlay.journal.contents import Contents
from overlay.journal.files import DiskFailed, Files
from overlay.journal.holding import Holding, OnDisk
from overlay.journal.index import Entry
from overlay.journal.judging import Verdict, judge_tail
from overlay.journal.names import Segment
from overlay.journal.stand_in import StandIn
from overlay.journal.stream_session import StreamDeliveries
from overlay.journal.streams import Streams
from overlay.journal.writing import Writer
from overlay.links.settling import Settling
from overlay.tree.missing import MissingBrokers
from overlay.tree.returned import ReturnedSides

Replacement = tuple[Any, str, Any]


def ack_before_sync() -> list[Replacement]:
    return [(Writer, "_sync", lambda self: None)]


def failed_sync_retried() -> list[Replacement]:
    def stubborn(self: Writer) -> None:
        try:
            self.files.sync(self._name)
        except DiskFailed:
            self.files.sync(self._name)

    return [(Writer, "_sync", stubborn)]


def cut_at_first_checksum() -> list[Replacement]:
    """Everything behind the first damage goes, and is taken for never finished."""

    def cut(scanned: Any, segment: int, synced: int) -> Verdict:
        return judge_tail(scanned, segment, 0)._replace(torn=0)

    return [(recovery, "judge_tail", cut)]


def tail_not_rewritten() -> list[Replacement]:
    def trusting(
        files: Files, incarnation: int, tail: Segment, data: bytes, verdict: Verdict, turn: int
    ) -> tuple[Writer, list[Entry]]:
        writer = Writer(files, incarnation, tail, verdict.next - 1, turn)
        writer.size = len(data)
        writer.entries = list(recovery._entries(data, verdict.records))
        return writer, writer.entries

    return [(recovery, "_write_anew", trusting)]


def custody_freed_at_persisted() -> list[Replacement]:
    release = OnDisk.release

    def hasty(self: OnDisk) -> None:
        record = self.record
        release(self)
        holding: Holding = record.holding
        holding.journal.settle(record.source, record.last_sequence, holding.core.now)

    return [(OnDisk, "release", hasty)]


def replay_newest_first() -> list[Replacement]:
    """A later publication makes the earlier one a duplicate."""
    publish = StandIn._publish

    def backwards(self: StandIn, run: list[Publication], now: float) -> None:
        for publication in reversed(run):
            publish(self, [publication], now)

    return [(StandIn, "_publish", backwards)]


def persisted_when_received() -> list[Replacement]:
    keep = Holding.keep

    def eager(
        self: Holding, client: Client, publications: list[Publication], before: int
    ) -> tuple[list[Publication], Any]:
        taken = keep(self, client, publications, before)
        client.incoming.kept()
        return taken

    return [(Holding, "keep", eager)]


def sources_not_kept() -> list[Replacement]:
    """After a restart nobody knows what is in the log."""
    return [(Contents, "_seen", lambda self, marks: None)]


def given_before_on_disk() -> list[Replacement]:
    """Readers get what the next power cut may take."""

    def hasty(self: Streams, position: int, wanted: dict[int, int]) -> None:
        self._kept(wanted)
        self.journal.after_written(self.core.now)

    return [(Streams, "_gathered", hasty)]


def settled_before_in_stream() -> list[Replacement]:
    hold = StreamDeliveries.hold

    def eager(self: StreamDeliveries, record: Settling) -> None:
        pending = record.pending
        hold(self, record)
        record.pending = pending
        self.journal._open.remove(record)

    return [(StreamDeliveries, "hold", eager)]


def newer_before_stranded() -> list[Replacement]:
    """A side that is met anew takes whatever comes: what is stranded becomes a duplicate."""
    return [(ReturnedSides, "link_up", lambda self, session, now: None)]


def restarted_broker_believed() -> list[Replacement]:
    """What it settles counts, although it has forgotten whom it had lost."""
    return [(ReturnedSides, "_restarted", lambda self, peer: None)]


def heard_counts_at_once() -> list[Replacement]:
    """Who is heard again is there with all that it had, before it has told what that is."""
    return [(MissingBrokers, "_comes_early", lambda self, peer, broker: False)]


DISK_MUTANTS = {
    "heard-counts-at-once": heard_counts_at_once,
    "restarted-broker-believed": restarted_broker_believed,
    "newer-before-stranded": newer_before_stranded,
    "sources-not-kept": sources_not_kept,
    "given-before-on-disk": given_before_on_disk,
    "settled-before-in-stream": settled_before_in_stream,
    "ack-before-sync": ack_before_sync,
    "failed-sync-retried": failed_sync_retried,
    "cut-at-first-checksum": cut_at_first_checksum,
    "tail-not-rewritten": tail_not_rewritten,
    "custody-freed-at-persisted": custody_freed_at_persisted,
    "replay-newest-first": replay_newest_first,
    "persisted-when-received": persisted_when_received,
}
