"""`deploy up` brings a back end, a coordinator, brokers and the driver of channels onto hosts.

Hosts are loopback addresses with a directory each; a real sshd answers for all of them. Without systemd the
driver is a process; in a machine that systemd has booted it is its unit. Its own file, because it needs
Spark, sshd and systemd-nspawn: `pytest tests/spark/proof_channels_deployed.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import grapevine
from tests.spark.channels import FILE, SHELTERS
from tests.system.lab import Lab, why_no_sshd
from tests.system.machine import HOME, Machine, machine
from tests.system.overlay import ROOT, eventually


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    pytest.importorskip("asyncssh")
    if missing := why_no_sshd():
        pytest.skip(missing)
    with Lab(tmp_path) as made:
        made.topology.write_text(
            town([made.host(number) for number in range(1, 5)], made.base, sys.executable)
        )
        yield made


def town(hosts: list[str], port: int, python: str) -> str:
    """The topology file: a back end, a coordinator, two brokers, the driver."""
    lines = [f"port = {port}"]
    roles = {1: ["broker", "backend"], 2: ["broker", "coordinator"], 3: ["broker"], 4: ["broker"]}
    for number, said in roles.items():
        lines += ["[[broker]]", f'name = "b{number}"', f'host = "{hosts[number - 1]}"', f"roles = {said}"]
        lines += ['neighbours = ["b1"]'] if number > 1 else []
        lines += ["location = [60.2, 25.0]"] if number == 3 else []
        lines += ["location = [61.5, 23.8]"] if number == 4 else []
    lines += ["[[client]]", 'name = "channels"', 'kind = "driver"', 'broker = "b1"']
    lines += ['master = "local[1]"', f'python = "{python}"']
    return "\n".join(lines) + "\n"


def driver_pid(lab: Lab) -> str:
    (pid,) = Path(lab.at).rglob("channels/pid")
    return pid.read_text()


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
        before = driver_pid(lab)
        assert lab.states("upgrade", "--rolling", "--yes") == {"running", "started"}
        assert driver_pid(lab) != before, "a driver of the old packages would go on"
        publisher.publish({"class": "report", "id": 8, "type": "fire", "lat": 60.0, "lon": 24.0})
        publisher.flush(timeout=120)
        assert [result.row["id"] for result in results.next_batch(1, timeout=200)] == [8]
    assert lab.states("down", "--yes") == {"ended"}


# --- in a machine with systemd ----------------------------------------------------------------------------

UNIT, KEYS = "grapevine-channels", "GRAPEVINE_KEYS=/srv/keys"
SSHD = """\
Port 2222
HostKey /srv/host
AuthorizedKeysFile /srv/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile /srv/sshd.pid
"""
ASKING = """\
import sys, grapevine
with grapevine.connect("tcp://127.0.1.4:7480", name="ann", timeout=60) as ann:
    results = ann.subscribe_channel("Live", {"low": 0}, timeout=120)
    ann.publish({"class": "report", "id": int(sys.argv[1]), "type": "fire", "lat": 60.0, "lon": 24.0})
    ann.flush(timeout=60)
    print([result.row["id"] for result in results.next_batch(1, timeout=200)])
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Machine]:
    if missing := why_no_sshd():
        pytest.skip(missing)
    with machine(tmp_path / "machine") as booted:
        booted.install("spark", "deploy")
        files = {"sshd": SSHD, "ask.py": ASKING, "channels.toml": FILE, "shelters.csv": SHELTERS}
        hosts = [f"127.0.1.{number}" for number in range(1, 5)]
        files["lab.toml"] = town(hosts, 7480, f"{HOME}/bin/python")
        for name, text in files.items():
            (booted.root / "srv" / name).write_text(text)
        for name in ("host", "user"):
            booted.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"/srv/{name}")
        public = (booted.root / "srv/host.pub").read_text().split()[:2]
        (booted.root / "srv/known").write_text(f"* {' '.join(public)}\n")
        booted.run("mkdir", "-p", "/run/sshd")
        booted.start("/usr/sbin/sshd", "-D", "-e", "-f", "/srv/sshd")
        eventually(lambda: (booted.root / "srv/sshd.pid").exists())
        yield booted


def deploy(host: Machine, verb: str, *words: str) -> dict[str, str]:
    """The state of each broker and of the driver."""
    access = ["--port", "2222", "--identity", "/srv/user", "--known-hosts", "/srv/known", "--user", "root"]
    said = ("env", KEYS, "XDG_STATE_HOME=/srv/state", "pubctl", "deploy", verb, "/srv/lab.toml")
    ended = host.run(*said, *access, "--at", "/srv/at", *words, "-o", "json", timeout_s=500)
    return {row["broker"]: row["state"] for row in json.loads(ended.stdout)["rows"]}


def asked(host: Machine, number: int) -> str:
    return host.run("env", KEYS, f"{HOME}/bin/python", "/srv/ask.py", str(number), timeout_s=400).stdout


@pytest.mark.nspawn
@pytest.mark.timeout(900)
def test_the_driver_is_a_unit_where_there_is_systemd(host: Machine) -> None:
    names = [*(f"b{number}" for number in range(1, 5)), "channels"]
    assert deploy(host, "up", "--yes") == dict.fromkeys(names, "running")
    assert host.shows(UNIT, "ActiveState") == "active", "ready: it has its lease"
    pubctl = ("env", KEYS, "pubctl", "-b", "tcp://127.0.1.1:7480")
    host.run(*pubctl, "channel", "create", "--unchecked", "/srv/channels.toml")
    assert asked(host, 7) == "[7]\n"
    before = host.shows(UNIT, "MainPID")
    host.run("systemctl", "kill", "--signal=KILL", UNIT)
    eventually(lambda: host.shows(UNIT, "MainPID") not in (before, "0"), 30, 0.5)
    eventually(lambda: host.shows(UNIT, "ActiveState") == "active", 200, 1.0)
    assert asked(host, 8) == "[8]\n"
    assert deploy(host, "status") == dict.fromkeys(names, "running")
    assert deploy(host, "up", "--yes") == dict.fromkeys(names, "running"), "again: what is there stays"
    assert deploy(host, "down", "--yes") == dict.fromkeys(names, "ended")
    assert host.shows(UNIT, "LoadState") == "not-found"
    assert not host.run("pgrep", "java", code=None).stdout
