"""The figures of one report: tables of `figures` and accounts of `accounting`, put together.

What comes to the driver is bounded: a row a broker, a link and a step in time, and of publishers and
subscriptions the largest. The tables themselves stay with Spark and may have any number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline import accounting, figures
from pipeline.steps import load_step_s, timeline_step_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGEST = 500  # publishers and subscriptions that are shown
ACCOUNTS = ("reached", "served", "lost", "in_flight", "unseen")
GONE = ("lost", "in_flight", "unseen")
SILENT: dict[str, Any] = {  # a broker that logged nothing
    **dict.fromkeys(
        ("accepted", "forwarded", "pure_forwards", "delivered", "unmatched", "repeats_dropped"), 0
    ),
    **dict.fromkeys(("delay_p50_us", "delay_p99_us", "hops", "hops_max", "first_ns", "last_ns")),
}
STEPS = 8  # calls of `progress`

Row = dict[str, Any]
Progress = Callable[[str], None]


class Figures(msgspec.Struct):
    """All that a page shows."""

    totals: Row
    step_s: float
    load_step_s: float
    brokers: list[Row] = []
    publishers: list[Row] = []
    subscriptions: list[Row] = []
    links: list[Row] = []
    timeline: list[Row] = []
    load: list[Row] = []
    distribution: list[Row] = []


class Analysis:
    """`looked_ns`: when each broker's log was last looked at."""

    def __init__(self, events: DataFrame, looked_ns: dict[str, int], progress: Progress) -> None:
        self.events = events
        self.looked_ns = looked_ns
        self.progress = progress
        self.tables: dict[str, DataFrame] = {}

    def run(self, step_s: float | None = None) -> Figures:
        """Without events the totals say so, and nothing else is asked."""
        totals = figures.totals(self.events)
        self.progress("totals")
        if not totals["events"]:
            return Figures(totals, step_s or 1.0, 1.0)
        span_s = (totals["last_ns"] - totals["first_ns"]) / 1e9
        found = Figures(totals, step_s or timeline_step_s(span_s), load_step_s(span_s))
        self._account(found.step_s)
        self._people(found)
        self._brokers(found)
        self._time(found)
        self._sum(found, span_s)
        return found

    # --- parts ------------------------------------------------------------------------------------

    def _account(self, step_s: float) -> None:
        self.passages = accounting.passages(self.events, self.looked_ns, step_s).persist()
        self.reach = self._rolled("node")
        self.progress("copies")
        doubled = accounting.duplicates(self.events, step_s)
        self.doubled = None if doubled is None else doubled.persist()
        self.progress("duplicates")

    def _people(self, found: Figures) -> None:
        publishers = self._with_accounts(figures.publishers(self.events)).persist()
        found.publishers = [with_yield(row) for row in largest(publishers, "accepted", "publisher")]
        found.totals["publishers"] = publishers.count()
        self.progress("publishers")
        subscriptions = self._with_duplicates(figures.subscriptions(self.events), "client").persist()
        found.subscriptions = largest(subscriptions, "delivered", "client", "subscription")
        found.totals["subscriptions"] = subscriptions.count()
        self.progress("subscriptions")
        self.tables |= {"publishers": publishers, "subscriptions": subscriptions}

    def _brokers(self, found: Figures) -> None:
        told = {row["broker"]: row for row in rows(figures.brokers(self.events))}
        self.names = {row.pop("mark"): name for name, row in told.items()}
        doubled = {self.names[mark]: number for mark, number in self._doubled("broker").items()}
        for name in sorted({*told, *self.looked_ns, *self.reach}, key=natural):
            has_log = name in self.looked_ns or name in told
            row = {"broker": name, "log": has_log, **SILENT, **told.get(name, {})}
            row |= {key: self.reach.get(name, {}).get(key) or 0 for key in ACCOUNTS}
            found.brokers.append(with_yield(row | {"duplicates": doubled.get(name, 0)}))
        self.progress("brokers")
        gone = self._gone()
        none = dict.fromkeys(GONE, 0)
        listed = rows(figures.links(self.events))
        listed.sort(key=lambda row: (natural(row["broker"]), natural(row["to"])))
        found.links = [row | gone.get((row["broker"], row["to"]), none) for row in listed]
        self.progress("links")

    def _time(self, found: Figures) -> None:
        gone = {row["step"]: row for row in self._missing("step")}
        doubled = self._doubled("step")
        for row in rows(figures.timeline(self.events, found.step_s)):
            row |= {name: gone.get(row["step"], {}).get(name, 0) for name in GONE}
            found.timeline.append(row | {"duplicates": doubled.get(row["step"], 0)})
        found.load = rows(figures.load(self.events, found.load_step_s))
        found.distribution = rows(figures.distribution(self.events))
        self.progress("time")

    def _sum(self, found: Figures, span_s: float) -> None:
        totals = found.totals
        for key in (*ACCOUNTS, "duplicates"):
            totals[key] = sum(row[key] for row in found.brokers)
        with_yield(totals)
        totals["span_s"] = round(span_s, 3)
        totals["brokers"] = len(found.brokers)
        totals["unseen_brokers"] = [row["broker"] for row in found.brokers if not row["log"]]
        busiest = max((row["delivered"] for row in found.timeline), default=0)
        totals["peak_deliveries_s"] = round(busiest / found.step_s, 1)

    # --- accounts ---------------------------------------------------------------------------------

    def _rolled(self, by: str) -> dict[str, Row]:
        from pyspark.sql import functions as F

        found = self.passages.groupBy(by).agg(*(F.sum(name).alias(name) for name in ACCOUNTS)).collect()
        return {row[by]: row.asDict() for row in found}

    def _with_accounts(self, publishers: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        reach = self.passages.groupBy("publisher").agg(*(F.sum(name).alias(name) for name in ACCOUNTS))
        return self._with_duplicates(publishers.join(reach, "publisher", "left"), "publisher")

    def _with_duplicates(self, table: DataFrame, by: str) -> DataFrame:
        from pyspark.sql import functions as F

        if self.doubled is None:
            return table.withColumn("duplicates", F.lit(0))
        counted = self.doubled.groupBy(by).agg(F.sum("duplicates").alias("duplicates"))
        return table.join(counted, by, "left").fillna(0, ["duplicates"])

    def _doubled(self, by: str) -> dict[Any, int]:
        from pyspark.sql import functions as F

        if self.doubled is None:
            return {}
        counted = self.doubled.groupBy(by).agg(F.sum("duplicates").alias("number")).collect()
        return {row[by]: row["number"] for row in counted}

    def _gone(self) -> dict[tuple[str, str], Row]:
        """By link."""
        return {
            (self.names[row["sender"]], row["node"]): {name: row[name] for name in GONE}
            for row in self._missing("sender", "node")
        }

    def _missing(self, *by: str) -> list[Row]:
        from pyspark.sql import functions as F

        missing = self.passages.where("sender is not null").groupBy(*by)
        return rows(missing.agg(*(F.sum(name).alias(name) for name in GONE)))


def rows(table: DataFrame) -> list[Row]:
    return [figures.plain(row.asDict()) for row in table.collect()]


def largest(table: DataFrame, by: str, *then: str) -> list[Row]:
    from pyspark.sql import functions as F

    return rows(table.orderBy(F.desc(by), *then).limit(LARGEST))


def with_yield(row: Row) -> Row:
    row["yield"] = round(row["served"] / row["reached"], 4) if row.get("reached") else None
    return row


def natural(name: str) -> list[Any]:
    """b2 before b10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]
