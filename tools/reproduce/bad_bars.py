"""`python -m tools.reproduce.bad_bars [--quick] [--data DIR]`: BAD's figures against what its text says.

One bar a line of JSON's `bars`: what is measured, its value, its limit, whether it holds; exit 1 if one does
not. A file that `pubctl reproduce bad -o json` has written may be given instead of a run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tools.reproduce.bad import ALPHAS, BETAS, PRINTED, reproduce
from tools.reproduce.multipath_bars import Written
from tools.reproduce.multipath_figures import Bar, Figures


def bars(figures: Figures, quick: bool) -> Iterator[Bar]:
    yield from _less_than(figures, "RND", "figures 5, 6")
    yield from _less_than(figures, "NR", "figures 8, 10")
    for scheme in ("LDM", "SDM"):
        yield _below(figures, f"figure 12: {scheme} moves more from NR than from RND", scheme, "RND")
        yield _below(figures, f"figure 12: {scheme} moves more from NR than from RR", scheme, "RR")
    shuffles = figures.ours("test-bed RND LDM+GSH", "shuffles")
    yield Bar("figure 6: shuffles from RND", shuffles, 0, shuffles == 0)
    shuffles = figures.ours("test-bed NR LDM+GSH", "shuffles")
    yield Bar("figure 9: shuffles from NR", shuffles, 1, shuffles >= 1)
    yield from _simulation(figures)
    if not quick:
        yield from _thresholds(figures)


def _less_than(figures: Figures, placed: str, where: str) -> Iterator[Bar]:
    for scheme in ("LDM", "SDM"):
        for metric in ("cov", "max load, kB/s"):
            ours = figures.ours(f"test-bed {placed} {scheme}", metric)
            none = figures.ours(f"test-bed {placed} No LB", metric)
            yield Bar(f"{where}: {metric} of {scheme} below No LB", ours, none, ours < none)


def _below(figures: Figures, what: str, scheme: str, placed: str) -> Bar:
    more = figures.ours(f"test-bed NR {scheme}", "migrations")
    less = figures.ours(f"test-bed {placed} {scheme}", "migrations")
    return Bar(what, more, less, more > less)


def _simulation(figures: Figures) -> Iterator[Bar]:
    most = figures.ours("simulation NR No LB", "most subscribers of a broker")
    yield Bar("figure 13(1): a broker with more than 2,000 subscribers", most, 2000, most > 2000)
    few = figures.ours("simulation NR No LB", "fewest subscribers of a broker")
    yield Bar("figure 13(1): a broker with fewer than 500", few, 500, few < 500)
    cov = figures.ours("simulation NR LDM", "cov")
    none = figures.ours("simulation NR No LB", "cov")
    yield Bar("figure 13(2): cov of LDM below No LB", cov, none, cov < none)
    slow = figures.ours("simulation NR LDM", "seconds until cov <= 0.16")
    fast = figures.ours("simulation NR GSH", "seconds until cov <= 0.16")
    yield Bar("figure 13: GSH balances sooner than LDM", slow, fast, fast < slow)
    for name in ("GSH", "GSH" + PRINTED):
        after = figures.ours(f"simulation NR {name}", "shuffles")
        yield Bar(f"figure 13(3): {name} needs no second shuffle", after, 1, after == 1)
    ended = figures.ours("simulation NR LDM unbounded", "cov")
    yield Bar("cov after LDM has ended is at most alpha", ended, 0.15, ended <= 0.151)


def _thresholds(figures: Figures) -> Iterator[Bar]:
    def of(alpha: float, beta: float, metric: str) -> float:
        return figures.ours(f"simulation NR LDM beta={beta / 1e6:g} alpha={alpha:g}", metric)

    low, high = ALPHAS[0], ALPHAS[-1]
    small, large = BETAS[0], BETAS[-1]
    fine, coarse = of(low, small, "cov"), of(high, small, "cov")
    yield Bar("figure 14(1): smaller alpha, lower cov", fine, coarse, fine < coarse)
    fine, coarse = of(low, small, "migrations"), of(high, small, "migrations")
    yield Bar("figure 14(2): smaller alpha, more migrations", fine, coarse, fine > coarse)
    fine, coarse = of(0.15, small, "cov"), of(0.15, large, "cov")
    yield Bar("figure 14(1): smaller beta, lower cov", fine, coarse, fine < coarse)
    fine, coarse = of(0.15, small, "migrations"), of(0.15, large, "migrations")
    yield Bar("figure 14(2): smaller beta, more migrations", fine, coarse, fine > coarse)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, no thresholds")
    parser.add_argument("--data", type=Path, default=os.environ.get("GRAPEVINE_DATA"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=Path, help="what `pubctl reproduce bad -o json` has written")
    given = parser.parse_args(words)
    if given.rows is not None:
        rows = msgspec.json.decode(given.rows.read_bytes(), type=Written).rows
    else:
        rows = reproduce(given.quick, Path(given.data) if given.data else None, given.jobs)
    found = [bar._asdict() for bar in bars(Figures(rows), given.quick)]
    print(msgspec.json.encode({"bars": found}).decode())
    return 0 if all(bar["ok"] for bar in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
