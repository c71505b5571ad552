"""pubctl against real brokers: what a person types, what comes out, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import grapevine
from tests.system.overlay import Overlay, eventually, free_port

pytestmark = pytest.mark.slow


class Pubctl:
    """Calls it as a program, with the keys of a test."""

    def __init__(self, keys: Path, broker: str = "b1") -> None:
        self.environment = os.environ | {"GRAPEVINE_KEYS": str(keys), "PUBCTL_BROKER": broker}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tools.pubctl.main", *words]

    def __call__(self, *words: str, code: int = 0) -> str:
        ended = subprocess.run(
            self.command(*words), capture_output=True, text=True, env=self.environment, timeout=60
        )
        assert ended.returncode == code, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "-o", "json", code=code))

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            # A build machine may run the tests with the interrupt ignored, and children inherit that.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )


@pytest.fixture
def pubctl(overlay: Overlay) -> Pubctl:
    """b1 - b2 - b3."""
    overlay.start("b1")
    overlay.start("b2", "b1")
    overlay.start("b3", "b2")
    return Pubctl(overlay["b1"].keys)


def attach(overlay: Overlay, broker: str, name: str) -> grapevine.Client:
    return grapevine.connect(overlay[broker].address, name=name, keys=overlay[broker].keys)


def test_any_broker_answers_for_all(pubctl: Pubctl, overlay: Overlay) -> None:
    for broker in ("b1", overlay["b2"].address, f"ipc://{overlay['b3'].control}", str(overlay["b3"].control)):
        document = pubctl.json("status", "-b", broker)
        assert document["schema"] == "pubctl.status/1"
        assert [(row["name"], row["parent"], row["state"]) for row in document["rows"]] == [
            ("b1", None, "ready"),
            ("b2", "b1", "ready"),
            ("b3", "b2", "ready"),
        ]
    assert pubctl.json("broker", "info", "b2")["rows"][0]["depth"] == 1
    assert len(pubctl.json("broker", "ping")["rows"]) == 3
    assert pubctl.json("broker", "info", "b9", code=6)["error"]["code"] == "not-found"
    links = pubctl.json("link", "ls", "--at", "b2")["rows"]
    assert [(link["neighbour"], link["role"]) for link in links] == [("b1", "parent"), ("b3", "child")]


def test_publish_subscribe_trace(pubctl: Pubctl, overlay: Overlay) -> None:
    reader = pubctl.start("sub", "x > 10", "--count", "2", "-b", "b3", "-o", "jsonl", "--name", "reader")
    eventually(lambda: len(pubctl.json("subs", "ls")["rows"]) == 1)
    path = pubctl.json("trace", "x=11")
    assert [row["broker"] for row in path["rows"]] == ["b1", "b2", "b3"]
    assert path["rows"][2]["clients"][0]["name"] == "reader"
    assert [row["verdict"] for row in pubctl.json("trace", "x=9")["rows"]] == ["no match"]
    assert pubctl.json("trace", "x=11", "--as-is")["rows"][0]["neighbours"][0]["reason"] == "not advertised"
    delivered = pubctl.json("trace", "x=12", "--deliver", "--payload", "hello")
    assert delivered["settled"]
    pubctl("pub", "x=9")
    pubctl("pub", "x=13", "text='4'")
    out, _ = reader.communicate(timeout=60)
    got = [json.loads(line) for line in out.splitlines()]
    assert reader.returncode == 0
    assert [(m["attributes"], m["payload"], m["hops"], m["broker"]) for m in got] == [
        ({"x": 12}, "hello", 2, "b1"),
        ({"x": 13, "text": "4"}, "", 2, "b1"),
    ]


def test_what_is_known_of_clients_and_subscriptions(pubctl: Pubctl, overlay: Overlay) -> None:
    with attach(overlay, "b1", "feed") as feed, attach(overlay, "b3", "reader") as reader:
        feed.advertise("x > 0")
        reader.subscribe("x > 10")
        reader.subscribe("x > 20")
        clients = {row["name"]: row for row in pubctl.json("client", "ls")["rows"]}
        assert (clients["feed"]["broker"], clients["reader"]["broker"]) == ("b1", "b3")
        assert clients["reader"]["subscriptions"] == 2
        assert pubctl.json("client", "info", "feed")["rows"][0]["advertisement_list"] == ["x > 0"]
        assert [row["publisher"] for row in pubctl.json("adv", "ls")["rows"]] == ["feed"]
        rows = pubctl.json("subs", "ls", "--table", "--at", "b3")["rows"]
        assert [len(row["covered"]) for row in sorted(rows, key=lambda row: str(row["filter"]))] == [0, 1]
        explained = pubctl.json("subs", "explain", "b3/1")["rows"]
        assert {row["broker"]: row["announced_to"] for row in explained} == {
            "b1": [],
            "b2": ["b1"],
            "b3": ["b2"],
        }
        pubctl("subs", "explain", "b3/9", code=6)


def test_pictures_of_the_overlay(pubctl: Pubctl) -> None:
    drawn = xml.fromstring(pubctl("topo", "show", "-o", "svg", "--sample", "0s"))
    said = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"b1", "b2", "b3"} <= said
    assert '"b1" -> "b2"' in pubctl("topo", "show", "-o", "dot", "--sample", "0s")
    document = pubctl.json("topo", "show", "--sample", "100ms")
    assert [(row["upper"], row["lower"]) for row in document["rows"]] == [("b1", "b2"), ("b2", "b3")]


def test_a_broker_that_does_not_answer_makes_it_partial(pubctl: Pubctl, overlay: Overlay) -> None:
    overlay["b3"].signal(signal.SIGSTOP)
    try:
        document = pubctl.json("status", "-t", "2s", code=4)
        assert document["missing"] == ["b3"]
        assert [row["state"] for row in document["rows"]] == ["ready", "ready", "missing"]
        pubctl("status", "-t", "1s", "-b", "b3", code=4)
    finally:
        overlay["b3"].signal(signal.SIGCONT)


def test_strangers_are_told_what_to_do(pubctl: Pubctl, overlay: Overlay, tmp_path: Path) -> None:
    """Keys of one's own that the broker does not know."""
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "b1.broker.toml").write_text((overlay["b1"].keys / "b1.broker.toml").read_text())
    stranger = Pubctl(foreign)
    assert stranger.json("status", code=5)["error"]["code"] == "not-allowed"


