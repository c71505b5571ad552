"""What the driver of channels asks of the back end, and the answers: bodies of DriverAsk and DriverAnswer.

serve    the lease: one driver at a time, renewed before it ends
catalog  datasets and channels
plan     the next execution of a channel: the same answer until it is committed
sets     the parameter sets of a plan
rows     rows of a fed dataset, by positions
put      a piece of an execution's results
commit   that was all: from now on they are the execution's results
failed   an execution that will be tried again
state    what an execution left for the next one to compare with
end      the lease is given back
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from grapevine.wire.catalog import Channel, Dataset

LEASE_S = 60.0
RENEW_S = 10.0
VERBS = ("serve", "catalog", "plan", "sets", "rows", "put", "commit", "failed", "state", "end")

T = TypeVar("T")


class Serve(msgspec.Struct, frozen=True, array_like=True):
    driver: str
    incarnation: int


class Serving(msgspec.Struct, frozen=True, array_like=True):
    lease: int
    generation: int  # of the catalog


class Listing(msgspec.Struct, frozen=True, array_like=True):
    generation: int
    datasets: tuple[Dataset, ...]
    channels: tuple[Channel, ...]


STATE = 0  # among results, in place of a back-end subscription: for the next execution


class PlanAsk(msgspec.Struct, frozen=True, array_like=True):
    lease: int
    channel: str
    version: int


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """Execution e of a channel: which rows of each fed dataset it sees, and for which sets it runs."""

    channel: str
    version: int
    execution: int
    generation: int  # of the sets
    at: float
    cuts: tuple[tuple[str, int, int], ...]  # dataset: new rows are after the first, all rows up to the second


class SetsAsk(msgspec.Struct, frozen=True, array_like=True):
    channel: str
    version: int
    generation: int
    after: int = -1  # back-end subscription; they come in their order


class Sets(msgspec.Struct, frozen=True, array_like=True):
    sets: tuple[tuple[int, bytes], ...]
    more: bool


class RowsAsk(msgspec.Struct, frozen=True, array_like=True):
    dataset: str
    after: int
    up_to: int
    most_bytes: int


class FedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A publication as a dataset keeps it."""

    publisher: int
    incarnation: int
    sequence: int
    publisher_name: str
    accepted_at: float
    attributes: bytes
    payload: bytes


class Rows(msgspec.Struct, frozen=True, array_like=True):
    rows: tuple[tuple[int, FedRow], ...]  # with their positions
    through: int  # complete up to here
    start: int  # the first position that is still kept


class StateAsk(msgspec.Struct, frozen=True, array_like=True):
    """What an execution left for the next one to compare with."""

    channel: str
    version: int
    execution: int
    after: int = 0  # so many rows are known


class State(msgspec.Struct, frozen=True, array_like=True):
    rows: tuple[bytes, ...]
    more: bool


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows of one back-end subscription as they are kept: nobody on the way takes them apart."""

    be: int
    rows: int
    size: int  # bytes of the rows
    body: bytes  # msgpack: an array of the rows, each of them bytes


def run_of(be: int, rows: list[bytes]) -> Run:
    return Run(be, len(rows), sum(map(len, rows)), msgspec.msgpack.encode(rows))


def array_head(count: int) -> bytes:
    """How msgpack begins an array."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def is_plausible(run: Run) -> bool:
    """Whether its body begins as that of so many rows, and has room for them."""
    if not 0 <= run.rows <= len(run.body):
        return False
    head = array_head(run.rows)
    return run.body.startswith(head) and 0 <= run.size <= len(run.body) - len(head) - 2 * run.rows


_rows_of = msgspec.msgpack.Decoder(list[bytes]).decode


def rows_of(run: Run) -> list[bytes]:
    """Raises ValueError for what is no array of rows."""
    try:
        return _rows_of(run.body)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


class Put(msgspec.Struct, frozen=True, array_like=True):
    lease: int
    channel: str
    version: int
    execution: int
    attempt: int
    piece: int
    runs: list[Run]  # sorted by back-end subscription


class Commit(msgspec.Struct, frozen=True, array_like=True):
    lease: int
    channel: str
    version: int
    execution: int
    attempt: int
    pieces: int
    took_s: float = 0.0
    late: int = 0  # executions since the last one that were due and left out


class Failed(msgspec.Struct, frozen=True, array_like=True):
    lease: int
    channel: str
    text: str


def encode_body(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def decode_body(body: bytes, kind: type[T]) -> T:
    """Raises ValueError for what is none."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
