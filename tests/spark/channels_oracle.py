"""Random channels through the rewriting, against one query for each parameter set.

    python -m tests.spark.channels_oracle [--cases 200] [--seed 1] [--mutant]

A case is a query of a random shape, data with nulls, and parameter sets with negative numbers, some of which
match nothing. Equal means the same rows with the same multiplicity for each set, in the same order where the
query has ORDER BY. With --mutant LIMIT is taken over all sets at once, which must be found. A shape that
Spark does not plan as a lateral join is no case: a channel like that cannot be created. It is counted as
refused, and another one is drawn in its place.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from random import Random
from typing import Any, NamedTuple

import msgspec

from grapevine.wire.parameters import Parameter
from pipeline.channels import rewrite as rewriting
from pipeline.channels.rewrite import one_query, rewrite, uses
from pipeline.channels.sets import sets_table

TYPES = ("fire", "ems", "it's", "traffic")
TOWNS = ("North", "South", "East", "West")
DECLARED = {
    "type": Parameter("type", "string"),
    "lat": Parameter("lat", "double"),
    "lon": Parameter("lon", "double"),
    "km": Parameter("km", "double"),
    "n": Parameter("n", "bigint"),
    "k": Parameter("k", "bigint"),
    "x": Parameter("x", "double"),
}
REPORTS = "id bigint, type string, lat double, lon double, size bigint, town string"
SHELTERS = "name string, lat double, lon double, town string, room bigint"


class Case(NamedTuple):
    sql: str
    sets: dict[int, tuple[Any, ...]]
    ordered: bool


def some(chance: Random, values: tuple[Any, ...], null: float = 0.1) -> Any:
    return None if chance.random() < null else chance.choice(values)


def place(chance: Random) -> tuple[float, float]:
    return 40 + chance.gauss(0, 0.05), -75 + chance.gauss(0, 0.05)


def reports(chance: Random, count: int) -> list[tuple[Any, ...]]:
    rows = []
    for number in range(count):
        lat, lon = place(chance)
        lat, lon = (
            (lat, lon) if chance.random() < 0.95 else chance.choice(((None, lon), (lat, None), (95.0, lon)))
        )
        rows.append(
            (number, some(chance, TYPES), lat, lon, some(chance, tuple(range(-20, 20))), some(chance, TOWNS))
        )
    return rows


def shelters(chance: Random, count: int) -> list[tuple[Any, ...]]:
    return [
        (f"s{number}", *place(chance), some(chance, TOWNS), chance.randint(-5, 15)) for number in range(count)
    ]


def conditions(chance: Random) -> list[str]:
    known = (
        "r.type = :type",
        "near(r.lat, r.lon, :lat, :lon, :km)",
        "near(r.lat, r.lon, :lat, :lon, :km) AND r.size <> :n",
        "near(r.lat, r.lon, :lat, :lon, 6.5)",
        "near(:lat, :lon, r.lat, r.lon, 4)",
        "r.size > :n",
        "r.size -:n < 12",
        "1-:x < r.size",
        "(r.type = :type OR r.size < :n)",
        "r.size BETWEEN :n AND :n + 15",
        "coalesce(r.type, 'none') <> :type",
        "r.town IN (SELECT h.town FROM Shelters h WHERE h.room > 3)",
        "r.size IS NOT NULL",
    )
    return chance.sample(known, chance.randint(1, 3))


SOURCES = (
    ("Reports r", False),
    ("Reports r JOIN Shelters h ON r.town = h.town", True),
    ("Reports r LEFT JOIN Shelters h ON near(r.lat, r.lon, h.lat, h.lon, 5)", True),
    ("Reports r LEFT JOIN Shelters h ON r.town = h.town AND h.room > :n", True),
    ("Reports r LEFT SEMI JOIN Shelters h ON r.town = h.town", False),
    ("Reports r LEFT ANTI JOIN Shelters h ON r.town = h.town AND h.room > :n", False),
    ("Shelters h RIGHT JOIN Reports r ON r.town = h.town AND h.room > 5", True),
    ("Reports r, Shelters h", True),
)


def shape(chance: Random) -> tuple[str, bool]:
    """A query and whether its rows have an order."""
    source, shelter = chance.choice(SOURCES)
    where = conditions(chance)
    if source == "Reports r, Shelters h":
        where.append("r.town = h.town")
    tail = f" FROM {source} WHERE {' AND '.join(where)}"
    listed = ["r.id", "r.type", "r.size -:n AS less", "r.lat"] + ["h.name"] * shelter
    keys = "r.id" + ", h.name" * shelter
    kind = chance.choice(
        ("plain", "plain", "star", "group", "top", "top", "top group", "distinct", "total", "odd")
    )
    if kind == "plain":
        return f"SELECT {', '.join(chance.sample(listed, chance.randint(1, len(listed))))}{tail}", False
    if kind == "star":
        return f"SELECT *{tail}", False
    if kind == "group":
        having = chance.choice(("", " HAVING count(*) > 1", " HAVING max(r.size) > :n"))
        by = chance.choice(("r.town", "1"))
        return f"SELECT r.town, count(*) AS many, sum(r.size){tail} GROUP BY {by}{having}", False
    if kind == "top":
        most = chance.choice(("3", "1", ":k"))
        order = chance.choice(
            (f"r.size DESC, {keys}", f"less, {keys}", f"r.type NULLS LAST, {keys}", f"2, {keys}")
        )
        columns = "r.id, r.type, r.size -:n AS less" + ", h.name" * shelter
        return f"SELECT {columns}{tail} ORDER BY {order} LIMIT {most}", True
    if kind == "top group":
        return (
            f"SELECT r.town, count(*) AS many{tail} GROUP BY r.town ORDER BY many DESC, r.town LIMIT 2",
            True,
        )
    if kind == "distinct":
        return f"SELECT DISTINCT r.town, r.type{tail}", False
    if kind == "total":
        return f"SELECT count(*) AS n, max(r.size) AS most{tail}", False
    return chance.choice(
        (
            f"SELECT r.id{tail} UNION ALL SELECT r.id FROM Reports r WHERE r.type = :type",
            f"WITH mine AS (SELECT r.id, r.town{tail}) SELECT m.id FROM mine m WHERE m.town = 'North'",
            f"SELECT DISTINCT r.town{tail} ORDER BY r.town LIMIT 2",
            f"SELECT t.town FROM (SELECT r.town{tail}) t",
        )
    ), False


def case(chance: Random, points: list[tuple[Any, ...]]) -> Case:
    sql, ordered = shape(chance)
    names = [name for name in DECLARED if name in uses(sql).parameters]
    found = {}
    for number in range(chance.randint(3, 6)):
        lat, lon = place(chance)
        values = {
            "type": chance.choice((*TYPES, "nothing")),
            "lat": lat,
            "lon": lon,
            "km": chance.choice((0.5, 4.0, 15.0, -1.0)),
            "n": chance.randint(-15, 10),
            "k": chance.randint(0, 5),
            "x": chance.uniform(-12, 5),
        }
        found[chance.getrandbits(64) if number else 2**64 - 1] = tuple(values[name] for name in names)
    return Case(sql, found, ordered)


def rewritten(spark: Any, given: Case, lateral: bool = False) -> tuple[str, dict[int, list[tuple[Any, ...]]]]:
    from pipeline.channels.sets import unsigned

    statement = rewrite(given.sql, lateral)
    names = uses(given.sql).parameters
    parameters = [each for name, each in DECLARED.items() if name in names]
    _, text = sets_table(spark, statement, parameters, given.sets)
    found: dict[int, list[tuple[Any, ...]]] = {be: [] for be in given.sets}
    rows = [tuple(row) for row in spark.sql(text).collect()]
    if statement.ordered:
        rows = [row[:-1] for row in sorted(rows, key=lambda row: (row[0], row[-1]))]
    for be, *row in rows:
        found[unsigned(be)].append(tuple(row))
    return statement.form + (" with cells" if statement.cells else ""), found


def one_by_one(spark: Any, given: Case) -> tuple[dict[int, list[tuple[Any, ...]]], list[str]]:
    """The rows of each set, and the names of their columns."""
    text = one_query(given.sql)
    names = [name for name in DECLARED if name in uses(given.sql).parameters]
    frames = {be: spark.sql(text, args=dict(zip(names, values))) for be, values in given.sets.items()}
    found = {be: [tuple(row) for row in frame.collect()] for be, frame in frames.items()}
    return found, next(iter(frames.values())).columns


def same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]], ordered: bool) -> bool:
    return one == other if ordered else Counter(one) == Counter(other)


def prepare(spark: Any, chance: Random, count: int = 120) -> list[tuple[Any, ...]]:
    rows = reports(chance, count)
    spark.createDataFrame(rows, REPORTS).coalesce(1).cache().createOrReplaceTempView("Reports")
    spark.createDataFrame(shelters(chance, 12), SHELTERS).coalesce(1).cache().createOrReplaceTempView(
        "Shelters"
    )
    return rows


class Tally(msgspec.Struct):
    cases: int = 0  # that were compared
    rows: int = 0
    equal: int = 0
    refused: int = 0
    refusals: list[str] = msgspec.field(default_factory=list)  # the query, and what Spark says of it
    forms: dict[str, int] = msgspec.field(default_factory=dict)
    among: dict[str, int] = msgspec.field(default_factory=dict)  # cases that have this in them
    differ: list[str] = msgspec.field(default_factory=list)

    def note(self, given: Case, wanted: dict[int, list[tuple[Any, ...]]], columns: list[str]) -> None:
        rows = [row for found in wanted.values() for row in found]
        values = [value for row in rows for value in row]
        matched = "name" in columns and any(row[columns.index("name")] is not None for row in rows)
        given_values = [value for values in given.sets.values() for value in values]
        numbers = [value for value in given_values if isinstance(value, int | float)]
        for what, is_so in {
            "limit": "LIMIT" in given.sql,
            "left_join_with_matches": "LEFT JOIN" in given.sql and matched,
            "negative_parameters": any(number < 0 for number in numbers),
            "nulls_in_results": None in values,
        }.items():
            self.among[what] = self.among.get(what, 0) + is_so


def compare(spark: Any, seed: int, cases: int, tell: Any = lambda done: None) -> Tally:
    from pyspark.errors import AnalysisException

    chance = Random(seed)
    tally = Tally()
    points: list[tuple[Any, ...]] = []
    for number in itertools.count():
        if tally.cases == cases:
            break
        if number % 20 == 0:
            points = prepare(spark, chance)
        given = case(chance, points)
        try:
            form, found = rewritten(spark, given)
        except AnalysisException as error:
            assert rewrite(given.sql).form == "lateral", f"flat and refused: {given.sql}"
            tally.refused += 1
            tally.refusals.append(f"{given.sql}: {str(error).splitlines()[0]}")
            continue
        tally.cases += 1
        wanted, columns = one_by_one(spark, given)
        tally.note(given, wanted, columns)
        in_order = given.ordered and form.startswith("flat")
        if all(same(found[be], wanted[be], in_order) for be in given.sets):
            tally.equal += 1
        else:
            tally.differ.append(given.sql)
        tally.rows += sum(map(len, wanted.values()))
        tally.forms[form] = tally.forms.get(form, 0) + 1
        tell(tally.cases)
    return tally


def limit_over_all_sets() -> Any:
    """The mutant: row numbers are not counted within a set. What was there before comes back."""
    kept = rewriting._numbered

    def numbered(*arguments: Any) -> Any:
        found = kept(*arguments)
        found.this.set("partition_by", None)
        return found

    rewriting._numbered = numbered
    return kept


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutant", action="store_true")
    given = parser.parse_args(words)
    from grapevine.spark.session import SHORT_LIVED, spark_session

    if given.mutant:
        limit_over_all_sets()
    spark = spark_session("oracle", master="local[2]", **SHORT_LIVED, **{"spark.sql.shuffle.partitions": "2"})
    tell = lambda done: print(f"\r{done} of {given.cases}", end="", file=sys.stderr)  # noqa: E731
    tally = compare(spark, given.seed, given.cases, tell if sys.stderr.isatty() else lambda done: None)
    print(msgspec.json.encode(tally).decode())
    spark.stop()
    return 0 if not tally.differ else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
