"""A standalone cluster, and what is killed in it: every row once, counted against the source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import Cluster, Driver
from tests.spark.feeding import Brokers, once
from tests.spark.kills import source
from tests.system.overlay import eventually

FILES, ROWS = 8, 2_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster") / "spark") as running:
        yield running


def driver(cluster: Cluster, brokers: Brokers, log: Path, *arguments: str, **options: Any) -> Driver:
    return Driver(cluster, log, "--options", json.dumps(brokers.options(**options)), *arguments)


@pytest.mark.timeout(400)
def test_executor_driver_and_broker_are_killed(cluster: Cluster, brokers: Brokers, tmp_path: Path) -> None:
    """In the middle of a stream, one after the other; the query is started again on its checkpoint."""
    path = source(tmp_path / "rows", "killed", FILES, ROWS)
    arguments = ("stream", str(path), str(tmp_path / "checkpoint"))
    with brokers.reading("job = 'killed'") as reader:
        first = driver(cluster, brokers, tmp_path / "log", *arguments)
        eventually(lambda: cluster.executors() or first.died_by_itself(), 120)
        reader.wait(2 * ROWS, 120)
        cluster.executors()[0].kill()
        reader.wait(reader.count + 2 * ROWS, 120)
        first.kill()
        second = driver(cluster, brokers, tmp_path / "log", *arguments)
        reader.wait(reader.count + 1, 120)
        brokers.restart()
        second.wait()
        assert reader.all(FILES * ROWS) == once(FILES * ROWS)
