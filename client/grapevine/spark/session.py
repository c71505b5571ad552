"""The one place that makes a Spark session: Java found, logs quiet, sizes small, the source registered.

What the environment or the caller says wins over every default here. Executors run the driver's Python
unless PYSPARK_PYTHON names another; a local master listens on the loopback only.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grapevine.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# For a session of a minute: compiling what it runs to the last degree would take longer than it saves.
SHORT_LIVED = {JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

GREET_S = 120  # for Java and a Python worker to meet: Spark's 15 are too few on a machine that is busy

# Small jobs on small machines: a shuffle of 200 partitions is most of the time of such a job.
DEFAULTS: dict[str, object] = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.python.authenticate.socketTimeout": f"{GREET_S}s",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def prepare_environment(master: str) -> None:
    """What Spark reads from the environment of the process that starts it."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", str(GREET_S))
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def spark_session(name: str, master: str | None = None, **settings: object) -> SparkSession:
    """A session by this name, made or the one that there is. `master` is SPARK_MASTER or local[*] if not
    given; settings are Spark's own: `spark_session("feed", **{"spark.driver.memory": "2g"})`."""
    from pyspark.sql import SparkSession

    master = master or os.environ.get("SPARK_MASTER") or LOCAL
    prepare_environment(master)
    quiet = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    java = f"{quiet} {settings.get(JAVA_OPTIONS, '')}".strip()  # of two, Java takes the last
    chosen = {**DEFAULTS, **settings, JAVA_OPTIONS: java}
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in chosen.items():
        builder = builder.config(key, _text(value))
    spark = builder.getOrCreate()
    # Every error is raised too; this logger would print it as a page of JSON first.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make `format("grapevine")` known to a session that was made elsewhere, and to the calling thread: Spark
    looks for sources in a thread's own active session."""
    from grapevine.spark.source import GrapevineDataSource

    spark.dataSource.register(GrapevineDataSource)
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
