"""Lines of a delivery log as Arrow batches. What is no event is set aside with its place, never guessed at.

A block of lines is read by Arrow at once. Only when that fails are its lines looked at one by one: a damaged
line (a full disk cuts lines in two) costs itself and none of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from pipeline.segments import Piece, open_either

BLOCK_BYTES = 8 << 20
DAMAGED_SHOWN = 20  # of one task

SCHEMA = pa.schema(
    [
        ("t_ns", pa.int64()),
        ("broker", pa.string()),
        ("event", pa.string()),
        ("publisher", pa.string()),
        ("seq", pa.int64()),
        ("to", pa.string()),
        ("subscriptions", pa.list_(pa.int64())),
        ("hops", pa.int32()),
        ("delay_us", pa.int64()),
        ("pure", pa.bool_()),
        ("reason", pa.string()),
    ]
)
# What the same fields are to Spark; `damaged` is the number of lines set aside, `place` where the first were.
DDL = (
    "t_ns long, broker string, event string, publisher string, seq long, to string, "
    "subscriptions array<long>, hops int, delay_us long, pure boolean, reason string"
)
FOUND_DDL = f"{DDL}, damaged int, place string"
NEEDED = ("t_ns", "broker", "event", "publisher", "seq")


class Line(msgspec.Struct):
    """One event; a field that a later version adds is left out."""

    t_ns: int
    broker: str
    event: str
    publisher: str
    seq: int
    to: str = ""
    subscriptions: list[int] = []
    hops: int = 0
    delay_us: int = 0
    pure: bool = False
    reason: str = ""


def read(pieces: list[Piece]) -> Iterator[pa.RecordBatch]:
    """The events of the pieces, and at the end one row that says what was set aside."""
    places: list[str] = []
    damaged = 0
    for piece in pieces:
        for offset, block in blocks(piece):

            def set_aside(at: int, piece: Piece = piece, offset: int = offset) -> None:
                nonlocal damaged
                damaged += 1
                if len(places) < DAMAGED_SHOWN:
                    places.append(f"{piece.path}\n{offset + at}")

            for batch in parse(block, set_aside).to_batches():
                yield _with_notes(batch, None, None)
    if damaged:
        for number, place in enumerate(places):
            empty = pa.RecordBatch.from_pylist([{}], SCHEMA)
            yield _with_notes(empty, damaged if number == 0 else 0, place)


def _with_notes(batch: pa.RecordBatch, damaged: int | None, place: str | None) -> pa.RecordBatch:
    rows = batch.num_rows
    notes = [pa.array([damaged] * rows, pa.int32()), pa.array([place] * rows, pa.string())]
    return pa.RecordBatch.from_arrays([*batch.columns, *notes], [*SCHEMA.names, "damaged", "place"])


def blocks(piece: Piece, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Whole lines, some megabytes at once, each block with its position in the file."""
    with open_either(piece.path) as file:
        file.seek(piece.start)
        at = piece.start
        while at < piece.end:
            block = file.read(min(block_bytes, piece.end - at))
            if at + len(block) < piece.end:
                block += file.readline()
            if not block:
                return  # somebody cut the file short
            yield at, block
            at += len(block)


def parse(block: bytes, set_aside: Callable[[int], None]) -> pa.Table:
    """The events in a block; `set_aside` is told the position of each line that is none."""
    try:
        table = pajson.read_json(
            pa.BufferReader(block),
            read_options=pajson.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pajson.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore"),
        ).select(SCHEMA.names)
    except pa.ArrowInvalid:
        return _one_by_one(block, set_aside)
    if any(table.column(name).null_count for name in NEEDED):
        return _one_by_one(block, set_aside)
    return _filled(table)


def _filled(table: pa.Table) -> pa.Table:
    """A field that an older version did not write has its empty value."""
    for name, value in (("to", ""), ("hops", 0), ("delay_us", 0), ("pure", False), ("reason", "")):
        if table.column(name).null_count:
            index = table.schema.get_field_index(name)
            filled = pc.fill_null(table.column(name), pa.scalar(value, SCHEMA.field(name).type))
            table = table.set_column(index, name, filled)
    return table


def _one_by_one(block: bytes, set_aside: Callable[[int], None]) -> pa.Table:
    decoder = msgspec.json.Decoder(Line)
    rows = []
    at = 0
    for line in block.split(b"\n"):
        try:
            rows.append(msgspec.structs.asdict(decoder.decode(line)))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            if line.strip():
                set_aside(at)
        at += len(line) + 1
    return pa.Table.from_pylist(rows, SCHEMA)


def line_number(path: str, position: int) -> int:
    """Counted from 1; only asked for damaged lines, which are few."""
    number = 1
    with open_either(path) as file:
        while position > 0 and (block := file.read(min(position, BLOCK_BYTES))):
            number += block.count(b"\n")
            position -= len(block)
    return number
