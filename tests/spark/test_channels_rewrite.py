"""One statement for all parameter sets equals one query for each: a few cases here, 200 in the proof; and the
traps of Spark 4.3 that the rewriting goes around, each shown."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.filters.geo import distance_km
from pipeline.channels import rewrite as rewriting
from pipeline.channels.functions import cell, cell_degrees, cells, near_sql, register_nearest
from pipeline.channels.rewrite import one_query, rewrite, uses, with_cells
from tests.spark.channels_oracle import (
    Case,
    compare,
    limit_over_all_sets,
    one_by_one,
    prepare,
    rewritten,
    same,
)

TOP = Case(
    "SELECT r.id, r.size -:n AS less FROM Reports r WHERE r.size > :n ORDER BY less DESC, r.id LIMIT 3",
    {7: (-3,), 8: (2,), 2**64 - 1: (100,)},
    True,
)
LEFT = Case(
    "SELECT r.id, h.name FROM Reports r LEFT JOIN Shelters h ON near(r.lat, r.lon, h.lat, h.lon, 2)"
    " WHERE near(r.lat, r.lon, :lat, :lon, :km)",
    {1: (40.0, -75.0, 4.0), 2: (40.05, -75.0, 15.0), 3: (0.0, 0.0, 3.0)},
    False,
)


def test_random_shapes(spark: Any) -> None:
    tally = compare(spark, seed=11, cases=6)
    assert tally.differ == [] and tally.equal + tally.refused == 6 and tally.refused <= 1
    assert tally.rows > 0


def test_a_limit_is_of_each_set_and_a_mutant_is_found(spark: Any) -> None:
    prepare(spark, Random(1))
    wanted, _ = one_by_one(spark, TOP)
    assert [len(wanted[be]) for be in TOP.sets] == [3, 3, 0]
    form, found = rewritten(spark, TOP)
    assert form == "flat" and found == wanted
    assert rewritten(spark, TOP, lateral=True)[0] == "lateral"
    for be in TOP.sets:
        assert same(rewritten(spark, TOP, lateral=True)[1][be], wanted[be], False)
    kept = limit_over_all_sets()
    try:
        assert rewritten(spark, TOP)[1] != wanted, "a limit over all sets at once was not found"
    finally:
        rewriting._numbered = kept


def test_a_left_join_with_real_matches_through_cells(spark: Any) -> None:
    prepare(spark, Random(2))
    wanted, _ = one_by_one(spark, LEFT)
    matched = [row for rows in wanted.values() for row in rows if row[1] is not None]
    unmatched = [row for rows in wanted.values() for row in rows if row[1] is None]
    assert len(matched) > 20 and len(unmatched) > 5, "the case does not test what it is for"
    form, found = rewritten(spark, LEFT)
    assert form == "flat with cells"
    assert all(same(found[be], wanted[be], False) for be in LEFT.sets)


# --- Spark's traps -----------------------------------------------------------------------------------------


def test_a_negative_argument_is_a_comment_to_spark(spark: Any) -> None:
    """If this fails Spark has mended it: `one_query` may then do without parentheses."""
    assert spark.sql("select 1-:x as y", args={"x": -1.5}).columns != ["y"]
    sql = "SELECT 1-:x AS y FROM Reports WHERE id = 0 AND 1-:x > 2"
    prepare(spark, Random(1))
    assert [tuple(row) for row in spark.sql(one_query(sql), args={"x": -1.5}).collect()] == [(2.5,)]
    assert rewritten(spark, Case(sql, {5: (-1.5,), 6: (1.5,)}, False))[1] == {5: [(2.5,)], 6: []}


def test_a_table_function_with_a_limit_drops_rows(spark: Any) -> None:
    """If this fails Spark has mended it. The rewriting never makes one: lateral it is a subquery."""
    rows = "(1,'a'),(2,'a'),(3,'a'),(4,'b'),(5,'b')"
    spark.sql(f"create or replace temporary view t as select * from values {rows} as t(x,k)")
    spark.sql("create or replace temporary view o as select * from values ('a'),('b') as o(k)")
    spark.sql(
        "create or replace temporary function top2(w string) returns table (x int)"
        " return select x from t where t.k = top2.w order by x limit 2"
    )
    right = [("a", 1), ("a", 2), ("b", 4), ("b", 5)]
    inline = (
        "select o.k, q.x from o, lateral (select x from t where t.k = o.k order by x limit 2) q order by 1, 2"
    )
    assert [tuple(row) for row in spark.sql(inline).collect()] == right
    called = "select o.k, q.x from o, lateral top2(o.k) q order by 1, 2"
    assert [tuple(row) for row in spark.sql(called).collect()] != right
    assert "LATERAL (SELECT" in rewrite("SELECT count(*) AS n FROM t WHERE k = :k").sql


def test_least_takes_a_number_for_null(spark: Any) -> None:
    """Why near has no LEAST: a report without a place would be as far as anything can be, and no farther."""
    assert spark.sql("select least(1.0D, null) as x").collect()[0].x == 1.0
    near = near_sql("40.0", "cast(null as double)", "40.0", "-75.0", "30000")
    assert spark.sql(f"select {near} as x").collect()[0].x is None


# --- near and nearest --------------------------------------------------------------------------------------

LATITUDES = st.sampled_from((-90.0, -89.99, -0.001, 0.0, 45.0, 60.17, 89.9, 90.0)) | st.floats(-90, 90)
LONGITUDES = st.sampled_from((-180.0, -179.99, -0.001, 0.0, 24.94, 179.999, 180.0)) | st.floats(-180, 180)
DISTANCES = st.sampled_from((0.0, 0.5, 2.0, 50.0)) | st.floats(0, 300)


@given(LATITUDES, LONGITUDES, DISTANCES, st.floats(-1, 1), st.floats(0, 2 * math.pi), st.floats(0.1, 3))
def test_a_circle_has_the_cell_of_every_place_in_it(
    lat: float, lon: float, km: float, share: float, angle: float, degrees: float
) -> None:
    """Also over the date line and around the poles."""
    reach = km * share / 111.2
    x = lat + reach * math.cos(angle)
    y = lon + reach * math.sin(angle) / max(math.cos(math.radians(lat)), 1e-3)
    x = max(-90.0, min(90.0, x))
    y = (y + 180) % 360 - 180
    if distance_km(lat, lon, x, y) <= km:
        assert cell(x, y, degrees) in cells(lat, lon, km, degrees)


def test_cells_stay_few() -> None:
    small = [(40.0, -75.0, 1.0)] * 1000
    assert cell_degrees(small) == pytest.approx(1 / 111.2, rel=0.01)
    mixed = [*small, (89.9, 0.0, 2000.0), (0.0, 0.0, 15_000.0)]
    degrees = cell_degrees(mixed)
    assert sum(len(cells(*circle, degrees)) for circle in mixed) < 64 * len(mixed) + 10_000
    assert cells(95.0, 0.0, 1.0, 1.0) == cells(0.0, 0.0, -1.0, 1.0) == [-1], "no place, but a row"


@pytest.mark.parametrize(
    ("a", "b", "km"),
    [((0.0, 179.99), (0.0, -179.99), 3), ((89.99, 0.0), (89.99, 180.0), 3), ((60.0, 24.0), (60.0, 24.0), 0)],
)
def test_near_is_the_filters_distance(
    spark: Any, a: tuple[float, float], b: tuple[float, float], km: float
) -> None:
    def near(reach: float) -> bool:
        text = near_sql(*map(repr, (*a, *b)), repr(reach))
        return bool(spark.sql(f"select {text} as x").collect()[0].x)

    away = distance_km(*a, *b)
    assert away <= km and near(km)
    assert not near(away - 1e-6) and near(away + 1e-6)
    sql = "SELECT p.n FROM P p WHERE near(p.lat, p.lon, :lat, :lon, :km)"
    places = spark.createDataFrame([(1, *b), (2, 20.0, 20.0)], "n int, lat double, lon double")
    places.createOrReplaceTempView("P")
    assert rewritten(spark, Case(sql, {9: (*a, float(km) + 1e-6)}, False))[1] == {9: [(1,)]}


def test_nearest_are_the_nearest(spark: Any) -> None:
    prepare(spark, Random(4))
    table = spark.sql("select name, lat, lon, room from Shelters").toArrow()
    register_nearest(spark, "Shelters", table, "name string, lat double, lon double, room bigint")
    called = "nearest(Shelters, r.lat, r.lon, 3)"
    sql = f"SELECT r.id, r.lat, r.lon, {called} AS shelters FROM Reports r WHERE r.size > :n"
    assert list(uses(sql).nearest) == ["Shelters"]
    found = rewritten(spark, Case(sql, {1: (0,), 2: (15,)}, False))[1]
    known = table.to_pylist()
    assert len(found[1]) > len(found[2]) > 0
    for _, lat, lon, shelters in (*found[1], *found[2]):
        if lat is None or lon is None or abs(lat) > 90 or abs(lon) > 180:  # null, or no place
            assert shelters == []
            continue
        wanted = sorted(known, key=lambda each: distance_km(lat, lon, each["lat"], each["lon"]))[:3]
        assert [each.name for each in shelters] == [each["name"] for each in wanted]
        assert shelters[0].km == pytest.approx(distance_km(lat, lon, wanted[0]["lat"], wanted[0]["lon"]))


@pytest.mark.parametrize(
    ("sql", "form"),
    [
        ("SELECT a FROM t WHERE b = :x", "flat"),
        ("SELECT a, row_number() OVER (ORDER BY a) AS n FROM t WHERE b = :x", "lateral"),
        ("SELECT count(*) AS n FROM t WHERE b = :x", "lateral"),
        ("SELECT a FROM t RIGHT JOIN u ON t.a = u.a AND u.b = :x", "lateral"),
        ("SELECT a FROM t FULL JOIN u ON t.a = u.a WHERE u.b = :x", "lateral"),
        ("SELECT a FROM t WHERE b IN (SELECT b FROM u WHERE c = :x)", "lateral"),
        ("SELECT a, (SELECT max(b) FROM u) AS m FROM t WHERE b = :x", "flat"),
        ("SELECT a, count(*) AS n FROM t WHERE b = :x GROUP BY ROLLUP (a)", "lateral"),
        ("SELECT DISTINCT a FROM t WHERE b = :x LIMIT 2", "lateral"),
        ("SELECT * FROM t JOIN u USING (a) WHERE b = :x", "lateral"),
        ("SELECT a FROM t WHERE b = :x UNION SELECT a FROM u", "lateral"),
    ],
)
def test_which_form(sql: str, form: str) -> None:
    statement = rewrite(sql)
    assert statement.form == form
    assert with_cells(statement, 0.01) == statement.sql
