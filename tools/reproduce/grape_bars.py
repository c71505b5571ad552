"""`python -m tools.reproduce.grape_bars [--quick]`: POP's and GRAPE's figures against what they must show.

One bar a line of JSON's `bars`: what is measured, its value, its limit, whether it holds. The figures are
those of `pubctl reproduce grape`; a file that it has written may be given instead of a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tools.reproduce.grape import reproduce
from tools.reproduce.row import Row

SHOWN = frozenset({("message_rate", "POP")})  # beside the paper's, without a bar
ORDERS_PERCENT = 90.0  # of all X: "at almost all X"
CONTROL_PERCENT = 85.0  # fewer messages than POP's
APART_PERCENT = 5.0  # two settings that should choose alike
AGREEING_PERCENT = 5.0  # apart: what is sent against what is counted
DRAWN_PERCENT = 10.0  # with POP, which draws what it traces
SELECTION_MS = {"63 brokers": 10.0}
PIECE_MS = 10.0


class Bar(NamedTuple):
    what: str
    value: float
    limit: float
    ok: bool


class Written(msgspec.Struct):
    rows: list[Row]


def bars(rows: list[Row]) -> Iterator[Bar]:
    for row in rows:
        if (bar := _bar(row)) is not None:
            yield bar


def _bar(row: Row) -> Bar | None:
    what = f"{row.figure} {row.setting}: {row.metric}"
    if row.figure == "headline" and row.paper is not None and (row.metric, row.setting) not in SHOWN:
        return _most(what, row, row.paper) if row.metric == "overhead" else _least(what, row, row.paper)
    if row.figure == "orders":
        return _least(what, row, ORDERS_PERCENT)
    if row.figure == "random":
        return _least(what, row, CONTROL_PERCENT)
    if row.figure == "weights":
        return _most(what, row, APART_PERCENT)
    if row.figure == "agreement":
        return _most(what, row, DRAWN_PERCENT if row.setting.startswith("POP") else AGREEING_PERCENT)
    if row.metric == "selection_ms" and row.setting in SELECTION_MS:
        return _most(what, row, SELECTION_MS[row.setting])
    return _most(what, row, PIECE_MS) if row.metric == "piece_ms" else None


def _least(what: str, row: Row, limit: float) -> Bar:
    return Bar(what, row.ours, limit, row.ours >= limit)


def _most(what: str, row: Row, limit: float) -> Bar:
    return Bar(what, row.ours, limit, row.ours <= limit)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few settings, small and short")
    parser.add_argument("--data", type=Path, help="directory of real data")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="file to go on from when run again")
    parser.add_argument("--rows", type=Path, help="what `pubctl reproduce grape -o json` has written")
    given = parser.parse_args(words)
    if given.rows is not None:
        rows = msgspec.json.decode(given.rows.read_bytes(), type=Written).rows
    else:
        rows = reproduce(given.quick, given.data, given.jobs, keep=given.keep)
    found = [bar._asdict() for bar in bars(rows)]
    print(msgspec.json.encode({"bars": found, "rows": rows}).decode())
    return 0 if all(bar["ok"] for bar in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
