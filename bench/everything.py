"""`python -m bench.everything`: every measurement of bench/figures.md, then the page itself.

    python -m bench.everything [--load 1.5] [--data DIR] [--only broker-topics,latency] [--quick [DIR]]

Each measurement waits until the machine's load of the last minute is below `--load`: figures taken beside other work
say little. A measurement that fails is reported and the others go on. Results are kept under bench/results, so
that a later run of some of them renews these alone; what `--quick` measures and its page go to another directory.
"""  # noqa: E501

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.options import end_tidily, names
from bench.report import PAGE, RESULTS, ROOT
from bench.running import say

MEASUREMENTS: dict[str, list[str]] = {
    "broker-topics": ["bench.broker", "--workloads", "T1,T2,T3"],
    "broker-content": ["bench.broker", "--peers", "rabbitmq,activemq", "--workloads", "C1"],
    "broker-quotes": ["bench.broker", "--peers", "", "--workloads", "quotes"],
    "broker-clients": ["bench.broker", "--peers", "", "--workloads", "chain,clients"],
    "latency": ["bench.latency"],
    "features": ["bench.features"],
    "scale": ["bench.scale"],
    "memory": ["bench.memory", "--peers"],
    "startup": ["bench.startup"],
    "spark": ["bench.spark"],
}
QUICK = {"bench.broker": ["--rounds", "1", "--scale", "0.05"], "bench.latency": ["--rounds", "1"]}
QUICK |= {"bench.features": ["--pairs", "3"], "bench.scale": ["--rounds", "1", "--scale", "0.1"]}
QUICK |= {"bench.memory": ["--subscriptions", "0,1000"], "bench.startup": ["--rounds", "1"]}
QUICK |= {"bench.spark": ["--rows", "20000", "--rounds", "1"]}


def wait_for_calm(load: float) -> None:
    while os.getloadavg()[0] > load:
        say(f"load {os.getloadavg()[0]:.1f}, waiting for {load:g}")
        time.sleep(15)


def measure(name: str, quick: bool, results: Path) -> bool:
    command = [sys.executable, "-m", *MEASUREMENTS[name], "-o", "json"]
    command += QUICK[MEASUREMENTS[name][0]] if quick else []
    say(f"== {name}: {' '.join(command[1:])}")
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
    if ended.returncode:
        say(f"== {name} failed with {ended.returncode}")
        return False
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{name}.json").write_bytes(ended.stdout)
    return True


def main() -> int:
    parser = argparse.ArgumentParser("bench.everything", description="every measurement, then the page")
    parser.add_argument("--load", type=float, default=1.5, help="wait until the machine's load is below this")
    parser.add_argument("--data", help="directory with quotes_lowsel")
    parser.add_argument("--only", type=names(MEASUREMENTS), default=list(MEASUREMENTS))
    parser.add_argument(
        "--quick",
        nargs="?",
        const=Path("build/bench"),
        type=Path,
        metavar="DIR",
        help="small, once: to see that everything runs; results and page in DIR (build/bench)",
    )
    options = parser.parse_args()
    end_tidily()
    results, page = (options.quick, options.quick / PAGE.name) if options.quick else (RESULTS, PAGE)
    if options.data:
        os.environ["GRAPEVINE_DATA"] = options.data
    failed = 0
    for name in options.only:
        wait_for_calm(options.load)
        failed += not measure(name, bool(options.quick), results.absolute())
    command = [
        sys.executable,
        "-m",
        "bench.report",
        "--results",
        results.absolute(),
        "--page",
        page.absolute(),
    ]
    return int(bool(subprocess.run(command, cwd=ROOT).returncode or failed))


if __name__ == "__main__":
    sys.exit(main())
