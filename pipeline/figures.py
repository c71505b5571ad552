"""What a collection says, as tables: per broker, publisher, subscription, link and step in time.

Every table is one aggregation over the events, with state that is bounded per group: counts, sums, and for
percentiles a summary whose rank is within 1/10,000 of the exact one (and exact below as many values). Delays
and hops are those of deliveries. Delays of two hosts depend on their clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ACCURACY = 10_000
DELAY_BINS = 10  # a decade of microseconds
PUBLICATION_EVENTS = ("accept", "forward", "deliver", "drop")


def is_event(kind: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("event") == kind


def number_of(condition: Column) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.sum(condition.cast("long")), F.lit(0))


def counts() -> list[Column]:
    from pyspark.sql import functions as F

    return [
        number_of(is_event("accept")).alias("accepted"),
        number_of(is_event("forward")).alias("forwarded"),
        number_of(is_event("forward") & F.col("pure")).alias("pure_forwards"),
        number_of(is_event("deliver")).alias("delivered"),
        number_of(is_event("drop") & (F.col("reason") == "no match")).alias("unmatched"),
        number_of(is_event("drop") & (F.col("reason") == "duplicate")).alias("repeats_dropped"),
    ]


def delays() -> list[Column]:
    from pyspark.sql import functions as F

    delay = F.when(is_event("deliver"), F.col("delay_us"))
    hops = F.when(is_event("deliver"), F.col("hops"))
    return [
        F.percentile_approx(delay, [0.5, 0.99], ACCURACY).alias("delay"),
        F.avg(hops).alias("hops"),
        F.max(hops).alias("hops_max"),
    ]


def span() -> list[Column]:
    from pyspark.sql import functions as F

    return [F.min("t_ns").alias("first_ns"), F.max("t_ns").alias("last_ns")]


def totals(events: DataFrame) -> dict[str, Any]:
    """Over everything; `early` are deliveries before their acceptance: clocks that differ, or a broker that
    was kept from its processor between looking at its clock and at what had come."""
    from pyspark.sql import functions as F

    extra = [
        number_of(is_event("deliver") & (F.col("delay_us") < 0)).alias("early"),
        number_of(is_event("relocate")).alias("relocations"),
        F.count(F.lit(1)).alias("events"),
    ]
    (row,) = events.agg(*counts(), *delays(), *span(), *extra).collect()
    return plain(row.asDict())


def mark(broker: str) -> Column:
    """The broker that is in this column as a number (see accounting)."""
    from pyspark.sql import functions as F

    return F.xxhash64(broker)


def brokers(events: DataFrame) -> DataFrame:
    found = events.groupBy("broker").agg(*counts(), *delays(), *span())
    return found.withColumn("mark", mark("broker"))


def publishers(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    known = events.where(F.col("event").isin(*PUBLICATION_EVENTS))
    first = F.max(F.when(is_event("accept"), F.col("broker"))).alias("first_broker")
    return known.groupBy("publisher").agg(*counts(), *delays(), *span(), first)


def subscriptions(events: DataFrame) -> DataFrame:
    """A publication that matches several subscriptions of a client is one copy, and counts for each."""
    from pyspark.sql import functions as F

    each = events.where(is_event("deliver")).withColumn("subscription", F.explode("subscriptions"))
    amount = [F.max("broker").alias("broker"), F.count(F.lit(1)).alias("delivered")]
    return each.groupBy(F.col("to").alias("client"), "subscription").agg(*amount, *delays(), *span())


def links(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    forwards = events.where(is_event("forward"))
    return forwards.groupBy("broker", "to").agg(
        F.count(F.lit(1)).alias("forwarded"), number_of(F.col("pure")).alias("pure_forwards")
    )


def timeline(events: DataFrame, step_s: float) -> DataFrame:
    return events.groupBy(step(step_s)).agg(*counts(), *delays()).orderBy("step")


def load(events: DataFrame, step_s: float) -> DataFrame:
    """What each broker sent in each step: copies to brokers and to clients."""
    sent = events.where(is_event("forward") | is_event("deliver"))
    return sent.groupBy(step(step_s), "broker").agg(
        number_of(is_event("forward")).alias("forwarded"),
        number_of(is_event("deliver")).alias("delivered"),
    )


def step(step_s: float, moment: str = "t_ns") -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"{moment} div {round(step_s * 1e9)}L").alias("step")


def distribution(events: DataFrame) -> DataFrame:
    """Deliveries by hops and by delay, in tenths of a decade; below a microsecond is bin 0."""
    from pyspark.sql import functions as F

    delay = F.greatest(F.col("delay_us"), F.lit(1))
    bin = F.floor(F.log10(delay) * DELAY_BINS).cast("int").alias("bin")
    return events.where(is_event("deliver")).groupBy("hops", bin).agg(F.count(F.lit(1)).alias("delivered"))


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is shown: percentiles by name, rates over the time that the row covers."""
    if "delay" in row:
        p50, p99 = row.pop("delay") or (None, None)
        row["delay_p50_us"], row["delay_p99_us"] = p50, p99
    if row.get("hops") is not None:
        row["hops"] = round(row["hops"], 3)
    return row
