"""Spark jobs under this roof: a session while one runs, its troubles as failures of `pubctl`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline import reach
from pipeline.trouble import Trouble
from tools.pubctl.failure import Failure
from tools.pubctl.invocation import current

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def troubles() -> Iterator[None]:
    try:
        yield
    except Trouble as trouble:
        raise Failure(str(trouble), trouble.code) from None


@contextmanager
def job(name: str, master: str | None, **settings: object) -> Iterator[SparkSession]:
    from pipeline.session import opened

    with troubles():
        reach.master(master)
        current().say(f"starting Spark{f' at {master}' if master else ''} ...")
        with opened(f"grapevine {name}", master, **settings) as spark:
            yield spark
