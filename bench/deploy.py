"""`python -m bench.deploy`: how long do many hosts take, by one command each?

Every loopback address is a host with a directory of its own, and a real sshd answers for all of them; one
broker a host, in a binary tree. All of them share this machine, so that the time per host is that of its
processors more than that of ssh. The last line is JSON.

python -m bench.deploy [--hosts 50]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.system.lab import Lab


def measure(hosts: int) -> dict[str, Any]:
    figures: dict[str, Any] = {"hosts": hosts}
    with tempfile.TemporaryDirectory() as directory, Lab(Path(directory)) as lab:
        lab.write(hosts)
        for verb, words, wanted in (
            ("up", ["--yes"], "running"),
            ("status", [], "running"),
            ("down", ["--yes"], "ended"),
        ):
            began = time.monotonic()
            rows = lab(verb, *words, timeout_s=900)["rows"]
            took = time.monotonic() - began
            seconds = [row["seconds"] for row in rows]
            figures[verb] = sum(row["state"] == wanted for row in rows)
            figures[f"{verb}_s"] = round(took, 1)
            figures[f"{verb}_s_per_host"] = round(took / hosts, 2)
            figures[f"{verb}_busy_s_median"] = round(statistics.median(seconds), 2)
            print(f"{verb}: {took:.1f} s, {took / hosts:.2f} s a host", flush=True)
        figures["left"] = [
            str(path) for path in (Path(lab.at), *lab.keys.glob("b*.broker.toml")) if path.exists()
        ]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser("bench.deploy", description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=50)
    print(json.dumps(measure(parser.parse_args().hosts)))


if __name__ == "__main__":
    main()
