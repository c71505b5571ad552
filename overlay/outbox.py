"""What a broker wants done: typed lists that the driver drains after each burst, in the order journal,
opens, sends, batches, logs, closes. A control message names all its links, so that it is encoded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from grapevine.wire.messages import Batch, Deliver, Message
from overlay.journal.writing import Append
from overlay.links.outgoing import Chunk


class Open(NamedTuple):
    """Dial one of `addresses` (tried in order); the driver answers with link_up(..., dial=this number)."""

    dial: int
    addresses: tuple[str, ...]


class Record(NamedTuple):
    """A row of small durable state: the driver keeps the last value under (table, key), None ends the row.
    Everything of a drain is on disk before anything else of its outbox is done."""

    table: str
    key: str
    value: bytes | None


Kept = Mapping[str, Mapping[str, bytes]]  # by table and key: what a driver's disk had at start


class Event(NamedTuple):
    """A line of the delivery log (INTERFACES: accept, forward, deliver, drop, relocate) or of the
    broker's own log (event "note")."""

    at: float
    event: str
    publisher: str  # its name
    sequence: int
    to: str
    subscriptions: tuple[int, ...]
    hops: int
    delay_us: int
    pure: bool
    reason: str


class Outbox:
    __slots__ = ("appends", "batches", "chunks", "closes", "fatal", "journal", "logs", "opens", "sends")

    def __init__(self) -> None:
        self.journal: list[Record] = []
        self.appends: list[Append] = []  # to the log; `core.persisted` answers
        self.opens: list[Open] = []
        self.sends: list[tuple[Message, tuple[int, ...]]] = []
        self.batches: list[tuple[int, Batch | Deliver]] = []
        self.chunks: list[Chunk] = []  # what is retained of each of the batches
        self.logs: list[Event] = []
        self.closes: list[int] = []
        self.fatal: str = ""  # this broker cannot go on: say so and stop

    def __bool__(self) -> bool:
        return bool(
            self.sends
            or self.batches
            or self.appends
            or self.journal
            or self.opens
            or self.logs
            or self.closes
            or self.fatal
        )

    def batch(self, link: int, batch: Batch | Deliver, chunk: Chunk) -> None:
        self.batches.append((link, batch))
        self.chunks.append(chunk)

    def clear(self) -> None:
        self.journal.clear()
        self.appends.clear()
        self.opens.clear()
        self.sends.clear()
        self.batches.clear()
        self.chunks.clear()
        self.logs.clear()
        self.closes.clear()
        self.fatal = ""
