"""One execution in Spark: the tables of its plan, the sets, one statement, rows by back-end subscription."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from grapevine.client.session.driving import Execute, Runs
from grapevine.wire.catalog import Channel, Dataset
from grapevine.wire.driving import Plan
from grapevine.wire.parameters import read_canonical, take_set
from pipeline.channels.encoding import runs_of
from pipeline.channels.rewrite import Statement, one_query, rewrite
from pipeline.channels.sets import sets_table
from pipeline.channels.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING = Plan("", 0, 0, 0, 0.0, ())


class Executor:
    """A Spark session of its own for each channel, so that two at a time do not see each other's tables."""

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self.spark = spark
        self.tables = tables
        self._sessions: dict[str, SparkSession] = {}
        self._statements: dict[tuple[str, int], Statement] = {}
        # By channel: for which sets its table was made, and for which statement, with what to run over it.
        self._made: dict[str, tuple[Mapping[int, bytes], Statement, str]] = {}
        self._lock = threading.Lock()

    def session(self, channel: str) -> SparkSession:
        from grapevine.spark.session import register

        with self._lock:
            if channel not in self._sessions:
                self._sessions[channel] = self.spark.newSession()
            register(self._sessions[channel])
            return self._sessions[channel]

    def run(self, job: Execute) -> Runs:
        session = self.session(job.channel.name)
        self.tables.bind(session, job.channel, job.plan, job.datasets)
        statement = self.statement(session, job.channel)
        found = session.sql(self._over_sets(session, statement, job)).toArrow()
        return runs_of(found, statement.ordered, job.plan.at)

    def _over_sets(self, session: SparkSession, statement: Statement, job: Execute) -> str:
        """The statement to run; the table of sets stays in the channel's session while they are the same."""
        name = job.channel.name
        known = self._made.get(name)
        if known is None or known[0] is not job.sets or known[1] is not statement:
            sets = {be: read_canonical(job.channel.parameters, form) for be, form in job.sets.items()}
            _, text = sets_table(session, statement, job.channel.parameters, sets)
            known = self._made[name] = (job.sets, statement, text)
        return known[2]

    def statement(self, session: SparkSession, channel: Channel) -> Statement:
        """Flat if that can be, and if Spark takes it."""
        key = (channel.name, channel.version)
        if key not in self._statements:
            self._statements[key] = chosen_statement(session, channel)
        return self._statements[key]

    def run_one(
        self, channel: Channel, plan: Plan, datasets: Mapping[str, Dataset], given: Mapping[str, object]
    ) -> list[dict[str, Any]]:
        """The query for one parameter set, as one would write it: what every other way must equal."""
        session = self.session(f"{channel.name} alone")
        self.tables.bind(session, channel, plan, datasets)
        values = take_set(channel.parameters, given)
        arguments = {p.name: _argument(p.type, value) for p, value in zip(channel.parameters, values)}
        rows = session.sql(one_query(channel.sql), args=arguments).toArrow().to_pylist()
        return [dict(row) for row in rows]


def chosen_statement(session: SparkSession, channel: Channel) -> Statement:
    """Spark analyses it with an empty table of sets: what it does not take as one join may do as another."""
    from pyspark.errors import AnalysisException

    statement = rewrite(channel.sql)
    try:
        _analyse(session, statement, channel)
    except AnalysisException:
        if statement.form == "lateral":
            raise
        lateral = rewrite(channel.sql, lateral=True)
        try:
            _analyse(session, lateral, channel)
        except AnalysisException:
            _analyse(session, statement, channel)  # its own complaint is the one to be told
        return lateral
    return statement


def _analyse(session: SparkSession, statement: Statement, channel: Channel) -> None:
    _, text = sets_table(session, statement, channel.parameters, {})
    names = session.sql(text).schema.names
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f"two columns of the result are called {twice}: rename one by AS")


def _argument(kind: str, value: Any) -> Any:
    return datetime.fromtimestamp(value / 1e6).astimezone() if kind == "timestamp" else value
