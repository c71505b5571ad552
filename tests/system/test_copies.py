"""DP-D3 on real daemons: a broker's disk is gone before anybody had what it said was persisted, and by an
administrator's word its keeper's copies arrive, each once and in order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grapevine
from tests.system.overlay import Daemon, Overlay, eventually

MANY = 500
LINKS = {"ping_s": 0.5, "lost_after_s": 4.0, "redial_s": 0.2}


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Overlay]:
    with Overlay(tmp_path, links=LINKS, journal={"copies": 2}) as overlay:
        yield overlay


def connect(daemon: Daemon, name: str) -> grapevine.Client:
    return grapevine.connect(daemon.address, name=name, keys=daemon.keys)


def pubctl(daemon: Daemon, *words: str) -> tuple[int, Any]:
    command = [sys.executable, "-m", "tools.pubctl.main", "-b", daemon.address, *words, "-o", "json"]
    environment = {**os.environ, "GRAPEVINE_KEYS": str(daemon.keys)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    said = ended.stdout if ended.stdout.startswith(("{", "[")) else "{}"
    return ended.returncode, json.loads(said) or ended.stderr


@pytest.mark.slow
def test_a_forgotten_broker_is_published_by_its_keeper(overlay: Overlay) -> None:
    keeper, first, home = overlay.start("b1"), overlay.start("b2", "b1"), overlay.start("b3", "b1")
    for daemon in (keeper, first, home):
        daemon.ready()
    reader = connect(home, "reader")
    kept = reader.subscribe("n > 0", durable="all", ack="cumulative")
    publisher = connect(first, "writer")
    publisher.publish({"n": 1}, durable=True)
    publisher.flush(30)
    code, said = pubctl(keeper, "broker", "forget", "b2", "--yes")
    assert code == 1 and "is there" in str(said), said

    home.kill()  # nothing settles any more
    for number in range(2, MANY + 1):
        publisher.publish({"n": number}, durable=True)
    publisher.flush(30, until="persisted")
    first.kill()
    publisher.close(0)
    shutil.rmtree(first.directory / "state")
    keeper.kill()  # what it had on the way is gone, its disk is not
    keeper.start().ready(60)

    code, said = pubctl(keeper, "broker", "forget", "b2", "--dry-run")
    # That the first is settled is told to the keeper at leisure.
    assert said["rows"][0]["publications"] in (MANY - 1, MANY), said
    code, said = pubctl(keeper, "broker", "forget", "b2", "--yes")
    assert (code, said["rows"][0]["keeper"]) in ((0, "b1"), (4, "b1")), said
    code, said = pubctl(keeper, "broker", "forget", "b2", "--yes")
    assert code == 6, said

    home.start().ready(60)
    got: list[int] = []

    def arrived() -> bool:
        for message in kept.next_batch(1_000, 0.5):
            assert not isinstance(message, grapevine.Gap), message
            got.append(message.attributes["n"])
            message.ack()
        return len(got) >= MANY

    eventually(arrived, 90)
    assert got == list(range(1, MANY + 1))
    reader.close(1)
