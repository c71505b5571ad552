"""The walk through docs/pipeline.md, as a data engineer would do it, and a job by spark-submit."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import pipeline
from bench.delivery_logs import Story, write
from grapevine.spark.session import JAVA_OPTIONS, SHORT_LIVED
from tests.system.overlay import free_port
from tools.pubctl.running import run

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pipeline.md").read_text()
WALK = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
BIN = Path(sys.executable).parent


def steps(block: str) -> Iterator[tuple[bool, list[str]]]:
    """Calls of pubctl, which run in this process and its Spark session, and what the shell does between."""
    for ours, lines in groupby(block.splitlines(), lambda line: line.startswith("pubctl ")):
        yield ours, list(lines)


@pytest.mark.timeout(600)
def test_the_walk(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(WALK) == 4
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPEVINE_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    port = str(free_port())
    published = []
    try:
        for ours, lines in steps("\n".join(WALK).replace("7470", port)):
            if not ours:
                subprocess.run(["bash", "-ec", "\n".join(lines)], check=True)
                continue
            for line in lines:
                assert run(["-o", "json", *shlex.split(line)[1:]]) == 0, (line, capsys.readouterr().err)
                said = json.loads(capsys.readouterr().out)
                published += [said["published"]] if said["schema"] == "pubctl.feed/1" else []
    finally:
        run(["local", "down", "lab.toml"])
    assert published == [5000, 5000, 5000]
    with open(tmp_path / "lab-tables" / "brokers.csv") as file:
        brokers = {row["broker"]: row for row in csv.DictReader(file)}
    cheap = 15_000 * 15 // 40  # of 40 prices, 15 are below 20
    assert int(brokers["b1"]["accepted"]) == 15_000
    assert int(brokers["b3"]["delivered"]) == cheap
    assert int(brokers["b2"]["pure_forwards"]) == int(brokers["b1"]["pure_forwards"]) == cheap
    assert [row["lost"] for row in brokers.values()] == ["0"] * 3
    page = (tmp_path / "lab.html").read_text()
    assert "nothing lost, nothing doubled" in page
    assert "cheap" in page


def test_by_spark_submit(tmp_path: Path) -> None:
    lines = write(Story(2000, brokers=3), tmp_path / "logs")
    java = ("--driver-java-options", SHORT_LIVED[JAVA_OPTIONS])
    command = [str(BIN / "spark-submit"), "--master", "local[1]", *java, f"{pipeline.__path__[0]}/collect.py"]
    said = subprocess.run(
        [*command, "--logs", "logs", "--to", "collected"],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["events"] == lines
