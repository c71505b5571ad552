"""`python -m tools.reproduce.bluedove_bars [--quick]`: BlueDove's figures against what they must show.

Orders and directions of every figure, never a ratio of the paper: what is far from it is printed beside it.
One bar a line of JSON's `bars`. A file that `pubctl reproduce bluedove -o json` has written may be given
instead of a run.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tools.reproduce.bluedove import PLACEMENTS, reproduce
from tools.reproduce.multipath_figures import Bar, Figures
from tools.reproduce.row import Row

BALANCED, UNBALANCED = 0.2, 0.7  # sd / mean of load
ORDER = 1.15
LATE_PERCENT = 1.0
QUARTER = 25.0
RATE = "saturation, messages/s"


class Written(msgspec.Struct):
    rows: list[Row]


def bars(figures: Figures, rows: list[Row]) -> Iterator[Bar]:
    for placement in PLACEMENTS:
        yield from _scaling(figures, rows, placement)
        yield from _policies(figures, placement)
        yield from _directions(rows, placement)
        what = f"{placement} load=0.8 publishers=1000"
        ratio = figures.ours(what, "ordered over unordered mean response")
        yield Bar(f"{what}: ordered over unordered", ratio, ORDER, ratio <= ORDER)
    for row in rows:
        if row.metric.startswith("changes later"):
            yield Bar(f"{row.setting}: {row.metric}", row.ours, LATE_PERCENT, row.ours <= LATE_PERCENT)
        if row.metric.endswith("after moves") and row.setting.endswith("N=20"):
            limit = max(QUARTER, float(row.note.rpartition(" ")[2]))
            yield Bar(f"{row.setting}: {row.metric}", row.ours, limit, row.ours <= limit)


def _scaling(figures: Figures, rows: list[Row], placement: str) -> Iterator[Bar]:
    settings = {row.setting for row in rows if row.figure == "6a" and row.metric == "BlueDove over P2P"}
    for setting in sorted(one for one in settings if one.startswith(placement + " ")):
        rates = [figures.ours(f"{setting} {system}", RATE) for system in ("bluedove", "p2p", "full")]
        for (more, less), names in zip(
            itertools.pairwise(rates), ("BlueDove above P2P", "P2P above full replication")
        ):
            yield Bar(f"{setting}: {names}", more, less, more > less)
    metric = "sd / mean of the matchers' load"
    balanced = figures.ours(f"{placement} N=20 bluedove", metric)
    unbalanced = figures.ours(f"{placement} N=20 p2p", metric)
    yield Bar(f"{placement} BlueDove: {metric}", balanced, BALANCED, balanced < BALANCED)
    yield Bar(f"{placement} P2P: {metric}", unbalanced, UNBALANCED, unbalanced > UNBALANCED)


def _policies(figures: Figures, placement: str) -> Iterator[Bar]:
    for other in ("response", "random"):
        ratio = figures.ours(f"{placement} mu=matching-time", f"adaptive over {other}")
        yield Bar(f"{placement}: adaptive over {other}", ratio, 1.0, ratio > 1.0)


def _directions(rows: list[Row], placement: str) -> Iterator[Bar]:
    for figure, mark, rising in (("11a", "k=", True), ("11b", "sd=", False), ("11c", "skewed=", False)):
        points = sorted(
            (float(row.setting.rpartition("=")[2]), row.ours)
            for row in rows
            if row.figure == figure
            and row.setting.startswith(f"{placement} {mark}")
            and "P2P" not in row.metric
        )
        steps = [b - a if rising else a - b for (_, a), (_, b) in itertools.pairwise(points)]
        word = "rises" if rising else "falls"
        yield Bar(f"{placement} {figure}: {word} at every step", min(steps), 0.0, min(steps) > 0)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few settings and short runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--data", type=Path, default=os.environ.get("GRAPEVINE_DATA"))
    parser.add_argument("--rows", type=Path, help="what `pubctl reproduce bluedove -o json` has written")
    given = parser.parse_args(words)
    if given.rows is not None:
        rows = msgspec.json.decode(given.rows.read_bytes(), type=Written).rows
    else:
        data = None if given.data is None else Path(given.data)
        rows = reproduce(
            given.quick, data, given.jobs, lambda done, of: print(f"{done} of {of}", file=sys.stderr)
        )
    found = [bar._asdict() for bar in bars(Figures(rows), rows)]
    print(msgspec.json.encode({"bars": found, "rows": rows}).decode())
    return 0 if all(bar["ok"] for bar in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
