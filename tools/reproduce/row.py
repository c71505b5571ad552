"""One number of a paper beside ours."""

from __future__ import annotations

import msgspec


class Row(msgspec.Struct, frozen=True):
    """`paper` is None where the paper has no value, only a trend."""

    figure: str
    setting: str
    metric: str
    paper: float | None
    ours: float
    note: str = ""