def test_drain_asks_first_and_then_the_broker_leaves(pubctl: Pubctl, overlay: Overlay) -> None:
    assert "--yes" in pubctl.json("broker", "drain", "b2", code=2)["error"]["message"]
    pubctl("broker", "drain", "b2", "--dry-run")
    assert overlay["b2"].process is not None
    assert overlay["b2"].process.poll() is None
    pubctl("broker", "drain", "b2", "--yes")
    assert overlay["b2"].wait() == 0

    def parents() -> list[str | None]:
        """Of those that answer: who has left is named for a day."""
        rows = pubctl.json("broker", "ls")["rows"]
        return [row["parent"] for row in rows if "parent" in row]

    eventually(lambda: parents() == [None, "b1"])


def test_reload_and_diff(pubctl: Pubctl, overlay: Overlay) -> None:
    broker = overlay["b2"]
    assert pubctl.json("config", "diff", str(broker.config), "-b", "b2")["rows"] == []
    broker.configure(
        broker.sections | {"log": {"level": "debug"}, "clients": {"queue": 7}, "http": {"listen": "h:1"}}
    )
    changed = pubctl.json("config", "diff", str(broker.config), "-b", "b2")["rows"]
    assert {row["key"]: row["takes"] for row in changed} == {
        "log.level": "reload",
        "clients.queue": "reload",
        "http.listen": "restart",
    }
    assert pubctl.json("broker", "reload", "b2", "--yes")["rows"][0]["restart"] == ["http.listen"]
    left = pubctl.json("config", "diff", str(broker.config), "-b", "b2")["rows"]
    assert [row["key"] for row in left] == ["http.listen"], "it is not in force yet"


def test_watch_goes_on_until_interrupted(pubctl: Pubctl) -> None:
    watching = pubctl.start("link", "ls", "--watch=200ms", "-o", "json")
    assert watching.stdout is not None
    first, second = json.loads(watching.stdout.readline()), json.loads(watching.stdout.readline())
    watching.send_signal(signal.SIGINT)
    assert watching.wait(30) == 130
    watching.stdout.close()
    assert "sent_s" not in first["rows"][0]
    assert second["rows"][0]["sent_s"] == 0


