"""How a report's work is cut: by the number of events, and only while the report is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.sizing import settings, sized

PARTITIONS = "spark.sql.shuffle.partitions"


class Conf(dict[str, str]):
    """As Spark's, which has a default for most."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]


@pytest.mark.parametrize(
    ("events", "partitions"), [(0, "4"), (1_000_000, "4"), (10_000_000, "20"), (10**12, "4000")]
)
def test_a_task_has_its_share_at_any_size(events: int, partitions: str) -> None:
    assert settings(events)[PARTITIONS] == partitions


def test_a_session_is_left_as_it_was() -> None:
    spark: Any = SimpleNamespace(conf=Conf({PARTITIONS: "7"}))
    with sized(spark, 10_000_000):
        assert spark.conf == settings(10_000_000)
    assert spark.conf == {PARTITIONS: "7"}
