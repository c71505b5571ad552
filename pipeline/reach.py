"""Whether a job's brokers and its Spark can be reached at all, asked before anything is started.

A writer inside Spark that finds nobody would be tried again for minutes, and a job that no worker takes waits
for ever; either looks like a feed that stays at nothing. So brokers and a master are asked first, and
it is said that no worker has come.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grapevine
from pipeline.trouble import NOT_ALLOWED, UNREACHABLE, Trouble

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKER_S = 5.0
MASTER_S = 3.0
WORKER_S = 5.0  # a job without a worker for so long is told of
SCHEME = "spark://"
LOOPBACK = "127.0.0.1"


def brokers(addresses: str, keys: str | None, timeout_s: float = BROKER_S) -> None:
    """One of the brokers takes us as a client, or Trouble says why none does."""
    wanted = [address.strip() for address in addresses.split(",") if address.strip()]
    try:
        grapevine.connect(wanted, keys=keys or None, timeout=timeout_s).close(0)
    except grapevine.NotAllowed as error:
        raise Trouble(str(error), NOT_ALLOWED) from None
    except grapevine.Error as error:
        raise Trouble(f"no broker can be reached ({', '.join(wanted)}): {error}", UNREACHABLE) from None


def master(given: str | None) -> None:
    """A standalone master of Spark listens at its address. One in this process needs the loopback, on which
    Spark's own halves meet; others are Spark's own business."""
    url = given or os.environ.get("SPARK_MASTER") or "local"
    if url.startswith("local"):
        _loopback()
    if not url.startswith(SCHEME):
        return
    tried = []
    for place in url.removeprefix(SCHEME).split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), MASTER_S).close()
            return
        except ValueError:
            tried.append(f"{place} is no HOST:PORT")
        except OSError as error:
            tried.append(f"{place}: {error.strerror or error}")
    raise Trouble(f"Spark's master cannot be reached ({'; '.join(tried)}): is it running?", UNREACHABLE)


def _loopback() -> None:
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            socket.create_connection(server.getsockname()[:2], MASTER_S).close()
    except OSError as error:
        raise Trouble(
            f"Spark talks to itself over {LOOPBACK}, which cannot be reached: {error.strerror or error} "
            "(`ip link set lo up`)",
            UNREACHABLE,
        ) from None


@contextmanager
def workers_awaited(spark: SparkSession, say: Callable[[str], None]) -> Iterator[None]:
    """Say so, once, when a cluster has given the job nobody to run on."""
    over = threading.Event()
    url = spark.sparkContext.master

    def look() -> None:
        if not over.wait(WORKER_S) and not executors(spark):
            say(f"{url} has given this job no worker so far: does one run there, with a core free?")

    if url.startswith("local"):
        yield
        return
    threading.Thread(target=look, name="workers awaited", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def executors(spark: SparkSession) -> int:
    jvm = spark.sparkContext._jsc
    assert jvm is not None
    return int(jvm.sc().getExecutorMemoryStatus().size()) - 1  # the driver is among them
