"""Brokers under a real systemd: from the wheels to a drained stop, as the operator's guide has it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest

from tests.system.machine import Machine, machine
from tests.system.overlay import ROOT, eventually

pytestmark = [pytest.mark.nspawn, pytest.mark.slow]

PORTS = {"b1": 7470, "b2": 7471, "b3": 7472}
ROOT_ADDRESS = "tcp://127.0.0.1:7470"
WATCHDOG_S = 2


WALKED: list[str] = []  # what the guide's lines printed


def guide_lines() -> list[str]:
    """What the operator's guide says to type on a fresh host, up to a second broker on it."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "howto" / "install.md").read_text(), re.DOTALL)
    first, second = (block.splitlines() for block in blocks[:2])
    return [*first, second[0]]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """b1 - b2 by the lines of the operator's guide, b1 - b3, all running. The guide's first two lines
    make the environment; here it comes from uv's cache, since the machine has no network."""
    with machine(tmp_path_factory.mktemp("machine")) as booted:
        booted.install()
        making, rest = guide_lines()[:2], guide_lines()[2:]
        assert "venv /opt/grapevine" in making[0] and "pip install" in making[1]
        typed = "\n".join(["set -e", *rest])
        edit(booted, "/srv/walk", typed)
        at_a_terminal = r"printf 'y\ny\ny\n' | script --quiet --return --command 'sh -e /srv/walk' /dev/null"
        WALKED.append(booted.run("sh", "-c", at_a_terminal).stdout)
        words = ["--neighbour", ROOT_ADDRESS, "--listen", f"tcp://127.0.0.1:{PORTS['b3']}", "--now", "--yes"]
        booted.run("pubctl", "unit", "install", "b3", *words)
        yield booted


def control(name: str) -> str:
    return f"ipc:///var/lib/grapevine/{name}/control"


def pubctl(host: Machine, *words: str, broker: str = "b1") -> list[str]:
    return ["env", "GRAPEVINE_KEYS=/var/lib/grapevine/keys", "pubctl", "-b", broker, *words]


def edit(host: Machine, path: str, text: str) -> None:
    file = host.root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_guide_leads_from_a_fresh_machine_to_running_units(host: Machine) -> None:
    """Every line ended well, or there would be no machine; and these are what they made."""
    for name in ("b1", "b2"):
        assert host.shows(f"grapevined@{name}", "ActiveState") == "active", WALKED[0]
    assert (host.root / "etc/grapevine/b1.toml").exists()


def test_three_instances_are_ready_and_know_each_other(host: Machine) -> None:
    for name in PORTS:
        assert host.shows(f"grapevined@{name}", "ActiveState") == "active"
        assert host.shows(f"grapevined@{name}", "Type") == "notify"
        assert host.run("systemctl", "is-enabled", f"grapevined@{name}").stdout == "enabled\n"
    rows = json.loads(host.run("pubctl", "-b", control("b3"), "status", "-o", "json").stdout)["rows"]
    assert [(row["name"], row["state"]) for row in rows] == [(name, "ready") for name in PORTS]
    eventually(lambda: host.shows("grapevined@b2", "StatusText") == "1 of 1 neighbours, 0 clients", 30, 0.3)


def test_systemd_has_nothing_to_say(host: Machine) -> None:
    place = "/etc/systemd/system/grapevined"
    ended = host.run("systemd-analyze", "verify", f"{place}@b1.service", f"{place}.target")
    assert ended.stdout + ended.stderr == ""
    said = host.run("systemd-analyze", "security", "--no-pager", "grapevined@b1.service").stdout
    found = re.search(r"Overall exposure level.*: ([\d.]+)", said)
    assert found is not None
    assert float(found[1]) <= 1.5


def test_the_broker_is_nobody_in_particular_and_its_socket_roots_alone(host: Machine) -> None:
    pid = host.shows("grapevined@b1", "MainPID")
    status = host.run("cat", f"/proc/{pid}/status").stdout
    uid = int(re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)[1])  # type: ignore[index]
    assert uid != 0
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    refused = host.run("runuser", "-u", "nobody", "--", "pubctl", "-b", control("b1"), "status", code=None)
    assert refused.returncode in (3, 5), refused.stderr
    assert refused.stdout == ""


def test_the_journal_knows_broker_priority_and_unit(host: Machine) -> None:
    lines = host.run("journalctl", "-o", "json", "GRAPEVINE_BROKER=b2").stdout.splitlines()
    entries = [json.loads(line) for line in lines]
    ready = next(entry for entry in entries if "ready after" in entry["MESSAGE"])
    assert ready["PRIORITY"] == "6"
    assert ready["SYSLOG_IDENTIFIER"] == "grapevined"
    assert ready["_SYSTEMD_UNIT"] == "grapevined@b2.service"
    assert ready["MESSAGE"].startswith("b2: ready")


