"""`python -m tools.reproduce.dynatops_bars [--quick]`: what of DYNATOPS must come out, and whether it does.

One bar a line of JSON's `bars`. The paper's other claims stand among `rows`, where they say held or missed;
a file that `pubctl reproduce dynatops -o json` has written may be given instead of a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tools.reproduce.dynatops import reproduce
from tools.reproduce.row import Row

M = "multimodal rate=0.1"
BARS: dict[tuple[str, str, str], float] = {
    ("7a", M, "brokers' changes less, per cent"): 80,
    ("7c", f"{M} against Bayeux", "overhead less, per cent"): 50,
    ("7c", f"{M} against TCO", "overhead less, per cent"): 50,
    ("8b", "multimodal against the best other", "messages less, per cent"): 0,
    ("8b", "Zipf against the best other", "messages less, per cent"): 0,
    ("8b", "uniform against the best other", "messages less, per cent"): 0,
    ("6e", "location c=10 against Bayeux(static)", "messages less, per cent"): 40,
    ("6e", "location c=10 against GeoPS", "messages less, per cent"): 20,
    ("7d", f"{M} against TCO rerun", "reconfiguration messages less, per cent"): 80,
    ("ours", f"{M} base 16, direct, against Bayeux", "delay less, per cent"): 10,
    ("ours", f"{M} base 16, direct, against TCO", "delay less, per cent"): 10,
}


class Bar(NamedTuple):
    what: str
    value: float | None
    limit: float
    ok: bool


class Written(msgspec.Struct):
    rows: list[Row]


def bars(rows: list[Row]) -> Iterator[Bar]:
    """A bar whose row is not there is missed."""
    found = {(row.figure, row.setting, row.metric): row.ours for row in rows}
    for key, limit in BARS.items():
        value = found.get(key)
        yield Bar(" ".join(key), value, limit, value is not None and value >= limit)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few settings, small and short")
    parser.add_argument("--data", type=Path, help="directory of real data")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=Path, help="what `pubctl reproduce dynatops -o json` has written")
    given = parser.parse_args(words)
    if given.rows is not None:
        rows = msgspec.json.decode(given.rows.read_bytes(), type=Written).rows
    else:
        rows = reproduce(given.quick, given.data, given.jobs)
    found = [bar._asdict() for bar in bars(rows)]
    print(msgspec.json.encode({"bars": found, "rows": rows}).decode())
    return 0 if all(bar["ok"] for bar in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
