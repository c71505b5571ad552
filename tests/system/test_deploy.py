"""A topology on several hosts by one command: every loopback address is a host with its own directory, and a
real sshd answers for all of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

import grapevine
from tests.system.lab import Lab, why_no_sshd
from tests.system.overlay import eventually

pytestmark = pytest.mark.slow

BROKERS = 5
AFTER = 50  # publications after an upgrade


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    pytest.importorskip("asyncssh")
    if missing := why_no_sshd():
        pytest.skip(missing)
    with Lab(tmp_path) as made:
        made.write(BROKERS)
        yield made


def test_up_traffic_down(lab: Lab) -> None:
    assert len(lab("check")["rows"]) == BROKERS
    assert lab.states("up", "--yes") == {"running"}
    assert lab.states("status") == {"running"}
    pids = lab.pids()
    assert lab.states("up", "--yes") == {"running"}, "said again, it changes nothing"
    assert pids == lab.pids()
    with (
        grapevine.connect(lab.address(4), name="from", keys=lab.keys) as publisher,
        grapevine.connect(lab.address(5), name="to", keys=lab.keys) as subscriber,
    ):
        sub = subscriber.subscribe("n > 0")
        publisher.publish({"n": 1})
        publisher.flush(30)
        message = sub.next(timeout=30)
        assert message is not None
        assert message.hops == 2
    assert "listening on" in lab("logs", "--lines", "50")
    lab("fetch", "--to", str(lab.directory / "fetched"))
    assert "ready after" in (lab.directory / "fetched" / lab.host(1) / "b1" / "log").read_text()
    assert not list((lab.directory / "fetched").rglob("*.secret"))
    assert lab.states("down", "--yes") == {"ended"}
    assert not Path(lab.at).exists()
    assert not list(lab.keys.glob("b*.broker.toml"))


def test_a_one_hop_cluster(lab: Lab) -> None:
    """Two matchers and two dispatchers: a client that dials a matcher is sent on, and who subscribes at one
    dispatcher gets what is published at the other."""
    lines = [
        f"port = {lab.base}",
        '[defaults.overlay]\nkind = "onehop"',
        '[defaults.onehop]\ndimensions = ["n"]',
    ]
    for number, role in enumerate(("matcher", "matcher", "dispatcher", "dispatcher"), 1):
        lines += ["[[broker]]", f'name = "b{number}"', f'host = "{lab.host(number)}"']
        lines += [f'broker = {{ roles = ["{role}"] }}', 'neighbours = ["b1"]' if number > 1 else ""]
    lab.topology.write_text("\n".join(lines) + "\n")
    assert lab.states("up", "--yes") == {"running"}
    with (
        grapevine.connect(lab.address(1), name="from", keys=lab.keys) as publisher,
        grapevine.connect(lab.address(4), name="to", keys=lab.keys) as subscriber,
    ):
        sub = subscriber.subscribe("n > 0")
        publisher.publish({"n": 1})
        publisher.flush(30)
        message = sub.next(timeout=30)
        assert message is not None and publisher.broker in ("b3", "b4")
    assert lab.states("down", "--yes") == {"ended"}


def test_a_ring(lab: Lab) -> None:
    """Who subscribes by topic at one broker gets what is published at another."""
    lines = [f"port = {lab.base}", '[defaults.overlay]\nkind = "chord"']
    for number in range(1, 6):
        lines += ["[[broker]]", f'name = "b{number}"', f'host = "{lab.host(number)}"']
        lines += ['neighbours = ["b1"]'] if number > 1 else ['broker = { roles = ["broker", "coordinator"] }']
    lab.topology.write_text("\n".join(lines) + "\n")
    assert lab.states("up", "--yes") == {"running"}
    with (
        grapevine.connect(lab.address(2), name="from", keys=lab.keys) as publisher,
        grapevine.connect(lab.address(5), name="to", keys=lab.keys) as subscriber,
    ):
        sub = subscriber.subscribe("topic = 'us' and n > 0")
        publisher.publish({"topic": "us", "n": 1})
        publisher.flush(30)
        assert sub.next(timeout=30) is not None
    assert lab.states("down", "--yes") == {"ended"}


def test_a_rolling_upgrade_under_traffic(lab: Lab) -> None:
    """Every broker is restarted while publications flow, the clients' own ones too: nothing twice, nothing
    out of order, and all of it again once the subscriber's broker is back (DECISIONS 20)."""
    lab("up", "--yes")
    count = 0
    with (
        grapevine.connect(lab.address(4), name="from", keys=lab.keys) as publisher,
        grapevine.connect(lab.address(5), name="to", keys=lab.keys) as subscriber,
    ):
        sub = subscriber.subscribe("n > 0")
        publisher.publish({"n": 1})
        before = lab.pids()
        command = lab.command("upgrade", "--rolling", "--yes", "-q")
        with subprocess.Popen(command, env=lab.environment, stdout=subprocess.DEVNULL) as upgrade:
            count = 1
            while upgrade.poll() is None:
                publisher.publish({"n": 1})
                count += 1
                time.sleep(0.02)
        assert upgrade.returncode == 0
        after = lab.pids()
        assert all(before[path] != after[path] for path in before)
        for _ in range(AFTER):
            publisher.publish({"n": 1})
        publisher.flush(30)
        got: list[int] = []
        while count + AFTER not in got and (batch := sub.next_batch(count, timeout=30)):
            got += [message.sequence for message in batch]
        assert all(first < second for first, second in pairwise(got))
        assert got[-AFTER:] == list(range(count + 1, count + AFTER + 1))
        assert len(got) > count / 2


