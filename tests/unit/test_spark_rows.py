"""Columns and rows of the Spark source, without Spark: what may be fed and read, what is said of the rest."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

pa = pytest.importorskip("pyarrow", reason="needs the extra `spark`")
types = pytest.importorskip("pyspark.sql.types", reason="needs the extra `spark`")

from grapevine.filters.limits import ATTRIBUTE_CHARS, NAME_CHARS  # noqa: E402
from grapevine.spark.options import OptionError, read_options, write_options  # noqa: E402
from grapevine.spark.reading import attribute, check_schema, column  # noqa: E402
from grapevine.spark.rows import PIECE_BYTES, RowEncoder, RowError, pieces  # noqa: E402
from grapevine.spark.schema import SchemaError, choose_columns  # noqa: E402
from grapevine.wire import decode_publications  # noqa: E402
from grapevine.wire.limits import FRAME_BYTES, PAYLOAD_BYTES  # noqa: E402

BROKER = {"brokers": "tcp://127.0.0.1:7470"}


def schema(*fields: tuple[str, Any]) -> Any:
    return types.StructType([types.StructField(name, kind, True) for name, kind in fields])


def encoder(columns: Any, **said: str) -> RowEncoder:
    options = write_options(BROKER | said)
    return RowEncoder(choose_columns(columns, options), options.null_attributes, "partition 0")


def encoded(batch: Any, columns: Any, **said: str) -> list[dict[str, Any]]:
    return [msgspec.msgpack.decode(packed) for packed, _ in encoder(columns, **said).encode(batch)]


# --- what may be an attribute -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (types.DecimalType(12, 2), "type decimal: .*cast it to double or long"),
        (types.TimestampType(), "type timestamp: .*cast it to double"),
        (types.TimestampNTZType(), "type timestamp_ntz: .*cast it to string"),
        (types.DateType(), "type date: .*cast it to string"),
        (types.BinaryType(), "type binary: .*name it as the payload"),
        (types.ArrayType(types.StringType()), "type array: .*take it apart"),
        (types.MapType(types.StringType(), types.LongType()), "type map: .*take it apart"),
        (types.StructType([types.StructField("x", types.LongType())]), "type struct: .*take it apart"),
        (types.NullType(), "type void: .*leave it out"),
        (types.DayTimeIntervalType(), "leave it out"),
        (types.VariantType(), "type variant: .*leave it out"),
    ],
)
def test_a_type_that_is_no_attribute_is_told_with_what_to_do(kind: Any, advice: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'value' is of {advice}" if "type" in advice else advice):
        choose_columns(schema(("value", kind)), write_options(BROKER))


def test_every_type_that_is_one_arrives_as_it_was() -> None:
    columns = schema(
        *((name, kind()) for name, kind in [
            ("byte", types.ByteType), ("short", types.ShortType), ("int", types.IntegerType),
            ("long", types.LongType), ("float", types.FloatType), ("double", types.DoubleType),
            ("text", types.StringType), ("flag", types.BooleanType),
        ])
    )  # fmt: skip
    row = {
        "byte": -128, "short": 2**15 - 1, "int": -(2**31), "long": 2**63 - 1, "float": 0.25,
        "double": float("-inf"), "text": "Zürich \U0001f40d\0", "flag": True,
    }  # fmt: skip
    kinds = [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.large_string(),
        pa.bool_(),
    ]
    batch = pa.record_batch([pa.array([value], kind) for value, kind in zip(row.values(), kinds)], list(row))
    assert encoded(batch, columns) == [row]


# --- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["größe", "a.b.c", "mit leer", "日本", "a`b", "x" * NAME_CHARS])
def test_names_of_columns(name: str) -> None:
    columns = schema((name, types.LongType()))
    batch = pa.record_batch([pa.array([1])], [name])
    assert encoded(batch, columns) == [{name: 1}]
    if "`" not in name:
        assert encoded(batch, columns, attributes=f"n=`{name}`") == [{"n": 1}]


def test_a_name_that_is_too_long_is_told_with_what_to_do() -> None:
    with pytest.raises(SchemaError, match="rename the column in the option attributes"):
        choose_columns(schema(("x" * (NAME_CHARS + 1), types.LongType())), write_options(BROKER))


def test_two_columns_of_one_name_are_told() -> None:
    """A join leaves such frames; one of the two would be lost without a word."""
    columns = schema(("id", types.LongType()), ("id", types.LongType()), ("x", types.LongType()))
    with pytest.raises(SchemaError, match="two columns are called 'id'"):
        choose_columns(columns, write_options(BROKER))
    assert choose_columns(columns, write_options(BROKER | {"attributes": "x"})).attributes == ((2, "x"),)


# --- rows -------------------------------------------------------------------------------------------

NUMBERS = schema(("n", types.LongType()), ("payload", types.BinaryType()))


def test_a_partition_without_rows() -> None:
    batch = pa.record_batch([pa.array([], pa.int64()), pa.array([], pa.binary())], ["n", "payload"])
    assert encoder(NUMBERS).encode(batch) == [] and list(pieces([])) == []


def test_a_row_of_nulls_has_no_attributes_on_demand() -> None:
    batch = pa.record_batch([pa.array([None, 2], pa.int64()), pa.array([None, b"x"])], ["n", "payload"])
    assert encoded(batch, NUMBERS, nullAttributes="omit") == [{}, {"n": 2}]
    with pytest.raises(RowError, match="row 1 of partition 0: attribute 'n' is null"):
        encoded(batch, NUMBERS)


def test_rows_are_counted_over_batches_in_messages() -> None:
    one = encoder(NUMBERS)
    good = pa.record_batch([pa.array([1, 2, 3]), pa.array([b""] * 3)], ["n", "payload"])
    one.encode(good)
    bad = pa.record_batch([pa.array([1, None], pa.int64()), pa.array([b""] * 2)], ["n", "payload"])
    with pytest.raises(RowError, match="row 5 of"):
        one.encode(bad)


def test_the_largest_payload_is_a_frame_and_a_larger_one_is_told() -> None:
    def batch(size: int) -> Any:
        return pa.record_batch(
            [pa.array([1, 2]), pa.array([b"x" * (PIECE_BYTES - 100), b"y" * size])], ["n", "payload"]
        )

    for rows, content in pieces(encoder(NUMBERS).encode(batch(PAYLOAD_BYTES))):
        assert len(content) < FRAME_BYTES - 1000
        assert len(decode_publications(content)) == rows
    with pytest.raises(RowError, match=f"row 2 of partition 0: its payload are {PAYLOAD_BYTES + 1} bytes"):
        encoder(NUMBERS).encode(batch(PAYLOAD_BYTES + 1))


def test_text_of_the_largest_size_and_one_more() -> None:
    columns = schema(("text", types.StringType()))
    assert encoded(pa.record_batch([pa.array(["ü" * ATTRIBUTE_CHARS])], ["text"]), columns)
    with pytest.raises(RowError, match=f"has {ATTRIBUTE_CHARS + 1} characters"):
        encoded(pa.record_batch([pa.array([None, "x" * (ATTRIBUTE_CHARS + 1)])], ["text"]), columns,
                nullAttributes="omit")  # fmt: skip


# --- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1.5", "-1", "2147483647", "²", "one"])
def test_a_batch_is_a_whole_number(value: str) -> None:
    with pytest.raises(OptionError, match=r"option batch is .* whole number"):
        write_options(BROKER | {"query": "q", "batch": value})


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("broker", "tcp://127.0.0.1:7470", "unknown option 'broker': did you mean brokers?"),
        ("x", "y", "unknown option 'x': there are brokers, attributes"),
        ("advertise", "row >", "option advertise: expected a value"),
        ("brokers", "localhost:7470", "is not a broker's address"),
        ("brokers", " , ", "option brokers is missing"),
        ("once", "twice", "option once is 'twice': it is stage or number"),
        ("nullAttributes", "maybe", "it is fail or omit"),
        ("batch", "3", "give the option query too"),
        ("timeout", "soon", "option timeout is 'soon': it is a number"),
        ("timeout", "-1", "it is a number from 0 on"),
        ("query", "ü" * 120, "option query is longer than"),
    ],
)
def test_a_wrong_option_is_told(option: str, value: str, says: str) -> None:
    with pytest.raises(OptionError, match=re.escape(says)):
        write_options(BROKER | {option: value})


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("filter", "job =", "option filter: expected a value"),
        ("filter", "", "option filter is missing"),
        ("startingOffsets", "earliest", "it is latest"),
        ("failOnDataLoss", "perhaps", "it is true or false"),
        ("subscribe", "x", "unknown option 'subscribe'"),
    ],
)
def test_a_wrong_option_of_reading_is_told(option: str, value: str, says: str) -> None:
    with pytest.raises(OptionError, match=re.escape(says)):
        read_options(BROKER | {"filter": "x = 1"} | {option: value})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"attributes": "n, volume"}, "there is no column 'volume'; there are n, at"),
        ({"attributes": "n, at"}, "column 'at' is of type timestamp: an attribute is a number, a string"),
        (
            {"attributes": "n", "payload": "at"},
            "column 'at' is of type timestamp: a payload is binary or string",
        ),
        ({"attributes": "n", "payload": "raw"}, "option payload: there is no column 'raw'"),
        ({"attributes": "n, n=n"}, "two columns become the attribute 'n'"),
    ],
)
def test_a_wrong_choice_of_columns_is_told(options: dict[str, str], says: str) -> None:
    columns = schema(("n", types.LongType()), ("at", types.TimestampType()))
    with pytest.raises(SchemaError, match=re.escape(says)):
        choose_columns(columns, write_options(BROKER | options))


def test_a_number_that_is_none_is_told_with_its_row() -> None:
    columns = schema(("n", types.DoubleType()))
    with pytest.raises(RowError, match="row 2 of partition 0: attribute 'n' is NaN"):
        encoded(pa.record_batch([pa.array([1.0, float("nan")])], ["n"]), columns)


def test_rows_of_a_trigger_are_a_whole_number() -> None:
    asked = BROKER | {"filter": "x = 1"}
    assert read_options(asked | {"maxRowsPerTrigger": "7"}).rows_max == 7
    with pytest.raises(OptionError, match="whole number"):
        read_options(asked | {"maxRowsPerTrigger": "0.5"})


# --- reading ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("byte", 127, 127), ("byte", 128, None), ("short", -32769, None), ("integer", 2**31, None),
        ("long", 2.0**63, None), ("long", float("inf"), None), ("integer", 2.5, None), ("integer", 2.0, 2),
        ("double", 7, 7.0), ("double", True, None), ("string", 7, None), ("boolean", 1, None),
        ("long", None, None),
    ],
)  # fmt: skip
def test_an_attribute_that_does_not_fit_its_column_is_null(kind: str, value: Any, read: Any) -> None:
    assert attribute(value, kind) == read and type(attribute(value, kind)) is type(read)


@pytest.mark.parametrize(
    ("name", "kind", "right"),
    [
        ("sequence", types.IntegerType(), "bigint"),
        ("hops", types.StringType(), "int or bigint"),
        ("attributes", types.MapType(types.StringType(), types.LongType()), "map<string,string>"),
        ("payload", types.LongType(), "binary or string"),
        ("at", types.TimestampType(), "numbers, strings, booleans"),
    ],
)
def test_a_column_that_cannot_be_read_is_told(name: str, kind: Any, right: str) -> None:
    with pytest.raises(SchemaError, match=right):
        check_schema(schema((name, kind)))


def test_columns_about_a_delivery_are_not_an_attribute_of_that_name() -> None:
    attributes = {"hops": "many", "payload": 5, "n": 1}
    message: Any = SimpleNamespace(attributes=attributes, payload="café".encode(), hops=2, accepted_at=1.5)
    assert column(message, "hops", "integer") == 2
    assert (
        column(message, "payload", "string") == "café"
        and column(message, "payload", "binary") == message.payload
    )
    assert column(message, "accepted_at", "double") == 1.5
    assert column(message, "attributes", "map") == {"hops": "many", "payload": "5", "n": "1"}


def test_what_python_has_for_no_attribute_is_never_packed() -> None:
    """A guard behind the planner: nothing of these would be read back as what it was."""
    for value in (Decimal("1.5"), date(2026, 1, 5), datetime(2026, 1, 5)):
        batch = pa.record_batch([pa.array([value])], ["n"])
        with pytest.raises((RowError, pa.ArrowNotImplementedError)):
            encoded(batch, schema(("n", types.StringType())))
