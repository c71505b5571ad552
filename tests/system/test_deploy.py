"""A topology on several hosts by one command: every loopback address is a host with its own directory, and a
real sshd answers for all of them."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import grapevine
from tests.system.overlay import free_port

pytestmark = pytest.mark.slow

BROKERS = 5
AFTER = 50  # publications after an upgrade


class Lab:
    def __init__(self, directory: Path, sshd: str) -> None:
        self.directory = directory
        self.port, self.base = free_port(), free_port()
        self.at = f"/tmp/grapevine-lab-{self.port}"
        self.topology = directory / "lab.toml"
        for name in ("host", "user"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
            subprocess.run(make, check=True)
        public = (directory / "host.pub").read_text().split()[:2]
        (directory / "known").write_text(f"* {' '.join(public)}\n")
        (directory / "authorised").write_text((directory / "user.pub").read_text())
        (directory / "authorised").chmod(0o600)
        options = {
            "Port": self.port, "ListenAddress": "0.0.0.0", "HostKey": directory / "host",
            "AuthorizedKeysFile": directory / "authorised", "StrictModes": "no", "UsePAM": "no",
            "PidFile": directory / "pid", "PermitRootLogin": "yes", "MaxStartups": "200",
        }  # fmt: skip
        config = directory / "sshd"
        config.write_text("".join(f"{key} {value}\n" for key, value in options.items()))
        self.sshd = subprocess.Popen([sshd, "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL)
        self.environment = os.environ | {
            "GRAPEVINE_KEYS": str(directory / "keys"),
            "XDG_STATE_HOME": str(directory / "state"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def write(self, hosts: int, absent: bool = False) -> None:
        lines = [f"port = {self.base}"]
        for number in range(1, hosts + 1):
            lines += ["[[broker]]", f'name = "b{number}"', f'host = "{self.host(number)}"']
            lines += [f'neighbours = ["b{number // 2}"]'] if number > 1 else []
        if absent:
            lines += ["[[broker]]", 'name = "gone"', 'host = "192.0.2.1"', 'neighbours = ["b1"]']
        self.topology.write_text("\n".join(lines) + "\n")

    def host(self, number: int) -> str:
        return f"127.0.1.{number}"

    def __call__(self, verb: str, *words: str, code: int = 0) -> Any:
        access = ["--port", str(self.port), "--identity", str(self.directory / "user")]
        access += [
            "--known-hosts",
            str(self.directory / "known"),
            "--user",
            getpass.getuser(),
            "--at",
            self.at,
        ]
        command = [sys.executable, "-m", "tools.pubctl.main", "deploy", verb, str(self.topology), *access]
        ended = subprocess.run(
            [*command, *words, "-o", "json"],
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=200,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return json.loads(ended.stdout) if ended.stdout.startswith("{") else ended.stdout

    def states(self, verb: str, *words: str) -> set[str]:
        return {row["state"] for row in self(verb, *words)["rows"]}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    pytest.importorskip("asyncssh")
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(sshd).exists() or shutil.which("ssh-keygen") is None:
        pytest.skip("needs sshd (Debian: openssh-server)")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    made = Lab(tmp_path, sshd)
    made.write(BROKERS)
    try:
        yield made
    finally:
        if Path(made.at).exists():
            made.write(BROKERS)
            made("down", "--yes")
        made.sshd.terminate()
        made.sshd.wait()


def test_up_traffic_down(lab: Lab) -> None:
    assert len(lab("check")["rows"]) == BROKERS
    assert lab.states("up", "--yes") == {"running"}
    assert lab.states("status") == {"running"}
    pids = {path: path.read_text() for path in Path(lab.at).glob("*/b*/pid")}
    assert lab.states("up", "--yes") == {"running"}, "said again, it changes nothing"
    assert pids == {path: path.read_text() for path in Path(lab.at).glob("*/b*/pid")}
    keys = lab.directory / "keys"
    address = {number: f"tcp://{lab.host(number)}:{lab.base}" for number in (4, 5)}
    with (
        grapevine.connect(address[4], name="from", keys=keys) as publisher,
        grapevine.connect(address[5], name="to", keys=keys) as subscriber,
    ):
        sub = subscriber.subscribe("n > 0")
        publisher.publish({"n": 1})
        publisher.flush(20)
        message = sub.next(timeout=10)
        assert message is not None
        assert message.hops == 2
    assert "listening on" in lab("logs", "--lines", "50")
    lab("fetch", "--to", str(lab.directory / "fetched"))
    assert "ready after" in (lab.directory / "fetched" / lab.host(1) / "b1" / "log").read_text()
    assert not list((lab.directory / "fetched").rglob("*.secret"))
    assert lab.states("down", "--yes") == {"ended"}
    assert not Path(lab.at).exists()
    assert not list(keys.glob("b*.broker.toml"))


def test_a_rolling_upgrade_under_traffic(lab: Lab) -> None:
    """Every broker is restarted while publications flow, the clients' own ones too: nothing twice, nothing
    out of order, and all of it again once the subscriber's broker is back (DECISIONS 20)."""
    lab("up", "--yes")
    keys = lab.directory / "keys"
    count = 0
    with (
        grapevine.connect(f"tcp://{lab.host(4)}:{lab.base}", name="from", keys=keys) as publisher,
        grapevine.connect(f"tcp://{lab.host(5)}:{lab.base}", name="to", keys=keys) as subscriber,
    ):
        sub = subscriber.subscribe("n > 0")
        publisher.publish({"n": 1})
        before = {path: path.read_text() for path in Path(lab.at).glob("*/b*/pid")}
        access = ["--port", str(lab.port), "--identity", str(lab.directory / "user"), "--at", lab.at]
        access += ["--known-hosts", str(lab.directory / "known"), "--rolling", "--yes", "-q"]
        command = [sys.executable, "-m", "tools.pubctl.main", "deploy", "upgrade", str(lab.topology), *access]
        with subprocess.Popen(command, env=lab.environment, stdout=subprocess.DEVNULL) as upgrade:
            count = 1
            while upgrade.poll() is None:
                publisher.publish({"n": 1})
                count += 1
                time.sleep(0.02)
        assert upgrade.returncode == 0
        after = {path: path.read_text() for path in Path(lab.at).glob("*/b*/pid")}
        assert all(before[path] != after[path] for path in before)
        for _ in range(AFTER):
            publisher.publish({"n": 1})
        publisher.flush(30)
        got: list[int] = []
        while count + AFTER not in got and (batch := sub.next_batch(count, timeout=10)):
            got += [message.sequence for message in batch]
        assert all(first < second for first, second in pairwise(got))
        assert got[-AFTER:] == list(range(count + 1, count + AFTER + 1))
        assert len(got) > count / 2


def test_a_host_that_is_gone_is_named_and_the_others_go_on(lab: Lab) -> None:
    lab.write(2, absent=True)
    rows = lab("check", code=1)["rows"]
    states = {row["host"]: row["state"] for row in rows}
    assert states["192.0.2.1"].startswith("failed: ssh")
    assert not states[lab.host(1)].startswith("failed")