def test_an_experiment_keeps_its_times(lab: Lab) -> None:
    """b2 begins three seconds after the rest, and the publisher one second after both are ready."""
    lab.write(2)
    with lab.topology.open("a") as file:
        file.write(
            'start_s = 3.0\n[[client]]\nkind = "subscriber"\nbroker = "b2"\nname = "s"\nfilter = "n = 1"\n'
        )
        file.write('[[client]]\nkind = "publisher"\nbroker = "b1"\nname = "p"\nattributes = { n = 1 }\n')
        file.write("count = 20\nrate = 100\nstart_s = 1.0\n")
    rows = lab("up", "--yes")["rows"]
    assert {row["broker"]: row["state"] for row in rows} == {
        "b1": "running", "b2": "running", "s": "started", "p": "started",
    }  # fmt: skip
    installed = (lab.place(1).parent / "image").lstat().st_mtime
    assert said(lab.place(2) / "log", "listening") - installed >= 3.0
    got = lab.place(2).parent / "s" / "log"
    eventually(lambda: len(got.read_text().splitlines()) == 20)
    lab("fetch", "--to", str(lab.directory / "fetched"))
    assert len((lab.directory / "fetched" / lab.host(2) / "s" / "log").read_text().splitlines()) == 20
    assert not list((lab.directory / "fetched").rglob("*.secret"))
    wanted = {"b1": "running", "b2": "running", "s": "running", "p": "ended"}
    eventually(lambda: {row["broker"]: row["state"] for row in lab("status")["rows"]} == wanted)
    assert lab.states("down", "--yes") == {"ended"}
    assert not Path(lab.at).exists()


def said(log: Path, text: str) -> float:
    line = next(line for line in log.read_text().splitlines() if text in line)
    return datetime.fromisoformat(line[:23]).timestamp()


def test_a_host_that_is_gone_is_named_and_the_others_go_on(lab: Lab) -> None:
    lab.write(2, absent=True)
    rows = lab("check", code=1)["rows"]
    states = {row["host"]: row["state"] for row in rows}
    assert states["192.0.2.1"].startswith("failed: ssh")
    assert states["192.0.2.1"].endswith("@192.0.2.1` must work first")
    assert not states[lab.host(1)].startswith("failed")
