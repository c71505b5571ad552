"""The commands of bench/ as a newcomer types them, in their shortest form: what they print, what they refuse, and that
they leave nothing running and nothing overwritten."""  # noqa: E501

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench import report
from bench.broker import PEERS
from bench.clients import NatsClient
from bench.content import c1
from bench.options import absent
from bench.running import Wrong, measure
from bench.systems.activemq import ActiveMQ
from bench.systems.base import System
from bench.workloads import topic_workloads

ROOT = Path(__file__).resolve().parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("bench.broker --peers= --workloads chain --rounds 1 --scale 0.001", 3),
        ("bench.latency --peers= --chains 1,2 --rates 200 --seconds 0.2 --rounds 1", 2),
        ("bench.startup --peers= --rounds 1", 2),
        ("bench.memory --subscriptions 0,50 --clients 2", 2),
        ("bench.scale --against payload --rounds 1 --scale 0.001", 5),
        ("bench.features --features marks,curve --pairs 2 --publications 1000", 2),
    ],
)
def test_commands_print_their_document(words: str, rows: int) -> None:
    ended = bench(*words.split(), "-o", "json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["schema"] == words.partition(" ")[0] + "/1"
    assert len(document["rows"]) == rows and document["machine"]["cores"]


@pytest.mark.parametrize(
    "words",
    [
        "bench.broker --peers nobody",
        "bench.broker --workloads=",
        "bench.broker --rounds 0",
        "bench.broker --workloads quotes --data /nonexistent",
        "bench.latency --peers nobody",
        "bench.startup --peers nobody",
        "bench.scale --against nothing",
        "bench.features --pairs 1",
        "bench.everything --only nothing",
    ],
)
def test_what_is_wrong_is_said_in_a_line(words: str) -> None:
    ended = bench(*words.split())
    assert ended.returncode == 2 and not ended.stdout
    assert "error: " in ended.stderr.splitlines()[-1] and "Traceback" not in ended.stderr


def test_who_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    gaps = absent([*[make() for make in PEERS.values()], NatsClient()])
    assert [gap["system"] for gap in gaps] == [*PEERS, "nats-py"]
    assert all("not installed" in gap["reason"] for gap in gaps)


@pytest.mark.parametrize("name", PEERS)
def test_topics_through_a_peer(name: str) -> None:
    peer: System = PEERS[name]()
    if peer.missing():
        pytest.skip(peer.missing())
    workload = topic_workloads(0.01)["T2"]._replace(publications=1_000)
    assert measure(peer, workload).deliveries_s > 0
    assert peer.version() not in ("", "?")


def test_selectors_are_verified_per_subscription() -> None:
    peer = ActiveMQ()
    if peer.missing():
        pytest.skip(peer.missing())
    content = c1(100, 100, connections=5)
    assert measure(peer, content).publications_s > 0
    other = [list(found) for found in content.matching]
    next(found for found in other if found)[0] += content.connections
    with pytest.raises(Wrong, match="other subscriptions"):
        measure(peer, content._replace(matching=other))


def test_an_ended_command_leaves_no_broker() -> None:
    command = [sys.executable, "-m", "bench.startup", "--peers=", "--rounds", "1000"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None and process.stderr.readline()
        deadline = time.monotonic() + 30
        while not (started := psutil.Process(process.pid).children()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == 128 + signal.SIGTERM
        assert started and not psutil.wait_procs(started, 20)[1]


def test_a_quick_run_overwrites_no_figure(tmp_path: Path) -> None:
    before = report.PAGE.read_bytes(), {path: path.read_bytes() for path in report.RESULTS.iterdir()}
    ended = bench("bench.everything", "--load", "1000", "--only", "startup", "--quick", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "startup.json").read_text())["rows"]
    assert "## Start\n" in (tmp_path / report.PAGE.name).read_text()
    assert before == (
        report.PAGE.read_bytes(),
        {path: path.read_bytes() for path in report.RESULTS.iterdir()},
    )


def test_the_page_holds_the_method_and_the_committed_results() -> None:
    page = report.PAGE.read_text()
    assert report.METHOD.read_text() in page
    for name, measured in report.read(report.RESULTS).items():
        assert report.markdown(measured["rows"]) in page, (
            f"{name}: write the page anew, python -m bench.report"
        )


def test_pictures_of_what_was_measured(tmp_path: Path) -> None:
    topics = [{"system": s, "workload": "T1", "deliveries_s": 9} for s in ("grapevine", "nats")]
    scale = [{"against": "payload", "value": size, "broker_us_per_msg": 1.0} for size in (10, 200)]
    drawn = report.draw({"broker": {"rows": topics}, "scale": {"rows": scale}}, tmp_path)
    assert drawn == ["benchmarks-broker.svg", "benchmarks-scale.svg"]
    assert all((tmp_path / name).read_text().startswith("<?xml") for name in drawn)


def document(**figures: Any) -> dict[str, Any]:
    rows = [{"system": "grapevine", "workload": w, "publications_s": v} for w, v in figures.items()]
    return {"rows": rows, "missing": [], "rounds": 5, "scale": 1.0, "real_quotes": True}


@pytest.mark.parametrize(("rate", "code"), [(40_000, 0), (39_999, 1), (None, 1)])
def test_the_check_fails_if_a_bar_is_missed_or_none_was_measured(
    tmp_path: Path, rate: int | None, code: int
) -> None:
    (tmp_path / "broker.json").write_text(json.dumps(document(**{"quotes-1000": rate} if rate else {})))
    assert bench("bench.report", "--results", str(tmp_path), "--check", "quotes-1000").returncode == code
