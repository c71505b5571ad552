"""`python -m bench.channels`: executions for all parameter sets at once, beside one query for each set.

    python -m bench.channels [--rounds 5] [--naive 1000] [--data DIR] [-o json|table]

Emergencies near a place, by type: reports are real emergency calls where the directory has them, else
generated with their spread. All sizes run once before any is measured: otherwise the first are slow, Java
being cold, and the last look good beside them. *One statement*: from the statement to its last row counted
by Spark, the least of the rounds after one more; `processor` is what the Java process and its Python workers
took. *Whole execution* (channels_whole.py): from the plan to the commit, rows encoded and on the back end's
disk; `grown_whole` is what 10,000 sets over 100,000 reports take, in times of 1,000 over 1,000. The naive
way runs --naive queries, one for each set, over the same reports with their values as Spark's arguments; by
default all 1,000.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench import channels_whole
from bench.running import say
from grapevine.spark.session import spark_session
from grapevine.wire.parameters import Parameter
from pipeline.channels.rewrite import one_query, rewrite
from pipeline.channels.sets import sets_table

FILE = "emergency_911_montgomery_pa.csv.gz"
TYPES = ("EMS", "Fire", "Traffic")
PARAMETERS = tuple(
    Parameter(*each) for each in (("type", "string"), ("lat", "double"), ("lon", "double"), ("km", "double"))
)
SQL = "SELECT r.id, r.type FROM Reports r WHERE r.type = :type AND near(r.lat, r.lon, :lat, :lon, :km)"
WHOLE = ((1_000, 1_000), (10_000, 100_000))
SIZES = ((1_000, 1_000), (10_000, 1_000), (1_000, 100_000), (10_000, 100_000))  # sets, reports


def reports(data: Path | None, count: int) -> list[tuple[int, str, float, float]]:
    if data is not None and (data / FILE).is_file():
        with gzip.open(data / FILE, "rt") as file:
            rows = [(row["category"], float(row["lat"]), float(row["lon"])) for row in csv.DictReader(file)]
    else:
        draw = np.random.default_rng(0)
        places = zip(draw.normal(40.15, 0.09, count), draw.normal(-75.32, 0.13, count))
        rows = [(TYPES[number % 3], float(lat), float(lon)) for number, (lat, lon) in enumerate(places)]
    return [(number, *rows[number % len(rows)]) for number in range(count)]


def parameter_sets(rows: list[tuple[int, str, float, float]], count: int) -> dict[int, tuple[Any, ...]]:
    draw = np.random.default_rng(1)
    found = {}
    for number in range(count):
        _, _, lat, lon = rows[draw.integers(0, len(rows))]
        at = draw.normal((lat, lon), 0.005)
        found[number] = (TYPES[draw.integers(0, 3)], float(at[0]), float(at[1]), 1.0)
    return found


def processor_s(java: psutil.Process) -> float:
    total = 0.0
    for process in (java, *java.children(recursive=True)):
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.NoSuchProcess:
            pass
    return total


def timed(java: psutil.Process, rounds: int, run: Callable[[], int]) -> tuple[float, float, int]:
    run()
    walls, spent = [], []
    for _ in range(rounds):
        cpu, begin = processor_s(java), time.perf_counter()
        rows = run()
        walls.append(time.perf_counter() - begin)
        spent.append(processor_s(java) - cpu)
    return min(walls), min(spent), rows


def measure(spark: Any, java: psutil.Process, rounds: int, data: Path | None) -> list[dict[str, Any]]:
    rows = []
    for sets, count in SIZES:
        table = reports(data, count)
        spark.createDataFrame(table, "id bigint, type string, lat double, lon double").repartition(
            2
        ).cache().createOrReplaceTempView("Reports")
        frame, text = sets_table(spark, rewrite(SQL), PARAMETERS, parameter_sets(table, sets))
        frame.count()
        counted = f"SELECT count(*), count(DISTINCT __be) FROM ({text})"
        wall, cpu, found = timed(java, rounds, lambda sql=counted: int(spark.sql(sql).collect()[0][0]))
        say(f"{sets} sets x {count} reports: {wall:.2f} s, {cpu:.2f} s of processor, {found} rows")
        row = {
            "sets": sets,
            "reports": count,
            "way": "one statement",
            "s": wall,
            "processor_s": cpu,
            "rows": found,
        }
        rows.append(row)
    return rows


def naive(spark: Any, java: psutil.Process, data: Path | None, queries: int) -> dict[str, Any]:
    """Over the 100,000 reports that `measure` left, for the first sets of the 1,000."""
    sets = parameter_sets(reports(data, 100_000), 1_000)
    spark.createDataFrame(
        reports(data, 100_000), "id bigint, type string, lat double, lon double"
    ).repartition(2).cache().createOrReplaceTempView("Reports")
    text = f"SELECT count(*) FROM ({one_query(SQL)})"
    spark.sql(text, args=dict(zip(("type", "lat", "lon", "km"), sets[0]))).collect()
    cpu, begin, found = processor_s(java), time.perf_counter(), 0
    for number in range(queries):
        arguments = dict(zip(("type", "lat", "lon", "km"), sets[number]))
        found += spark.sql(text, args=arguments).collect()[0][0]
        if number % 100 == 99:
            say(f"one query for each set: {number + 1} of {queries}")
    spent = time.perf_counter() - begin, processor_s(java) - cpu
    return {
        "sets": queries,
        "reports": 100_000,
        "way": "one query a set",
        "s": spent[0],
        "processor_s": spent[1],
        "rows": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--naive", type=int, default=1_000)
    parser.add_argument("--data", type=Path, default=os.environ.get("GRAPEVINE_DATA"))
    parser.add_argument("-o", "--output", choices=("json", "table"), default="table")
    given = parser.parse_args()
    data = Path(given.data) if given.data else None
    spark = spark_session("bench.channels", master="local[2]", **{"spark.driver.memory": "2g"})
    java = psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())
    say("everything once, to warm up")
    measure(spark, java, 1, data)
    rows = measure(spark, java, given.rounds, data)
    by = {(row["sets"], row["reports"]): row for row in rows}
    from_data = partial(reports, data)
    whole = channels_whole.measure(spark, SQL, WHOLE, parameter_sets, from_data, given.rounds)
    one = naive(spark, java, data, given.naive)
    many = by[1_000, 100_000]
    times = one["s"] / given.naive * 1_000 / many["s"]
    if given.naive == 1_000:
        assert one["rows"] == many["rows"], f"{one['rows']} rows one by one, {many['rows']} at once"
    summary = {
        "grown_whole": whole[1]["s"] / whole[0]["s"],
        "grown": by[10_000, 100_000]["s"] / by[1_000, 1_000]["s"],
        "below_one_query_a_set": times,
        "grown_processor": by[10_000, 100_000]["processor_s"] / by[1_000, 1_000]["processor_s"],
        "below_processor": one["processor_s"] / given.naive * 1_000 / many["processor_s"],
        "naive_run": given.naive,
    }
    document = {"schema": "bench.channels/1", "rows": [*rows, *whole, one], **summary}
    if given.output == "json":
        print(json.dumps(document))
    else:
        for row in document["rows"]:
            print(
                "  ".join(
                    f"{key} {value:.3g}" if key == "s" else f"{key} {value}" for key, value in row.items()
                )
            )
        print("  ".join(f"{key} {value:.3g}" for key, value in summary.items()))
    spark.stop()


if __name__ == "__main__":
    main()
