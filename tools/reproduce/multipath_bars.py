"""`python -m tools.reproduce.multipath_bars [--quick] [--caps | --trends]`: the soft links' figures against
what they must show; with --caps those of capped uplinks alone, with --trends what is said of other settings.

One bar a line of JSON's `bars`: what is measured, its value, its limit, whether it holds. The figures are
those of `pubctl reproduce multipath`; a file that it has written may be given instead of a run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tools.reproduce.multipath import STRATEGIES, reproduce
from tools.reproduce.multipath_datasets import CALIBRATED, CAPS
from tools.reproduce.multipath_figures import Bar, Figures
from tools.reproduce.multipath_trends import trends
from tools.reproduce.row import Row

YIELD_POINTS = 8.0  # off the paper's
CUT_PERCENT = 60.0  # of the pure forwarders, by SH
DELAY, TRAFFIC = 0.70, 0.70  # of S0's
SD_POINTS = 10.0  # under S2's yield


class Written(msgspec.Struct):
    rows: list[Row]


def bars(figures: Figures) -> Iterator[Bar]:
    for dataset in CALIBRATED:
        yield from _yields(figures, dataset)
        yield from _lengths(figures, dataset)
    for metric, limit in (("delay to S0's", DELAY), ("traffic to S0's", TRAFFIC)):
        value = figures.ours("C1/DT2 S2", metric)
        yield Bar(f"C1/DT2 S2: {metric}", value, limit, value <= limit)
    yield _capped(figures)


def caps(figures: Figures) -> Iterator[Bar]:
    """The whole curve, its maximum and where that is, and SH beside S2."""
    metric = "delivered of what was due, per cent"
    settings = [f"{d} {s} cap={cap:g}" for d in CALIBRATED for s in STRATEGIES for cap in CAPS]
    points = [figures.ours(setting, metric) for setting in settings]
    inside = sum(0 < point <= 100 for point in points)
    yield Bar("points of the curves", inside, len(settings), inside == len(settings))
    metric = "most deliveries over S0, per cent"
    for setting in (f"{d} {s}" for d in CALIBRATED for s in ("S1", "S2")):
        most, paper = figures.ours(setting, metric), figures.paper(setting, metric)
        where = figures.note(setting, metric)
        yield Bar(f"{setting}: {metric} (paper {paper:g}), {where}", most, 0.0, most > 0)
    yield _capped(figures)


def _yields(figures: Figures, dataset: str) -> Iterator[Bar]:
    metric = "yield in per cent"
    for strategy in ("S1", "S2", "SH"):
        setting = f"{dataset} {strategy}"
        off = abs(figures.ours(setting, metric) - figures.paper(setting, metric))
        yield Bar(f"{setting}: points of yield off the paper's", off, YIELD_POINTS, off <= YIELD_POINTS)
    cut = figures.ours(f"{dataset} SH", "pure forwarders cut, per cent")
    yield Bar(f"{dataset} SH: pure forwarders cut, per cent", cut, CUT_PERCENT, cut >= CUT_PERCENT)
    under = figures.ours(f"{dataset} S2", metric) - figures.ours(f"{dataset} SD", metric)
    yield Bar(f"{dataset} SD: points of yield under S2's", under, SD_POINTS, under <= SD_POINTS)


def _lengths(figures: Figures, dataset: str) -> Iterator[Bar]:
    hops = {s: figures.ours(f"{dataset} {s}", "mean hops") for s in ("S0", "S1", "S2")}
    for shorter, longer in (("S2", "S1"), ("S1", "S0")):
        what = f"{dataset}: mean hops of {shorter}, below {longer}'s"
        yield Bar(what, hops[shorter], hops[longer], hops[shorter] < hops[longer])


def _capped(figures: Figures) -> Bar:
    """Where the uplinks are short of what S2's copies need, SH must deliver more."""
    metric = "delivered of what was due, per cent"
    ahead = {
        (dataset, cap): figures.ours(f"{dataset} SH cap={cap:g}", metric)
        - figures.ours(f"{dataset} S2 cap={cap:g}", metric)
        for dataset in CALIBRATED
        for cap in CAPS
    }
    dataset, cap = max(ahead, key=lambda place: ahead[place])
    best = ahead[dataset, cap]
    return Bar(f"{dataset} cap={cap:g}: points that SH delivers above S2", best, 0.0, best > 0)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the publications")
    parser.add_argument("--caps", action="store_true", help="only what capped uplinks must show")
    parser.add_argument("--trends", action="store_true", help="only what the paper says of other settings")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=Path, help="what `pubctl reproduce multipath -o json` has written")
    given = parser.parse_args(words)
    if given.rows is not None:
        rows = msgspec.json.decode(given.rows.read_bytes(), type=Written).rows
    else:
        rows = reproduce(given.quick, None, given.jobs, others=given.trends)
    judge = caps if given.caps else trends if given.trends else bars
    found = [bar._asdict() for bar in judge(Figures(rows))]
    print(msgspec.json.encode({"bars": found, "rows": rows}).decode())
    return 0 if all(bar["ok"] for bar in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
