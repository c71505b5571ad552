"""What a user of channels is told: mistakes with their place and exit code 2, a driver that dies.

`pytest tests/spark/proof_channels_told.py`: real daemons, real Spark; its own file, because a lease takes a
minute to end.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.spark.channels import Cluster, collect
from tests.system.overlay import ROOT, eventually

pytestmark = pytest.mark.timeout(900)
GOOD = """[dataset.Numbers]
filter = "class = 'number'"
columns = "id bigint, kind string"
[dataset.Names]
file = "shelters.csv"
[channel.Above]
period = "1s"
new = "Numbers"
parameters.low = "bigint"
sql = "SELECT n.id, upper(n.kind) AS kind FROM Numbers n WHERE n.id > :low"
"""
# What is wrong -> (what is written instead, where and what is told).
MISTAKES = {
    "SQL that cannot be read": ("n.id > :low", "n.id > :low )", r"10:76: channel\.Above\.sql: "),
    "SQL that is no question": ("SELECT n.id, upper", "DROP n.id, upper", r"10:\d+: channel\.Above\.sql: "),
    "a column that is not there": ("SELECT n.id,", "SELECT n.idd,", r"10:15: channel\.Above\.sql: .*idd"),
    "a function that is none": ("upper(", "uper(", r"10:\d+: channel\.Above\.sql: .*UPER"),
    "a condition that is none": ("n.id > :low", "n.id + :low", r"10:\d+: .*\(n?\.?id \+ :low\).*boolean"),
    "a dataset that is not there": ("FROM Numbers", "FROM Number", r"10:\d+: .*did you mean Numbers\?"),
    "a parameter": (":low", ":low AND n.id < :hi", r"10:\d+: .*parameter :hi is not declared"),
    "a parameter's type": ('low = "bigint"', 'low = "bigit"', r"9:1: .*'bigit' is not one of"),
    "a column's type": ("id bigint", "id bigit", r"3:\d+: dataset\.Numbers\.columns: .*'bigit'"),
    "a period": ('"1s"', '"1y"', r"7:1: channel\.Above\.period: '1y' is not a time"),
    "a filter": ("class = 'number'", "class = ", r"2:\d+: dataset\.Numbers\.filter: "),
    "a file of a dataset": ("shelters.csv", "nowhere.csv", r"5:1: dataset\.Names\.file: .*is not there"),
    "a file that is no TOML": ("[channel.Above]", "[channel.Above", r"6:15: "),
}  # fmt: skip
VALUES = {
    "low=x": "parameter low: expected a number (bigint), given 'x'",
    "low=1.5": "parameter low: expected a whole number of 64 bits (bigint), given 1.5",
    "lov=1": "parameter lov: expected one of low, given 1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("told"), "edge") as found:
        found.create(GOOD)
        yield found


def said(cluster: Cluster, *words: str) -> tuple[int, str, str]:
    """As a person sees it."""
    command = [sys.executable, "-m", "tools.pubctl.main", *words, "-b", cluster["edge"].address, "-t", "30s"]
    done = subprocess.run(
        command, env=cluster.environment, cwd=ROOT, capture_output=True, timeout=400, check=False, text=True
    )
    return done.returncode, done.stdout, done.stderr


def complaint(cluster: Cluster, path: Path) -> str:
    code, _, text = said(cluster, "channel", "create", str(path), "--dry-run")
    assert code == 2, text
    lines = [line for line in text.splitlines() if line.startswith("pubctl: ") or str(path) in line]
    assert len(lines) == 1, text
    return lines[0].removeprefix("pubctl: ")


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_one_line_with_its_place(cluster: Cluster, what: str) -> None:
    right, wrong, told = MISTAKES[what]
    path = cluster.directory / "wrong.toml"
    assert right in GOOD
    path.write_text(GOOD.replace(right, wrong))
    assert re.match(re.escape(f"{path}:") + told, line := complaint(cluster, path)), line


def test_a_file_that_is_not_there(cluster: Cluster) -> None:
    path = cluster.directory / "none.toml"
    assert complaint(cluster, path) == f"{path}:1:1: cannot be read: No such file or directory"


@pytest.mark.parametrize("given", VALUES)
def test_a_wrong_value(cluster: Cluster, given: str) -> None:
    code, _, text = said(cluster, "channel", "sub", "Above", given)
    assert code == 2 and text == f"pubctl: {VALUES[given]}\n", text


def test_a_driver_without_its_java_ends_and_is_told(cluster: Cluster) -> None:
    """Killed alone, as when memory runs out."""
    cluster.start_driver()
    driver = cluster.driver
    assert driver is not None
    eventually(lambda: cluster.pubctl("channel", "ls").get("driver"), 120, 1.0)
    (java,) = [
        child for child in psutil.Process(driver.pid).children(recursive=True) if child.name() == "java"
    ]
    java.kill()
    assert driver.wait(60) == 1
    told = (cluster.directory / "driver.log").read_text()
    assert "Java has ended with -9: channels stand still until a driver is started" in told
    assert "no driver for" in "".join(said(cluster, "channel", "ls")[1:]), "its lease was given back"


def test_a_driver_that_dies_is_told_and_nothing_is_lost(cluster: Cluster) -> None:
    """Who was subscribed before, and who comes while there is none."""

    def publish(*numbers: int) -> None:
        for number in numbers:
            publisher.publish({"class": "number", "id": number, "kind": "x"})
        publisher.flush(timeout=60)

    def listed(text: str) -> bool:
        code, out, error = said(cluster, "channel", "ls")
        return code == 0 and text in out + error

    assert listed("no driver for")
    with cluster.client("edge", "pub") as publisher, cluster.client("edge", "ann") as ann:
        results = ann.subscribe_channel("Above", {"low": 0}, timeout=60)
        cluster.start_driver()
        publish(1, 2)
        assert [each.row for each in collect(results, 2, 300)] == [{"id": i, "kind": "X"} for i in (1, 2)]
        assert not listed("driver")
        cluster.stop_driver()  # kill -9
        publish(3)
        eventually(lambda: listed("has said nothing for"), 60, 1.0)
        eventually(lambda: listed("no driver for"), 90, 1.0)
        with cluster.client("back", "bob") as bob:
            others = bob.subscribe_channel("Above", {"low": 3}, timeout=60)
            publish(4, 5)
            cluster.start_driver()
            assert [each.row["id"] for each in collect(results, 3, 300)] == [3, 4, 5]
            assert [each.row["id"] for each in collect(others, 2, 300)] == [4, 5]
        assert not listed("driver")
