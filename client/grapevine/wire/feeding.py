"""Messages of feeding, kinds 200-219; `messages` lists them with the others.

A writer whose work may be done again (a task of a batch job) feeds a broker in one of two ways. *Staged*: it
sends its rows in pieces, which the broker keeps on disk under (query, batch, partition, attempt) until the
driver commits one attempt of each partition; then the broker publishes them, once. *Numbered*: it publishes
as anybody does, under an incarnation and sequence numbers that a second run repeats, and has the broker note
on disk how far it came.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from grapevine.filters.normal import Filter
from grapevine.wire.fields import Batch, Body, Count, Id, Name, Number, Rows, Text
from grapevine.wire.gates import BROKER, PUBLISHER, Carrier, Gate
from grapevine.wire.limits import STAGED_PARTS


class StageBegin(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Opens a stage under the client's own number, or opens it again after a break."""

    kind: ClassVar[int] = 200
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    stage: Count
    query: Name
    batch: Batch
    partition: Number
    attempt: Count  # drawn at random


class StagePiece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some rows: publications as in Publish, encoded. `piece` counts from 1."""

    kind: ClassVar[int] = 201
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    stage: Count
    piece: Count
    rows: Rows
    content: Body


class StageEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """That was all: put it on the disk."""

    kind: ClassVar[int] = 202
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    stage: Count
    pieces: Count
    rows: Count


class Staged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many pieces of a stage the broker has. "open": there may be more; "kept": all of them are on disk;
    "again": the batch is committed already, nothing of it is wanted; or why the stage is given up."""

    kind: ClassVar[int] = 203
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    stage: Count
    pieces: Count
    outcome: Name  # a word of STAGE_OUTCOMES
    text: Text = ""


STAGE_OUTCOMES = ("open", "kept", "again", "limit", "disk", "order")


class StagedPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The attempt of a partition that counts, and what it must hold."""

    partition: Number
    attempt: Count
    rows: Count


StagedParts: TypeAlias = Annotated[tuple[StagedPart, ...], msgspec.Meta(max_length=STAGED_PARTS)]


class CommitBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Publish these parts under this name; whatever else is staged of the query up to the batch goes."""

    kind: ClassVar[int] = 204
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    request: Count
    query: Name
    batch: Batch
    publisher: Name
    advertisement: Filter
    parts: StagedParts


class AbortBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The driver has given the batch up: what is staged of it goes."""

    kind: ClassVar[int] = 205
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    request: Count
    query: Name
    batch: Batch


class BatchState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Answers the two above. "decided": on disk, and will be published whatever happens; "settled": all of it
    has been; "dropped"; or why nothing was decided: "missing", "busy", "limit", "not-allowed"."""

    kind: ClassVar[int] = 206
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    request: Count
    outcome: Name  # a word of BATCH_OUTCOMES
    rows: Count = 0
    refused: Count = 0  # rows that did not reach everybody
    text: Text = ""


BATCH_OUTCOMES = ("decided", "settled", "dropped", "missing", "busy", "limit", "not-allowed")
ONCE = "once-"  # begins the name of a query that no other run will come back to


class NoteNumbers(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Keep the numbers of this publisher from now on; answered when they are on disk as they stand."""

    kind: ClassVar[int] = 207
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, PUBLISHER)
    request: Count
    publisher: Id
    incarnation: Id


class NumbersNoted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everything up to this sequence number was published and is settled; 0: nothing is known."""

    kind: ClassVar[int] = 208
    gate: ClassVar[Gate] = Gate(1, Carrier.CLIENT, BROKER)
    request: Count
    sequence: Count


FeedingMessage: TypeAlias = (
    StageBegin | StagePiece | StageEnd | Staged | CommitBatch | AbortBatch | BatchState | NoteNumbers
    | NumbersNoted
)  # fmt: skip
FEEDING: tuple[type[FeedingMessage], ...] = (
    StageBegin, StagePiece, StageEnd, Staged, CommitBatch, AbortBatch, BatchState, NoteNumbers, NumbersNoted,
)  # fmt: skip
