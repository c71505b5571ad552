"""Channels that only filter: recognised, run at the back end without a driver, and equal to the query."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.client.session import Session
from grapevine.filters.evaluate import matches
from grapevine.wire import encode_attributes
from grapevine.wire.catalog import Channel, Column, Comparison, Dataset, Direct, Term
from grapevine.wire.columns import column_value
from grapevine.wire.driving import FedRow
from grapevine.wire.parameters import Parameter
from overlay.channels.direct import filter_of, typed
from overlay.channels.verbs import ChannelVerbs, Definitions
from pipeline.channels.direct import direct
from tests.town import Town, founded, publish

COLUMNS = (("id", "bigint"), ("type", "string"), ("lat", "double"), ("lon", "double"), ("at", "timestamp"))
DATASETS = {"R": Dataset("R", "class = 'report'", COLUMNS), "F": Dataset("F", file="f.csv")}
PARAMETERS = (Parameter("low", "bigint"), Parameter("kind", "string"), Parameter("km", "double"))


def form(sql: str, period_s: float = 0.0, new: tuple[str, ...] = ("R",)) -> Direct | None:
    return direct(sql, PARAMETERS, period_s, new, DATASETS)


@pytest.mark.parametrize(
    "where",
    [
        "id > :low",
        "r.id >= :low AND (r.type = :kind) AND 7 > r.id",
        "near(r.lat, r.lon, 60.1, -24.5, :km) AND type <> 'fire'",
        "id > -5 AND id <= :low AND lat < 3",
    ],
)
def test_filters_are_recognised(where: str) -> None:
    assert form(f"SELECT r.id, type AS what FROM R r WHERE {where}") is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id + 1 AS id FROM R WHERE id > :low",
        "SELECT id FROM R WHERE id > :low OR id < 3",
        "SELECT id FROM R WHERE id > :km",  # SQL would convert
        "SELECT id FROM R WHERE type > 5",
        "SELECT id FROM R WHERE id = 1.5",
        "SELECT id FROM R WHERE at > 5",
        "SELECT id, accepted_at FROM R",
        "SELECT * FROM R",
        "SELECT DISTINCT id FROM R",
        "SELECT id FROM R ORDER BY id LIMIT 3",
        "SELECT a.id FROM R a JOIN R b ON a.id = b.id",
        "SELECT id FROM R_all WHERE id > :low",
        "SELECT count(id) AS n FROM R GROUP BY type",
        "SELECT id FROM R UNION SELECT id FROM R",
    ],
)
def test_what_takes_more_is_not(sql: str) -> None:
    assert form(sql) is None


def test_only_continuous_ones() -> None:
    assert form("SELECT id FROM R", 10.0) is None and form("SELECT id FROM R", new=()) is None


OPERATORS = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(sorted(OPERATORS)), st.integers(-3, 3)), max_size=4),
    st.one_of(st.none(), st.integers(-4, 4)),
)
def test_the_filter_is_the_condition(asked: list[tuple[str, int]], value: int | None) -> None:
    """As SQL has it: nothing is true of null."""
    comparisons = tuple(Comparison("id", "bigint", op, Term(f"p{n}")) for n, (op, _) in enumerate(asked))
    given_: dict[str, Any] = {f"p{n}": operand for n, (_, operand) in enumerate(asked)}
    found = filter_of(Direct((), comparisons, ()), given_)
    row = {} if value is None else {"id": value}
    wanted = all(value is not None and OPERATORS[op](value, operand) for op, operand in asked)
    assert matches(found, row) == wanted


# --- at the back end ---------------------------------------------------------------------------------------


def with_direct(town: Town, sql: str = "SELECT id AS number FROM Reports WHERE id > :low") -> None:
    plain = Direct((Column("id", "number", "bigint"),), (Comparison("id", "bigint", ">", Term("low")),), ())
    low = Parameter("low", "bigint")
    channel = Channel("Direct", sql, (low,), 0.0, ("Reports",), direct=plain)
    verbs = next(b for b in town.cores["back"].behaviours if isinstance(b, ChannelVerbs))
    assert verbs.desk is not None
    store = verbs.desk.store
    store.catalog.create([], [channel])
    store.executions.begin(store.catalog.channels["Direct"])
    store.note_catalog()


def rows(town: Town, name: str, state: Any) -> list[dict[str, Any]]:
    town.run(0.5)
    return [result.row for result in town.sessions[name][0].channels.take(state, 100)]


def test_rows_come_without_a_driver() -> None:
    town = founded()
    with_direct(town)
    states = {}
    for name, broker, low in (("ann", "edge", 0), ("bob", "edge", 2), ("eve", "back", 2)):
        session = town.attach(name, broker, Session(name, len(name + broker)))
        states[name] = session.channels.subscribe("Direct", {"low": low}, None, town.now, 5.0)
        town.run(0.1)
    publish(town, 1, 2, 3)
    town.sessions["publisher"][0].publish({"class": "report", "id": "text"})
    publish(town, 4)
    assert rows(town, "ann", states["ann"]) == [{"number": n} for n in (1, 2, 3, 4)]
    for name in ("bob", "eve"):
        assert rows(town, name, states[name]) == [{"number": n} for n in (3, 4)]
    assert town.cores["back"].status()["driver"]["driver"] is None


def test_a_word_that_is_the_name_of_another_dataset() -> None:
    town = founded()
    with_direct(town, "SELECT id AS number FROM Reports WHERE id > :low AND type <> 'Others'")
    verbs = next(b for b in town.cores["back"].behaviours if isinstance(b, ChannelVerbs))
    verbs.create(
        Definitions([Dataset("Others", "class = 'other'", (("id", "bigint"),))], []), False, town.now
    )
    session = town.attach("ann", "edge")
    ann = session.channels.subscribe("Direct", {"low": 0}, None, town.now, 5.0)
    town.run(0.1)
    publish(town, 1)
    assert rows(town, "ann", ann) == [{"number": 1}]


def test_a_back_end_that_is_killed_goes_on() -> None:
    town = founded()
    with_direct(town)
    session = town.attach("ann", "edge")
    ann = session.channels.subscribe("Direct", {"low": 0}, None, town.now, 5.0)
    town.run(0.1)
    publish(town, 1, 2)
    town.crash("back")
    town.run(1.0)
    town.start("back")
    town.run(10.0)
    publish(town, 3)
    assert rows(town, "ann", ann) == [{"number": n} for n in (1, 2, 3)]


def test_the_driver_is_not_told_of_it() -> None:
    from grapevine.wire.driving import Listing

    town = founded()
    with_direct(town)
    town.attach("driver", "back")
    listed = msgspec.msgpack.decode(town.ask("catalog", ()).body, type=Listing)
    assert [channel.name for channel in listed.channels] == ["Near"]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e300, -(2**63), 2**63 - 1, "now", True])
def test_a_time_that_is_none_is_null_and_stops_nobody(value: Any) -> None:
    """One publisher's odd attribute must not end the back end, which would read it again and again."""
    assert column_value(value, "timestamp") is None
    assert column_value(-62_135_596_800, "timestamp") == -62_135_596_800_000_000
    dataset = Dataset("R", "true", (("id", "bigint"), ("at", "timestamp")))
    row = FedRow(1, 1, 1, "p", 9.0, encode_attributes({"id": 7, "at": value}), b"")
    assert typed(dataset, row) == {"id": 7}
