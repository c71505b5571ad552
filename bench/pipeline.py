"""`python -m bench.pipeline`: how long collect and report take over delivery logs, and in how much memory.

    python -m bench.pipeline [--events 100000,1000000,10000000] [--dir DIR] [-o json|table]

Each is a call of `pubctl` as a user makes it, Spark's start included; memory is the largest sum of the resident
memory of the driver, its Java and its Python workers. The logs are made first (bench/delivery_logs.py) and kept
in --dir, if one is given.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.broker import machine
from bench.delivery_logs import Story, write
from bench.latency import show
from bench.running import say

SCHEMA = "bench.pipeline/1"
LOOK_S = 0.1


def measured(*words: str) -> tuple[dict[str, Any], float, float]:
    """What `pubctl` printed, its seconds, and the megabytes at the peak."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tools.pubctl.main", "-q", "-o", "json", *words]
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out)
        process = psutil.Process(child.pid)
        most = 0
        while child.poll() is None:
            most = max(most, resident(process))
            time.sleep(LOOK_S)
        took = time.monotonic() - began
        out.seek(0)
        if child.returncode:
            raise SystemExit(f"pubctl {' '.join(words)} ended with {child.returncode}")
        return json.load(out), took, most / 1e6


def resident(process: psutil.Process) -> int:
    try:
        family = [process, *process.children(recursive=True)]
        return sum(each.memory_info().rss for each in family)
    except psutil.Error:
        return 0


def run(sizes: list[int], directory: Path) -> list[dict[str, Any]]:
    rows = []
    for size in sizes:
        logs = directory / f"logs-{size}"
        if not logs.exists():
            say(f"writing about {size:,} events")
            write(Story(size), logs)
        collection = directory / f"collected-{size}"
        shutil.rmtree(collection, ignore_errors=True)
        say(f"collecting {size:,}")
        collected, collect_s, collect_mb = measured("collect", "--logs", str(logs), "--to", str(collection))
        say(f"reporting {size:,}")
        page = directory / f"report-{size}.html"
        reported, report_s, report_mb = measured("report", str(collection), "--to", str(page))
        assert reported["events"] == collected["events"]
        rows.append(
            {
                "events": collected["events"],
                "log_mb": round(sum(row["bytes"] for row in collected["rows"]) / 1e6),
                "collect_s": round(collect_s, 1),
                "collect_job_s": collected["seconds"],
                "collect_mb": round(collect_mb),
                "report_s": round(report_s, 1),
                "report_job_s": reported["seconds"],
                "report_mb": round(report_mb),
                "page_kb": round(page.stat().st_size / 1e3),
            }
        )
    return rows


def growth(rows: list[dict[str, Any]]) -> float | None:
    """How much longer the largest took for each event than the one before it; 1 is linear."""
    if len(rows) < 2:
        return None
    (small, large) = rows[-2:]
    times = [row["collect_job_s"] + row["report_job_s"] for row in (small, large)]
    return round(times[1] / times[0] * small["events"] / large["events"], 2)


def main() -> None:
    parser = argparse.ArgumentParser(
        "bench.pipeline", description="collect and report against the size of logs"
    )
    parser.add_argument("--events", default="100000,1000000,10000000")
    parser.add_argument("--dir", type=Path)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    sizes = [int(text) for text in options.events.split(",")]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        rows = run(sizes, options.dir or Path(directory))
    result = {"schema": SCHEMA, "rows": rows, "growth": growth(rows), "machine": machine()}
    print(json.dumps(result) if options.output == "json" else show(result))


if __name__ == "__main__":
    main()
