"""A daemon comes up quickly, says what is wrong in one line, and goes without leaving anything behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from grapevine.wire import identify
from grapevine.wire.messages import PROTOCOL_OLDEST, Attach, Hello, Refuse
from overlay.settings import CoreSettings
from tests.system.frames import Frames
from tests.system.overlay import ROOT, Daemon, Overlay, eventually


def test_start_to_ready_and_idle_memory(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    assert daemon.cpu_s() < 2.0, "a guard; bench.startup has the figure"
    assert daemon.memory_mb() < 50


def test_sigterm_stops_with_zero_and_leaves_nothing(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    assert daemon.control.exists()
    assert daemon.stop() == 0
    assert not daemon.control.exists()
    assert "stopped" in daemon.log()


def test_a_restart_raises_the_incarnation_and_takes_the_address_again(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    record = daemon.directory / "state" / "incarnation.json"
    numbers = [json.loads(record.read_text())]
    for kill in (False, True, False):
        if kill:
            daemon.kill()
        else:
            daemon.stop()
        daemon.start().ready()
        numbers.append(json.loads(record.read_text()))
    assert numbers == sorted(set(numbers))


def test_the_incarnation_rises_when_the_clock_was_set_back(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    daemon.stop()
    record = daemon.directory / "state" / "incarnation.json"
    ahead = int(time.time()) + 1_000_000
    record.write_text(str(ahead))
    daemon.start().ready()
    assert json.loads(record.read_text()) == ahead + 1


def test_the_control_socket_is_its_owners_alone(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    assert stat.S_IMODE(daemon.control.stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.control.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((daemon.control.parent / "key.secret").stat().st_mode) == 0o600


def test_control_answers_configuration_and_reload(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    with Frames(f"ipc://{daemon.control}") as admin:
        answer, body = admin.command("config")
        assert answer.outcome == "ok"
        values = {row["key"]: row["value"] for row in body["settings"]}
        assert values["broker.name"] == "b1"
        daemon.configure({**daemon.sections, "log": {"level": "debug"}, "overlay": {"delta": 2}})
        answer, body = admin.command("reload")
        assert (answer.outcome, body) == ("ok", {"restart": ["overlay.delta"]})
        daemon.configure({**daemon.sections, "log": {"levl": "debug"}})
        answer, body = admin.command("reload")
        assert answer.outcome == "failed"
        assert "log.levl: unknown key; did you mean level?" in answer.text


def test_sighup_reloads_and_keeps_the_old_on_a_mistake(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    daemon.configure({**daemon.sections, "log": {"level": "debug"}})
    daemon.signal(signal.SIGHUP)
    eventually(lambda: "reloaded: log.level" in daemon.log())
    daemon.configure({**daemon.sections, "links": {"windw": 3}})
    daemon.signal(signal.SIGHUP)
    eventually(lambda: "not reloaded: " in daemon.log() and "links.windw" in daemon.log())
    assert daemon.stop() == 0


def test_systemd_is_told(overlay: Overlay, tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "notify"))
    listener.settimeout(10)
    daemon = overlay.add("b1").start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="300000").ready()
    said = ""
    while "READY=1" not in said or "WATCHDOG=1" not in said:
        said += listener.recv(4096).decode() + "\n"
    assert "STATUS=0 of 0 neighbours, 0 clients" in said
    daemon.stop()
    while "STOPPING=1" not in said:
        said += listener.recv(4096).decode() + "\n"
    listener.close()


# --- what goes wrong at the start ------------------------------------------------------------------


def failing(daemon: Daemon, *arguments: str) -> tuple[int, str]:
    """Exit code and the one line of a daemon that cannot start."""
    command = [sys.executable, "-m", "daemon.main", "--config", str(daemon.config), *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=os.environ)
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    return ended.returncode, lines[0]


def test_a_port_in_use(overlay: Overlay) -> None:
    first = overlay.start("b1")
    second = overlay.add("b2", broker={"listen": [first.address]})
    code, line = failing(second)
    assert code == 1
    assert f"cannot listen on {first.address}: the address is in use" in line
    assert "broker.listen" in line
    assert not second.control.exists()


def test_a_state_directory_in_use(overlay: Overlay) -> None:
    first = overlay.start("b1")
    second = overlay.add("b2", broker={"state_dir": str(first.directory / "state")})
    code, line = failing(second)
    assert code == 1
    assert f"is used by the daemon with pid {first.pid}" in line


def test_a_state_directory_that_cannot_be_made(overlay: Overlay, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, line = failing(overlay.add("b1", broker={"state_dir": str(tmp_path / "file" / "state")}))
    assert code == 1
    assert "state directory" in line and "not a directory" in line


def in_a_full_disk(daemon: Daemon) -> subprocess.CompletedProcess[str]:
    """The daemon with its state directory on a file system of one page, in a name space of its own."""
    state = daemon.directory / "state"
    state.mkdir(mode=0o700)
    mount = f"mount -t tmpfs -o size=4k tmpfs {state} || exit 77"
    run = f"exec {sys.executable} -m daemon.main --config {daemon.config}"
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", f"{mount}; {run}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("curve", [False, True])
def test_a_full_disk(overlay: Overlay, curve: bool) -> None:
    ended = in_a_full_disk(overlay.add("b1", security={"curve": curve}))
    if ended.returncode == 77 or "unshare" in ended.stderr:
        pytest.skip(f"no file system can be mounted here: {ended.stderr.strip()}")
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "disk is full" in ended.stderr or "No space left" in ended.stderr
    assert "/state" in ended.stderr


def test_a_key_that_others_can_read(overlay: Overlay) -> None:
    daemon = overlay.start("b1")
    daemon.stop()
    key = daemon.directory / "state" / "key.secret"
    key.chmod(0o644)
    code, line = failing(daemon)
    assert code == 1
    assert f"chmod 600 {key}" in line


def test_a_damaged_key(overlay: Overlay) -> None:
    daemon = overlay.add("b1")
    key = daemon.directory / "state" / "key.secret"
    key.parent.mkdir(mode=0o700)
    key.write_text("nonsense")
    key.chmod(0o600)
    code, line = failing(daemon)
    assert code == 1
    assert str(key) in line


def test_damaged_state(overlay: Overlay) -> None:
    daemon = overlay.add("b1")
    record = daemon.directory / "state" / "incarnation.json"
    record.parent.mkdir(mode=0o700)
    record.write_text("{")
    code, line = failing(daemon)
    assert code == 1
    assert f"{record} is damaged" in line


def test_a_wrong_configuration_ends_with_78_and_starts_nothing(overlay: Overlay) -> None:
    daemon = overlay.add("b1", links={"windw": 1})
    code, line = failing(daemon)
    assert code == 78
    assert line.endswith(f"{daemon.config}: links.windw: unknown key; did you mean window?")
    assert not (daemon.directory / "state").exists()
    assert failing(overlay.add("b2"), "--check-config")[0] == 0
    assert failing(overlay.add("b3"), "--check-config", "--set", "tree.covering=maybe")[0] == 78


# --- what goes wrong when brokers meet --------------------------------------------------------------


def ended_with(daemon: Daemon, *words: str) -> None:
    assert daemon.wait() == 1
    errors = [line for line in daemon.log().splitlines() if " error " in line]
    assert len(errors) == 1, daemon.log()
    for word in words:
        assert word in errors[0], errors[0]


def test_cluster_wide_settings_that_differ(overlay: Overlay) -> None:
    overlay.start("b1")
    other = overlay.add("b2", "b1", tree={"covering": False}).start()
    ended_with(other, "tree.covering is true at b1 and false at b2", "must agree")


def test_two_brokers_with_one_name(overlay: Overlay, tmp_path: Path) -> None:
    plain: dict[str, Any] = {"security": {"curve": False}}
    elsewhere = {"security": {"curve": False, "keys": str(tmp_path / "elsewhere")}}  # else refused at start
    overlay.start("b1", **plain)
    overlay.start("b2", "b1", **plain)
    overlay.start("b3", "b1", **plain)
    twin = overlay.add("twin", "b3", broker={"name": "b2"}, **elsewhere).start()
    ended_with(twin, "b2", "rename")


def test_who_waits_for_a_neighbour_after_a_power_cut_says_so_and_serves_later(overlay: Overlay) -> None:
    """Three brokers die at once, and a leaf does not come back: nobody says *ready* before it is given up."""
    short = {"links": {"lost_after_s": 4.0}, "transport": {"ready_s": 0.5}}
    first = overlay.start("b1", **short)
    middle, leaf = overlay.start("b2", "b1", **short), overlay.start("b3", "b2", **short)
    eventually(lambda: "ready after" in middle.log() and "ready after" in leaf.log())
    for daemon in (first, middle, leaf):
        daemon.kill()
    for daemon in (first, middle):
        daemon.start()
    eventually(lambda: re.search(r"serves no clients yet: waiting for .*\bb3\b", middle.log()))
    assert "ready after" not in middle.log() + first.log()
    eventually(lambda: "ready after" in middle.log() and "ready after" in first.log(), 30)


def test_a_cycle_is_undone_and_said(overlay: Overlay) -> None:
    first = overlay.add("b1")
    overlay.start("b2", transport={"ready_s": 0.5}, tree={"neighbours": [first.address]})
    first.configure({**first.sections, "tree": {"neighbours": [overlay["b2"].address]}})
    first.start().ready()
    said = eventually(lambda: "cycle" in (log := first.log() + overlay["b2"].log()) and log)
    assert "cycle" in said or "dialled" in said


def test_a_wrong_protocol_version_is_refused_with_both(plain: Overlay) -> None:
    daemon = plain.start("b1")
    for oldest, newest in ((98, 99), (0, PROTOCOL_OLDEST - 1)):
        with Frames(daemon.address) as client:
            client.send(Attach(oldest, newest, "stranger", identify("stranger"), 1, 1, 100, 0))
            refused = client.expect(Refuse)
            assert refused.reason == "version" and f"b1 speaks protocol {PROTOCOL_OLDEST}" in refused.text
    with Frames(daemon.address) as peer:
        settings = CoreSettings().cluster_wide()
        peer.send(Hello(98, 99, "b9", identify("b9"), 1, 1, False, 100, settings, (identify("b9"),)))
        refused = peer.expect(Refuse)
        assert refused.reason == "version" and "98-99" in refused.text


def test_two_clients_with_one_name(plain: Overlay) -> None:
    daemon = plain.start("b1", links={"greet_s": 20.0})  # the first has half of it to answer
    with Frames(daemon.address) as first, Frames(daemon.address) as second:
        first.attach("same")
        stop = threading.Event()

        def answer_pings() -> None:
            while not stop.is_set():
                first.receive(0.1)

        thread = threading.Thread(target=answer_pings)
        thread.start()
        deadline = time.monotonic() + 30
        reason = ""
        while reason != "name" and time.monotonic() < deadline:
            second.send(Attach(1, 1, "same", identify("same"), 77, 77, 100, 0))
            reason = second.expect(Refuse).reason
            time.sleep(0.2)
        stop.set()
        thread.join()
    assert reason == "name", "the first is alive: the second must take another name"
