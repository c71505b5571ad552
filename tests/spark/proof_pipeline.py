"""`python -m tests.spark.proof_pipeline`: feed, collect and report on a standalone cluster.

Rows are counted at a subscriber, events against the lines of the logs, and the report against a plain count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.delivery_logs import Story, write
from tests.spark import plain
from tests.spark.cluster import Cluster
from tests.spark.feeding import Brokers, once
from tests.system.overlay import ROOT

ROWS = 20_000


def call(cluster: Cluster, keys: Path, *words: str) -> dict[str, Any]:
    environment = {**os.environ, "GRAPEVINE_KEYS": str(keys), "PYTHONPATH": f"{ROOT / 'client'}:{ROOT}"}
    command = [sys.executable, "-m", "tools.pubctl.main", "-q", "-o", "json", *words, "--master", cluster.url]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert said.returncode == 0, said.stdout + said.stderr
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def feed(cluster: Cluster, brokers: Brokers, directory: Path) -> int:
    source = directory / "rows.csv"
    source.write_text("job,row\n" + "".join(f"cluster,{row}\n" for row in range(ROWS)))
    with brokers.reading("job = 'cluster'") as reader:
        done = call(cluster, brokers.fed.keys, "-b", brokers.fed.address, "feed", str(source))
        assert reader.all(ROWS) == once(ROWS)
    return int(done["published"])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        directory = Path(name)
        lines = write(Story(50_000, lose=0.002), directory / "logs")
        with Cluster(directory / "spark") as cluster, Brokers(directory / "brokers") as brokers:
            published = feed(cluster, brokers, directory)
            logs, to = str(directory / "logs"), str(directory / "collected")
            collected = call(cluster, brokers.fed.keys, "collect", "--logs", logs, "--to", to)
            assert collected["events"] == lines
            page = str(directory / "page.html")
            reported = call(cluster, brokers.fed.keys, "report", to, "--to", page)
        found = plain.events(directory / "logs")
        expected = plain.counts(found)
        same = {key: reported[key] for key in ("accepted", "forwarded", "delivered", "hops")}
        assert same == {key: expected[key] for key in same}
        assert reported["lost"] == sum(plain.lost(found).values())
    print(json.dumps({"published": published, "collected": lines, "lost": reported["lost"]}))


if __name__ == "__main__":
    main()
