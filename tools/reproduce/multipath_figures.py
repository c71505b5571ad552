"""A reproduction's rows by setting and metric, and one bar that they are held against."""

from __future__ import annotations

from typing import NamedTuple

from tools.reproduce.row import Row


class Bar(NamedTuple):
    what: str
    value: float
    limit: float
    ok: bool


class Figures:
    def __init__(self, rows: list[Row]) -> None:
        self._rows = {(row.setting, row.metric): row for row in rows}

    def ours(self, setting: str, metric: str) -> float:
        return self._rows[setting, metric].ours

    def note(self, setting: str, metric: str) -> str:
        return self._rows[setting, metric].note

    def paper(self, setting: str, metric: str) -> float:
        value = self._rows[setting, metric].paper
        assert value is not None, (setting, metric)
        return value