def test_local_up_status_down(tmp_path: Path) -> None:
    pubctl = Pubctl(tmp_path / "keys")
    file, directory = tmp_path / "three.toml", tmp_path / "run"
    file.write_text(
        f"generate = {{ shape = 'line', brokers = 3 }}\nport = {free_port()}\n"
        "[defaults.transport]\ndrain_s = 1.0\n"
        "[[client]]\nkind = 'subscriber'\nbroker = 'b3'\nfilter = 'x > 0'\n"
        "[[client]]\nkind = 'publisher'\nbroker = 'b1'\nattributes = { x = 1 }\nrate = 50.0\n"
    )
    words = (str(file), "--dir", str(directory))
    try:
        rows = pubctl.json("local", "up", *words)["rows"]
        assert [row["state"] for row in rows] == ["running"] * 5
        assert len(pubctl.json("status")["rows"]) == 3
        eventually(lambda: (directory / "subscriber1" / "log").read_text().count("\n") > 3)
        assert "run already" in pubctl.json("local", "up", *words, code=1)["error"]["message"]
        os.kill(rows[2]["pid"], signal.SIGKILL)
        eventually(lambda: pubctl.json("local", "status", *words)["rows"][2]["state"] == "ended")
    finally:
        pubctl("local", "down", *words)
    assert not processes_of(directory)
    assert not list((tmp_path / "keys").glob("*.broker.toml"))
    pubctl("local", "status", *words, code=6)


def test_local_up_again_after_down(tmp_path: Path) -> None:
    """Brokers that ran before wait for the neighbours they had: all must be started before any is ready."""
    pubctl = Pubctl(tmp_path / "keys")
    file = tmp_path / "again.toml"
    file.write_text(
        f"generate = {{ shape = 'line', brokers = 3 }}\nport = {free_port()}\n"
        "[defaults.links]\nlost_after_s = 300.0\n"  # longer than `up` would wait
    )
    for _ in range(2):
        pubctl("local", "up", str(file), "--dir", str(tmp_path / "run"))
        pubctl("local", "down", str(file), "--dir", str(tmp_path / "run"))


def test_a_broker_that_cannot_start_takes_the_others_down(tmp_path: Path) -> None:
    pubctl = Pubctl(tmp_path / "keys")
    port = free_port()
    file = tmp_path / "two.toml"
    file.write_text(
        f"[[broker]]\nname = 'b1'\nlisten = 'tcp://127.0.0.1:{port}'\n"
        f"[[broker]]\nname = 'b2'\nlisten = 'tcp://127.0.0.1:{port}'\n"
    )
    error = pubctl.json("local", "up", str(file), "--dir", str(tmp_path / "run"), code=1)["error"]
    assert "did not start" in error["message"]
    assert "in use" in error["message"]
    pubctl("local", "status", str(file), "--dir", str(tmp_path / "run"), code=6)


def processes_of(directory: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in text:
            found.append(text)
    return found


def test_the_demo_ends_by_itself_and_everything_was_exact(tmp_path: Path) -> None:
    pubctl = Pubctl(tmp_path / "keys")
    pubctl.environment["TMPDIR"] = str(tmp_path)
    picture = tmp_path / "overlay.svg"
    document = pubctl.json("demo", "--plain", "--for", "2s", "--picture", str(picture))
    assert document["exact"]
    assert document["brokers"] >= 7
    assert document["publications"] == document["delivery_logs"]["events"]["accept"] == 2400
    assert document["deliveries"] == document["delivery_logs"]["events"]["deliver"]
    assert xml.fromstring(picture.read_text()).tag.endswith("svg")
    assert not list(tmp_path.glob("grapevine-demo-*"))
    assert not processes_of(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    pubctl = Pubctl(tmp_path / "keys")
    pubctl.environment["TMPDIR"] = str(tmp_path)
    demo = pubctl.start("demo", "--plain", "--for", "60s", "--picture", str(tmp_path / "overlay.svg"))
    eventually(lambda: len(processes_of(tmp_path)) > 3, timeout_s=60)
    time.sleep(1)
    demo.send_signal(number)
    demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert not list(tmp_path.glob("grapevine-demo-*"))
    assert not processes_of(tmp_path)
