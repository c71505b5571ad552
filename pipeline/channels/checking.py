"""What only Spark can say of a channel before it runs: unknown columns, types, and the plan that it makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from grapevine.wire.catalog import Channel, Dataset
from grapevine.wire.driving import Plan
from pipeline.channels.execution import chosen_statement
from pipeline.channels.rewrite import PREFIX, Statement
from pipeline.channels.sets import sets_table
from pipeline.channels.tables import Tables
from pipeline.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODES = re.compile(r"^\[[A-Z0-9_.]+\] |\s*SQLSTATE: \w+|;? line \d+,? pos \d+;?$")


def complaints(
    spark: SparkSession, channels: Mapping[str, Channel], datasets: Mapping[str, Dataset]
) -> Iterator[tuple[str, str]]:
    """(channel, what Spark says), of those that it does not take."""
    for name, channel in channels.items():
        try:
            analysed(spark, channel, datasets)
        except Exception as error:  # of any of Spark's classes; what it says is for the user
            yield name, plain(first_line(error))


def plain(text: str) -> str:
    """Spark's words without its codes, and without the places of the rewritten query; parameters as they
    were written."""
    return re.sub(rf"\b{PREFIX}(?=\w)", ":", CODES.sub("", text))


def place_of(complaint: str, sql: str) -> tuple[int, int]:
    """Line and column in the query of the name that Spark complains about; its own numbers are of the
    rewritten one. The first place where nothing else is known."""
    named = re.search(r"`[^`]+`(?:\.`[^`]+`)*", complaint)
    words = [re.escape(word) for word in re.findall(r"`([^`]+)`", named[0])] if named else []
    found = re.search(r"(?i)\b" + r"`?\s*\.\s*`?".join(words) + r"\b", sql) if words else None
    if found is None:
        return 1, 1
    before = sql[: found.start()]
    return before.count("\n") + 1, found.start() - before.rfind("\n")


def analysed(spark: SparkSession, channel: Channel, datasets: Mapping[str, Dataset]) -> Statement:
    session = spark.newSession()
    Tables().bind(session, channel, empty_plan(channel, datasets), datasets)
    return chosen_statement(session, channel)


def empty_plan(channel: Channel, datasets: Mapping[str, Dataset]) -> Plan:
    cuts = tuple((name, 0, 0) for name, dataset in datasets.items() if dataset.fed)
    return Plan(channel.name, channel.version, 0, 0, 0.0, cuts)


RULES = "org.apache.spark.sql.catalyst.optimizer."
OF_EMPTY = (f"{RULES}PropagateEmptyRelation", f"{RULES}ConvertToLocalRelation")


def explained(spark: SparkSession, channel: Channel, datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """The form, the statement and Spark's plan of it, over tables that are empty here and not in a plan."""
    session = spark.newSession()
    session.conf.set("spark.sql.optimizer.excludedRules", ",".join(OF_EMPTY))
    Tables().bind(session, channel, empty_plan(channel, datasets), datasets)
    statement = chosen_statement(session, channel)
    _, text = sets_table(session, statement, channel.parameters, {})
    plan = session.sql(f"EXPLAIN {text}").collect()[0][0]
    grid = "grid cells" if statement.cells is not None else "no grid"
    return {"form": statement.form, "near": grid, "statement": text, "plan": plan}
