"""The session of a job: the one that there is, else grapevine's own, ended with the job.

By spark-submit, what that was told goes before our defaults. A cluster's executors get the code of this
package from the driver; they need grapevine-pubsub and pyarrow of their own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.trouble import FAILED, UNREACHABLE, Trouble

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit for the driver that it starts


def available() -> bool:
    return find_spec("pyspark") is not None and find_spec("pyarrow") is not None


@contextmanager
def opened(name: str, master: str | None = None, **settings: object) -> Iterator[SparkSession]:
    if not available():
        raise Trouble("this needs Spark: `pip install 'grapevine-broker[spark]'`", FAILED)
    from grapevine.errors import Error
    from grapevine.spark.session import spark_session

    before = running()
    try:
        told = submitted_settings()
        spark = spark_session(name, told.get("spark.master", master), **{**settings, **told})
    except Error as error:
        raise Trouble(str(error), FAILED) from None
    except Exception as error:
        where = f" at {master}" if master else ""
        raise Trouble(f"Spark does not start{where}: {first_line(error)}", UNREACHABLE) from None
    try:
        if not spark.sparkContext.master.startswith("local"):
            ship(spark)
        yield spark
    finally:
        if not before and java_ended(spark) is None:
            spark.stop()


def running() -> bool:
    """Whether there is a session already: a job in a notebook uses that one and leaves it."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def java_ended(spark: SparkSession) -> int | None:
    """The exit code of the Java process that this one has started; None while it runs, or is not ours."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    code: int | None = None if process is None else process.poll()
    return code


def activate(spark: SparkSession) -> None:
    """For the calling thread: Spark looks for data sources in a thread's own active session."""
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def submitted_settings() -> dict[str, str]:
    if SUBMITTED not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the JVM that spark-submit has started
    return dict(SparkConf().getAll())


def ship(spark: SparkSession) -> None:
    """This package for the executors, who may fetch it from the driver as long as that lives."""
    place = tempfile.mkdtemp(prefix="grapevine-pipeline-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    package = Path(place) / "pipeline.zip"
    with zipfile.ZipFile(package, "w") as archive:
        here = Path(__file__).parent
        for path in here.rglob("*.py"):
            archive.write(path, f"pipeline/{path.relative_to(here)}")
    spark.sparkContext.addPyFile(str(package))


def first_line(error: BaseException) -> str:
    """What an error of Spark says, without the stack traces of two languages."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
