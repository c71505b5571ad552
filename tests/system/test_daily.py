"""What one reaches for every day: lines in and out of a pipe, who is attached, what the overlay carries."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import grapevine
from tests.system.overlay import Overlay, eventually
from tests.system.test_pubctl import Pubctl

pytestmark = pytest.mark.slow


@pytest.fixture
def pubctl(overlay: Overlay) -> Pubctl:
    overlay.start("b1")
    overlay.start("b2", "b1")
    return Pubctl(overlay["b1"].keys)


def test_from_one_pipe_into_another(pubctl: Pubctl) -> None:
    """What `sub -o jsonl` prints, `pub -` publishes again: attributes and payload are the same."""
    copies = pubctl.start("sub", "copy", "--count", "3", "-b", "b2", "-o", "jsonl")
    lines = pubctl.start("sub", "copy", "--count", "3", "-b", "b2", "--format", r"{attributes.n}\t{payload}")
    eventually(lambda: len(pubctl.json("subs", "ls")["rows"]) == 2)
    text = 'n=1 copy=true\n{"attributes": {"n": "two", "copy": true}, "payload": "hello"}\n'
    text += '{"attributes": {"n": 3.5, "copy": true}, "payload_base64": "AP8K"}\n'
    publish = subprocess.run(
        pubctl.command("pub", "-", "-o", "json"),
        input=text,
        capture_output=True,
        text=True,
        env=pubctl.environment,
    )
    assert json.loads(publish.stdout)["rows"][0]["published"] == 3, publish.stderr
    printed, _ = copies.communicate(timeout=60)
    own, _ = lines.communicate(timeout=60)
    assert own.splitlines()[:2] == ["1\t", "two\thello"]
    raw = pubctl.start("sub", "copy and n = 3.5", "--count", "1", "--raw", "-q")
    eventually(lambda: len(pubctl.json("subs", "ls")["rows"]) == 1)
    again = subprocess.run(
        pubctl.command("pub", "-"), input=printed, capture_output=True, text=True, env=pubctl.environment
    )
    assert again.returncode == 0, again.stderr
    assert raw.stdout is not None
    assert raw.stdout.buffer.read() == b"\x00\xff\n"
    raw.communicate(timeout=60)
    bad = subprocess.run(
        pubctl.command("pub", "-"), input="n=1\nn\n", capture_output=True, text=True, env=pubctl.environment
    )
    assert bad.returncode == 2 and "line 2" in bad.stderr


def test_who_is_attached_from_where_by_which_key_and_how_far_behind(pubctl: Pubctl, overlay: Overlay) -> None:
    daemon = overlay["b1"]
    with (
        grapevine.connect(daemon.address, "reader", keys=daemon.keys, receive_window=1) as reader,
        grapevine.connect(daemon.address, "feed", keys=daemon.keys) as feed,
    ):
        reader.subscribe("n > 0")
        for n in range(1, 6):
            feed.publish({"n": n})
        feed.flush(timeout=30)

        def row() -> dict[str, object]:
            rows = {each["name"]: each for each in pubctl.json("client", "ls")["rows"]}
            return rows["reader"]  # type: ignore[no-any-return]

        eventually(lambda: row()["lag"] == 4 and float(str(row()["lag_s"])) > 0)
        assert (row()["address"], row()["key"]) == ("127.0.0.1", "user")
        assert 0 < float(str(row()["age_s"])) < 600
        table = pubctl("client", "ls")
        assert "127.0.0.1" in table and "user" in table and "lag" in table


def test_figures_of_ones_own_overlay(pubctl: Pubctl) -> None:
    counting = pubctl.start("bench", "sub", "--for", "2s", "-b", "b2", "-o", "json")
    eventually(lambda: len(pubctl.json("subs", "ls")["rows"]) == 1)
    sent = pubctl.json("bench", "pub", "--count", "2000", "--bytes", "100")["rows"][0]
    assert sent["publications"] == 2000 and sent["rate_s"] > 0
    out, _ = counting.communicate(timeout=60)
    got = json.loads(out)["rows"][0]
    assert (got["publications"], got["bytes"], got["dropped"]) == (2000, 100, 0)
    found = pubctl.json("bench", "latency", "--to", "b2", "--count", "20")["rows"][0]
    assert (found["broker"], found["to"]) == ("b1", "b2")
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert "latency" in pubctl("bench", "-q")
    pubctl("bench", "nonsense", code=6)


def test_a_context_takes_the_place_of_flags(pubctl: Pubctl, overlay: Overlay, tmp_path: Path) -> None:
    pubctl.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    pubctl.environment.pop("PUBCTL_BROKER")
    keys = pubctl.environment.pop("GRAPEVINE_KEYS")
    pubctl("context", "add", "test", overlay["b2"].address, "--keys", keys)
    assert pubctl.json("status")["asked"] == "b2"
