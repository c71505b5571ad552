"""The driver of channels as a unit of a real systemd: installed as the guide has it, ready with its lease,
started again when it is killed. Its own file, because it needs root, systemd-nspawn and Spark:
`pytest tests/spark/proof_channels_unit.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.system.machine import HOME, Machine, machine
from tests.system.overlay import eventually

pytestmark = pytest.mark.nspawn

UNIT = "grapevine-channels"
BACKEND = """\
[broker]
listen = ["tcp://127.0.0.1:7470"]
roles = ["broker", "backend"]
"""
CHANNELS = """\
[dataset.Reports]
filter = "class = 'report'"
columns = "id bigint, type string"
keep = "1h"
[channel.Fresh]
period = "1s"
new = "Reports"
parameters.type = "string"
sql = "SELECT r.id, upper(r.type) AS type FROM Reports r WHERE r.type = :type"
"""
ASKING = """\
import sys, grapevine
with grapevine.connect("tcp://127.0.0.1:7470", name="ann", timeout=60) as ann:
    results = ann.subscribe_channel("Fresh", {"type": "fire"}, timeout=120)
    ann.publish({"class": "report", "id": int(sys.argv[1]), "type": "fire"})
    ann.flush(timeout=60)
    print([result.row for result in results.next_batch(1, timeout=200)])
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine(tmp_path_factory.mktemp("machine")) as booted:
        booted.install("spark")
        for path, text in (
            ("etc/grapevine/backend.toml", BACKEND),
            ("srv/channels.toml", CHANNELS),
            ("srv/ask.py", ASKING),
        ):
            (booted.root / path).parent.mkdir(parents=True, exist_ok=True)
            (booted.root / path).write_text(text)
        booted.run("pubctl", "unit", "install", "backend", "--channels", "--now", "--yes", timeout_s=310)
        yield booted


def asked(host: Machine, number: int) -> str:
    keys = "GRAPEVINE_KEYS=/var/lib/grapevine/keys"
    return host.run("env", keys, f"{HOME}/bin/python", "/srv/ask.py", str(number), timeout_s=400).stdout


def test_the_unit_is_ready_with_its_lease_and_answers(host: Machine) -> None:
    assert host.shows(UNIT, "ActiveState") == "active"
    assert host.shows(UNIT, "Type") == "notify"
    keys = "GRAPEVINE_KEYS=/var/lib/grapevine/keys"
    pubctl = ("env", keys, "pubctl", "-b", "tcp://127.0.0.1:7470")
    host.run(*pubctl, "channel", "create", "--unchecked", "/srv/channels.toml")
    assert asked(host, 7) == "[{'id': 7, 'type': 'FIRE'}]\n"
    rows = json.loads(host.run(*pubctl, "channel", "ls", "-o", "json").stdout)["rows"]
    assert [row["name"] for row in rows] == ["Fresh"]


def test_the_driver_is_nobody_in_particular(host: Machine) -> None:
    pid = host.shows(UNIT, "MainPID")
    assert host.run("ps", "-o", "user=", "-p", pid).stdout.strip() not in ("root", "")


def test_a_killed_driver_is_started_again_and_goes_on(host: Machine) -> None:
    before = host.shows(UNIT, "MainPID")
    host.run("systemctl", "kill", "--signal=KILL", UNIT)
    eventually(lambda: host.shows(UNIT, "MainPID") not in (before, "0"), 30, 0.5)
    eventually(lambda: host.shows(UNIT, "ActiveState") == "active", 200, 1.0)
    assert asked(host, 8) == "[{'id': 8, 'type': 'FIRE'}]\n"


def test_a_stop_ends_java_too(host: Machine) -> None:
    host.run("systemctl", "stop", UNIT, timeout_s=90)
    assert host.shows(UNIT, "Result") == "success"
    assert not host.run("pgrep", "java", code=None).stdout
