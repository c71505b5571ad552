"""What became of every copy: reached, served, lost, doubled. Counted against what was published.

A copy that a broker forwarded must appear at the broker it went to; one that does not is **lost** (on the
way, or with the log of a broker that was killed). It is judged only if that broker's log was looked at
afterwards; else it is **in flight**, and where there is no log of that broker at all it is **unseen**. A
publication that a client got more often than it was accepted is a **duplicate**. A broker that a copy reached
over a link either had a subscriber for it (served) or not; served ones over all is the **yield**.

Inside an aggregation a broker is a number, its `mark`: Spark keeps groups in a hash table only if what it
keeps of each has a fixed size, and would sort all events for the sake of one name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.figures import PUBLICATION_EVENTS, is_event, mark, number_of, step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GRACE_NS = 2_000_000_000  # a copy under way, and a log that is flushed now and then


def passages(events: DataFrame, looked_ns: dict[str, int], step_s: float) -> DataFrame:
    """How many of what, by publisher and broker reached; of copies that are not there also by the sender's
    mark and by the step in which they were sent."""
    from pyspark.sql import functions as F

    one = at_brokers(events)
    gone = (F.col("sent") > 0) & (F.col("here") == 0)
    horizon = F.create_map(*[F.lit(x) for item in looked_ns.items() for x in item]) if looked_ns else None
    until = F.try_element_at(horizon, F.col("node")) if horizon is not None else F.lit(None)
    known = until.isNotNull()
    judged = gone & known & (F.col("sent_ns") < until - GRACE_NS)
    reached = (F.col("here") > 0) & (F.col("accepts") == 0)
    return (
        one.groupBy(
            "publisher",
            "node",
            F.when(gone, F.col("sender")).alias("sender"),
            F.when(gone, step(step_s, "sent_ns")).alias("step"),
        )
        .agg(
            number_of(reached).alias("reached"),
            number_of(reached & (F.col("serves") > 0)).alias("served"),
            number_of(judged).alias("lost"),
            number_of(gone & known & ~judged).alias("in_flight"),
            number_of(gone & ~known).alias("unseen"),
        )
    )  # fmt: skip


def at_brokers(events: DataFrame) -> DataFrame:
    """One row for a publication and a broker that it reached or was sent to."""
    from pyspark.sql import functions as F

    known = events.where(F.col("event").isin(*PUBLICATION_EVENTS))
    serves = is_event("deliver") | (is_event("drop") & (F.col("reason") == "duplicate"))
    here = known.select(
        "publisher",
        "seq",
        F.col("broker").alias("node"),
        F.lit(0).alias("sent"),
        F.lit(1).alias("here"),
        is_event("accept").cast("int").alias("accepts"),
        serves.cast("int").alias("serves"),
        F.lit(None).cast("long").alias("sender"),
        F.lit(None).cast("long").alias("sent_ns"),
    )
    zero = F.lit(0)
    sent = known.where(is_event("forward")).select(
        "publisher", "seq", F.col("to"), F.lit(1), zero, zero, zero, mark("broker"), F.col("t_ns")
    )
    return here.union(sent).groupBy("publisher", "seq", "node").agg(
        F.sum("sent").alias("sent"),
        F.max("here").alias("here"),
        F.max("accepts").alias("accepts"),
        F.max("serves").alias("serves"),
        F.max("sender").alias("sender"),
        F.max("sent_ns").alias("sent_ns"),
    )  # fmt: skip


def duplicates(events: DataFrame, step_s: float) -> DataFrame | None:
    """Per publisher, client, broker's mark and step, deliveries beyond the number of acceptances; None: there
    are none. The step is that of the last copy."""
    from pyspark.sql import functions as F

    several = (
        events.where(is_event("deliver"))
        .groupBy("publisher", "seq", F.col("to").alias("client"))
        .agg(
            F.count(F.lit(1)).alias("copies"),
            F.max(mark("broker")).alias("broker"),
            F.max("t_ns").alias("t_ns"),
        )
        .where("copies > 1")
        .persist()
    )
    if several.isEmpty():
        return None
    accepted = (
        events.where(is_event("accept")).groupBy("publisher", "seq").agg(F.count(F.lit(1)).alias("accepts"))
    )
    # A publisher that starts again under its name may count from one again: then two are owed.
    owed = F.greatest(F.lit(1), F.coalesce(F.col("accepts"), F.lit(1)))
    return (
        several.join(accepted, ["publisher", "seq"], "left")
        .withColumn("duplicates", F.col("copies") - owed)
        .where("duplicates > 0")
        .groupBy("publisher", "client", "broker", step(step_s))
        .agg(F.sum("duplicates").alias("duplicates"))
    )
