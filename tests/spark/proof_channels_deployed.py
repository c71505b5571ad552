"""`deploy up` brings a back end, a coordinator, brokers and the driver of channels onto hosts.

Hosts are loopback addresses with a directory each; a real sshd answers for all of them. Its own file, because
it needs Spark and sshd: `pytest tests/spark/proof_channels_deployed.py`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import grapevine
from tests.spark.channels import FILE, SHELTERS
from tests.system.lab import Lab, why_no_sshd
from tests.system.overlay import ROOT, eventually


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    pytest.importorskip("asyncssh")
    if missing := why_no_sshd():
        pytest.skip(missing)
    with Lab(tmp_path) as made:
        lines = [f"port = {made.base}"]
        roles = {1: ["broker", "backend"], 2: ["broker", "coordinator"], 3: ["broker"], 4: ["broker"]}
        for number, said in roles.items():
            lines += ["[[broker]]", f'name = "b{number}"', f'host = "{made.host(number)}"', f"roles = {said}"]
            lines += ['neighbours = ["b1"]'] if number > 1 else []
            lines += ["location = [60.2, 25.0]"] if number == 3 else []
            lines += ["location = [61.5, 23.8]"] if number == 4 else []
        lines += ["[[client]]", 'name = "channels"', 'kind = "driver"', 'broker = "b1"']
        lines += ['master = "local[1]"', f'python = "{sys.executable}"']
        made.topology.write_text("\n".join(lines) + "\n")
        yield made


def test_channels_on_hosts(lab: Lab, tmp_path: Path) -> None:
    rows = {row["broker"]: row["state"] for row in lab("up", "--yes")["rows"]}
    assert rows == {f"b{n}": "running" for n in range(1, 5)} | {"channels": "started"}
    (tmp_path / "shelters.csv").write_text(SHELTERS)
    (tmp_path / "channels.toml").write_text(FILE)
    create = [
        sys.executable,
        "-m",
        "tools.pubctl.main",
        "-b",
        lab.address(1),
        "channel",
        "create",
        "--unchecked",
    ]
    subprocess.run([*create, str(tmp_path / "channels.toml")], env=lab.environment, cwd=ROOT, check=True)
    near_b4 = (61.4, 23.7)

    def placed() -> grapevine.Client | None:
        client = grapevine.connect(
            lab.address(2), name="ann", keys=lab.keys, place="nearest", location=near_b4, timeout=60
        )
        if client.broker == "b4":
            return client
        client.close()  # the coordinator had not heard of it yet
        return None

    with (
        eventually(placed, 60, 1.0) as ann,
        grapevine.connect(lab.address(3), name="pub", keys=lab.keys, timeout=60) as publisher,
    ):
        results = ann.subscribe_channel("Live", {"low": 0}, timeout=60)
        publisher.publish({"class": "report", "id": 7, "type": "fire", "lat": 60.0, "lon": 24.0})
        publisher.flush(timeout=60)
        found = results.next_batch(10, timeout=200)
        assert [result.row["id"] for result in found] == [7]
    assert lab.states("down", "--yes") == {"ended"}
