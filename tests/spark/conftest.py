"""One session and two brokers for all tests here: a session takes 15 seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.feeding import Brokers

pytest.importorskip("pyspark", reason="needs the extra `spark`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:  # the first one waits for the session too
                item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from grapevine.spark.session import SHORT_LIVED, spark_session

    # An idle query says so at once, for who waits until it has begun.
    idle = {"spark.sql.streaming.noDataProgressEventInterval": "100"}
    session = spark_session("tests", master="local[2]", **SHORT_LIVED, **idle)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("brokers")) as pair:
        yield pair
