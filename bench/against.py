"""`python -m bench.against`: this tree's broker against another commit's, in one interleaved run.

    python -m bench.against [--commit 3755a55] [--workloads T1,T2,T3] [--rounds 7] [--scale 1]
                            [--installed DIR] [-o json|table]

Both brokers run by one interpreter and one set of libraries, and are measured by this tree's clients, in
turns which first; a round's ratio is of two neighbouring measurements, so that whatever else the machine does
falls on both. The figure is the median of the rounds' ratios; those of the best rounds stand beside it, for
a machine that is not calm. `--installed` keeps the other commit's packages there, or finds them there: then
nobody waits for a build.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench.broker import machine
from bench.compiled import say_if_not
from bench.latency import show
from bench.options import at_least, end_tidily, names
from bench.running import Figure, measure, say
from bench.systems.grapevine import Grapevine
from bench.workloads import Topics, topic_workloads
from tests.system.proof_versions import LAST, build, uv

SCHEMA = "bench.against/1"
WORKLOADS = ("T1", "T2", "T3")


def install(commit: str, place: Path) -> Path:
    """The packages of a commit, without what they need: that is the same for both."""
    packages = place / commit
    if not packages.is_dir():
        with tempfile.TemporaryDirectory() as directory:
            wheels = [str(wheel) for wheel in build(commit, Path(directory)).glob("*.whl")]
            command = [uv(), "--quiet", "pip", "install", "--no-deps", "--python", sys.executable]
            subprocess.run([*command, "--target", str(packages), *wheels], check=True)
    return packages


def compare(workload: Topics, commit: str, packages: Path, rounds: int) -> dict[str, Any]:
    pairs: list[tuple[Figure, Figure]] = []
    for number in range(rounds):
        systems = {"here": Grapevine("here"), "there": Grapevine("there", packages=packages)}
        order = ("here", "there") if number % 2 else ("there", "here")
        figures = {name: measure(systems[name], workload) for name in order}
        pairs.append((figures["here"], figures["there"]))
        say(
            f"{number + 1}/{rounds} {workload.name}: here {figures['here'].deliveries_s:,.0f} deliveries/s, "
            f"{commit} {figures['there'].deliveries_s:,.0f}"
        )
    here, there = zip(*pairs, strict=True)
    ratios = sorted(ours.deliveries_s / theirs.deliveries_s for ours, theirs in pairs)
    return {
        "workload": workload.name,
        "rounds": rounds,
        "here_deliveries_s": round(median(figure.deliveries_s for figure in here)),
        "there_deliveries_s": round(median(figure.deliveries_s for figure in there)),
        "ratio": round(median(ratios), 3),
        "lowest": round(ratios[0], 3),
        "highest": round(ratios[-1], 3),
        # Of the best rounds: what a busy machine hides least.
        "best_ratio": round(max(f.deliveries_s for f in here) / max(f.deliveries_s for f in there), 3),
        "best_cpu_ratio": round(
            min(f.broker_us_per_msg for f in here) / min(f.broker_us_per_msg for f in there), 3
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser("bench.against", description="this tree against another commit")
    parser.add_argument("--commit", default=LAST)
    parser.add_argument("--workloads", type=names(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--rounds", type=at_least(1), default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--installed", type=Path)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    say_if_not()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        packages = install(options.commit, (options.installed or Path(directory)).absolute())
        topics = topic_workloads(options.scale)
        rows = [compare(topics[name], options.commit, packages, options.rounds) for name in options.workloads]
    result = {"schema": SCHEMA, "commit": options.commit, "rows": rows, "machine": machine()}
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
