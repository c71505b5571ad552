"""`pubctl key` and brokers: a key is made, let in, limited, taken away again, and replaced by another."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import grapevine
from tests.system.overlay import Daemon, Overlay, eventually
from tests.system.test_pubctl import Pubctl

pytestmark = pytest.mark.slow


@pytest.fixture
def daemon(overlay: Overlay) -> Daemon:
    return overlay.start("b1")


@pytest.fixture
def pubctl(daemon: Daemon) -> Pubctl:
    return Pubctl(daemon.keys)


def connect(daemon: Daemon, keys: Path, name: str) -> grapevine.Client:
    return grapevine.connect(daemon.address, name=name, keys=keys, timeout=3)


def test_made_let_in_limited_and_taken_away(daemon: Daemon, pubctl: Pubctl, tmp_path: Path) -> None:
    guest = tmp_path / "guest"
    row = pubctl.json("key", "new", "guest", "--out", str(guest))["rows"][0]
    assert row["brokers"] == 1
    with pytest.raises(grapevine.Error):
        connect(daemon, guest, "guest")
    assert pubctl.json("key", "ls")["policy"] is False
    stock = "class = 'STOCK'"
    entry = str(guest / "guest.client.toml")
    pubctl("key", "allow", entry, "--role", "publisher", "--publish", stock, "--yes")
    rows = {row["name"]: row for row in pubctl.json("key", "ls")["rows"]}
    assert (rows["guest"]["roles"], rows["guest"]["publish"]) == (["publisher"], stock)
    assert rows["b1"]["roles"] == ["broker"]
    assert tomllib.loads((daemon.keys / "policy.toml").read_text())["key"][-1]["name"] == "guest"
    with connect(daemon, guest, "guest") as client:
        client.publish({"class": "STOCK"})
        client.flush(30)
        client.publish({"class": "NEWS"})
        with pytest.raises(grapevine.NotAllowed):
            client.flush(30)
        pubctl("key", "revoke", "guest", "--yes")
        eventually(lambda: "its key is no longer authorised" in daemon.log())
    with pytest.raises(grapevine.Error):
        connect(daemon, guest, "guest")


def test_a_key_is_replaced_without_an_outage(daemon: Daemon, pubctl: Pubctl, tmp_path: Path) -> None:
    """The new one is let in beside the old one, which goes when nobody uses it any more."""
    for number in ("1", "2"):
        pubctl("key", "new", f"feed{number}", "--out", str(tmp_path / number))
        pubctl(
            "key",
            "allow",
            str(tmp_path / number / f"feed{number}.client.toml"),
            "--role",
            "publisher",
            "--yes",
        )
    with connect(daemon, tmp_path / "1", "old") as old, connect(daemon, tmp_path / "2", "new") as new:
        old.publish({"n": 1})
        new.publish({"n": 1})
        pubctl("key", "revoke", "feed1", "--yes")
        eventually(lambda: "its key is no longer authorised" in daemon.log())
        new.publish({"n": 2})
        new.flush(30)


def test_errors_tell_the_next_step(pubctl: Pubctl, daemon: Daemon) -> None:
    assert "pubctl key ls" in pubctl.json("key", "revoke", "nobody", "--yes", code=6)["error"]["message"]
    assert "--name" in pubctl.json("key", "allow", "x" * 40, "--yes", code=2)["error"]["message"]
    assert "--yes" in pubctl.json("key", "allow", "b1", code=2)["error"]["message"]
    pubctl("key", "allow", "b1", "--ask", "class =", "--yes", code=2)
    assert not (daemon.keys / "policy.toml").exists()
    (daemon.keys / "policy.toml").write_text("[[key]]\nrole = 1\n")
    assert "correct it by hand" in pubctl.json("key", "ls", code=1)["error"]["message"]
