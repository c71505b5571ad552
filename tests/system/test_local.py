"""`pubctl local`: topologies side by side on one machine, one of them restarted, what is missing started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.system.overlay import Overlay, eventually, free_port
from tests.system.test_pubctl import Pubctl

pytestmark = pytest.mark.slow


class Topologies:
    """Files that generate b1, b2, b3 in a row; whatever they start is ended with the test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pubctl = Pubctl(directory / "keys", "")
        self.pubctl.environment["XDG_STATE_HOME"] = str(directory / "state")
        self.files: list[Path] = []

    def write(self, name: str, more: str = "") -> str:
        file = self.directory / f"{name}.toml"
        shape = "generate = { shape = 'line', brokers = 3 }"
        file.write_text(f"{shape}\nport = {free_port()}\n[defaults.transport]\ndrain_s = 1.0\n{more}")
        self.files.append(file)
        return str(file)

    def down(self) -> None:
        for file in self.files:
            if self.pubctl("local", "status", str(file), code=self._known(file)):
                self.pubctl("local", "down", str(file))

    def _known(self, file: Path) -> int:
        return 0 if list((self.directory / "state").glob(f"grapevine/local/{file.stem}-*/crew.json")) else 6


@pytest.fixture
def topologies() -> Iterator[Topologies]:
    with TemporaryDirectory() as short:  # a control socket's path has room for little
        made = Topologies(Path(short))
        try:
            yield made
        finally:
            made.down()


def test_a_second_topology_with_the_same_names_is_refused(topologies: Topologies) -> None:
    """It would have taken the first one's place in the keys directory, and cut its brokers off."""
    pubctl = topologies.pubctl
    first, second = topologies.write("first"), topologies.write("second")
    rows = pubctl.json("local", "up", first)["rows"]
    error = pubctl.json("local", "up", second, code=1)["error"]["message"]
    assert "another broker named b1 runs at" in error and "prefix" in error and "keys" in error
    assert [r["state"] for r in pubctl.json("status", "-b", rows[0]["address"])["rows"]] == ["ready"] * 3
    keys = f"[defaults.security]\nkeys = '{topologies.directory / 'other keys'}'\n"
    apart = topologies.write("apart", keys)
    assert len(pubctl.json("local", "up", apart)["rows"]) == 3, "as the refusal advises"
    assert [r["state"] for r in pubctl.json("status", "-b", rows[0]["address"])["rows"]] == ["ready"] * 3
    pubctl("local", "down", first)
    assert len(pubctl.json("local", "up", second)["rows"]) == 3, "nobody is in its way any more"


def test_a_broker_by_hand_with_the_name_of_one_that_runs_is_refused(overlay: Overlay) -> None:
    overlay.start("b1")
    rival = Overlay(overlay.directory / "rival").add("b1", security={"keys": str(overlay["b1"].keys)})
    rival.start()
    assert rival.wait() == 1
    assert "another broker named b1 runs at" in rival.log() and "security.keys" in rival.log()
    assert overlay["b1"].address in (overlay["b1"].keys / "b1.broker.toml").read_text()


def test_restart_by_name_keeps_state_and_key(topologies: Topologies) -> None:
    pubctl = topologies.pubctl
    file = topologies.write("three")
    before = {row["name"]: row for row in pubctl.json("local", "up", file)["rows"]}
    key = (topologies.directory / "keys" / "b2.broker.toml").read_text()
    (row,) = pubctl.json("local", "restart", "b2")["rows"]
    assert row["state"] == "running" and row["pid"] != before["b2"]["pid"]
    assert (topologies.directory / "keys" / "b2.broker.toml").read_text() == key
    after = {row["name"]: row["pid"] for row in pubctl.json("local", "status", file)["rows"]}
    assert after == {name: r["pid"] for name, r in before.items()} | {"b2": row["pid"]}
    root = before["b1"]["address"]
    eventually(lambda: [r["state"] for r in pubctl.json("status", "-b", root)["rows"]] == ["ready"] * 3)
    assert len(pubctl.json("local", "restart", file, "b1", "b3")["rows"]) == 2
    pubctl("local", "restart", "b9", code=6)


def test_what_was_changed_in_the_file_is_applied_by_a_restart(topologies: Topologies) -> None:
    pubctl = topologies.pubctl
    file = topologies.write("three")
    pubctl("local", "up", file)
    Path(file).write_text(
        Path(file).read_text() + "[[broker]]\nname = 'b2'\nbroker = { roles = ['broker', 'coordinator'] }\n"
    )
    error = pubctl.json("local", "up", file, code=1)["error"]
    assert error["outdated"] == ["b2"] and f"pubctl local restart {file} b2" in error["message"]
    pubctl("local", "restart", "b2")
    assert pubctl.json("local", "up", file, code=1)["error"]["outdated"] == ["b2"], "as it was started"
    pubctl("local", "restart", file, "b2")
    assert "outdated" not in pubctl.json("local", "up", file, code=1)["error"]


def test_up_starts_what_is_missing(topologies: Topologies) -> None:
    pubctl = topologies.pubctl
    client = "[[client]]\nkind = 'publisher'\nbroker = 'b1'\nattributes = { x = 1 }\n"
    file = topologies.write("three", client)
    before = {row["name"]: row for row in pubctl.json("local", "up", file)["rows"]}
    root = before["b1"]["address"]
    pubctl("broker", "drain", "b2", "--yes", "-b", root)
    ended = lambda: {r["name"]: r["state"] for r in pubctl.json("local", "status", file)["rows"]}  # noqa: E731
    eventually(lambda: ended()["b2"] == "ended")
    os.kill(before["publisher1"]["pid"], signal.SIGKILL)
    eventually(lambda: ended()["publisher1"] == "ended")
    after = {row["name"]: row for row in pubctl.json("local", "up", file)["rows"]}
    assert {name for name in before if before[name]["pid"] != after[name]["pid"]} == {"b2", "publisher1"}
    assert {row["state"] for row in after.values()} == {"running"}
    eventually(lambda: [r["state"] for r in pubctl.json("status", "-b", root)["rows"]] == ["ready"] * 3)
    assert "run already" in pubctl.json("local", "up", file, code=1)["error"]["message"]
