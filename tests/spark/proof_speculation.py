"""Speculation on a cluster, in full: left to `make proof`, since a slow task is slow to test."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.cluster import Cluster, Driver
from tests.spark.feeding import Brokers, once


@pytest.mark.timeout(300)
def test_a_copy_of_a_task_with_other_rows(brokers: Brokers, tmp_path: Path) -> None:
    """Speculation with partitions that come out different each time: of each partition one attempt counts."""
    options = json.dumps(brokers.options())
    with Cluster(tmp_path / "cluster") as cluster, brokers.reading("job = 'speculate'") as reader:
        reader.kept = 10_000
        Driver(cluster, tmp_path / "log", "--options", options, "speculate", "4000").wait()
        assert reader.all(4_000) == once(4_000)
        tokens = Counter((m.attributes["partition"], m.attributes["token"]) for m in reader.messages)
        assert len(tokens) == 4 and set(tokens.values()) == {1_000}
        attempts = {m.attributes["attempt"] for m in reader.messages if m.attributes["partition"] == 0}
        assert attempts == {1}, "the copy was to be faster than the slow attempt"