def test_reload_takes_what_can_be_taken_and_keeps_the_old_on_a_mistake(host: Machine) -> None:
    edit(host, "/etc/grapevine/b1.toml.d/log.toml", '[log]\nlevel = "debug"\n')
    host.run("systemctl", "reload", "grapevined@b1")
    eventually(lambda: "reloaded: log.level" in host.journal("GRAPEVINE_BROKER=b1"), 30, 0.2)
    edit(host, "/etc/grapevine/b1.toml.d/log.toml", '[log]\nlevl = "debug"\n')
    host.run("systemctl", "reload", "grapevined@b1")
    told = "not reloaded: /etc/grapevine/b1.toml.d/log.toml: log.levl"
    eventually(lambda: told in host.journal("GRAPEVINE_BROKER=b1", "-p", "err"), 30, 0.2)
    assert host.shows("grapevined@b1", "ActiveState") == "active"
    (host.root / "etc/grapevine/b1.toml.d/log.toml").unlink()


def test_a_stop_drains_and_a_restart_under_traffic_loses_nothing(host: Machine) -> None:
    """The publisher is at b2, the subscriber at b3; b1 between them is restarted."""
    count = 400
    taking = host.start(
        *pubctl(host, "sub", "n > 0", "--count", str(count), "-o", "jsonl", "-t", "60s", broker="b3")
    )
    eventually(
        lambda: host.run(*pubctl(host, "subs", "ls", "-o", "json", "--at", "b3")).stdout.count("n > 0"),
        15,
        0.2,
    )
    words = ("pub", "n=1", "--count", str(count), "--rate", "100", "--name", "publisher")
    giving = host.start(*pubctl(host, *words, broker="b2"))
    time.sleep(1.5)
    host.run("systemctl", "restart", "grapevined@b1")
    assert giving.wait(60) == 0, giving.communicate()
    out, _ = taking.communicate(timeout=60)
    sequences = [json.loads(line)["sequence"] for line in out.splitlines()]
    assert sequences == list(range(1, count + 1))
    said = host.journal("GRAPEVINE_BROKER=b1")
    assert "stopping: waiting up to 10 s" in said
    assert "stopped" in said


def test_a_hung_broker_is_aborted_with_its_stacks_and_started_again(host: Machine) -> None:
    """A named pipe among its configuration files: reading it on reload stops the loop for ever."""
    drop_in = "/etc/systemd/system/grapevined@b3.service.d/watchdog.conf"
    edit(host, drop_in, f"[Service]\nWatchdogSec={WATCHDOG_S}\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "restart", "grapevined@b3")
    before = host.shows("grapevined@b3", "MainPID")
    pipe = "/etc/grapevine/b3.toml.d/pipe.toml"
    host.run("mkdir", "-p", "/etc/grapevine/b3.toml.d")
    host.run("mkfifo", "-m", "644", pipe)
    time.sleep(1.5 * WATCHDOG_S)
    assert host.shows("grapevined@b3", "MainPID") == before, "a broker that works is left alone"
    host.run("systemctl", "reload", "--no-block", "grapevined@b3")
    eventually(lambda: host.shows("grapevined@b3", "ActiveState") == "reloading", 30, 0.05)
    time.sleep(0.3)
    host.run("rm", pipe)
    eventually(lambda: host.shows("grapevined@b3", "NRestarts") == "1", 30, 0.2)
    eventually(lambda: host.shows("grapevined@b3", "ActiveState") == "active", 30, 0.2)
    assert host.shows("grapevined@b3", "MainPID") != before
    said = host.journal("-u", "grapevined@b3")
    assert "Watchdog timeout" in said
    assert "_read_file" in said, "the stack of the loop's thread"


def test_a_wrong_configuration_is_not_tried_again(host: Machine) -> None:
    edit(host, "/etc/grapevine/b4.toml", "[links]\nwindw = 1\n")
    host.run("systemctl", "start", "grapevined@b4", code=1)
    assert host.shows("grapevined@b4", "ExecMainStatus") == "78"
    assert host.shows("grapevined@b4", "NRestarts") == "0"
    assert "did you mean window?" in host.journal("-u", "grapevined@b4")


def test_the_target_stops_all_and_leaves_only_state(host: Machine) -> None:
    host.run("systemctl", "start", "grapevined.target")
    host.run("systemctl", "stop", "grapevined.target")
    for name in PORTS:
        eventually(lambda name=name: host.shows(f"grapevined@{name}", "ActiveState") == "inactive", 30, 0.2)
        assert host.shows(f"grapevined@{name}", "Result") == "success"
    assert "grapevined" not in host.run("ps", "-e", "-o", "args").stdout
    assert host.run("sh", "-c", "ls /var/lib/grapevine/*/control", code=None).stdout == ""
