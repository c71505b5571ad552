"""The Spark jobs of pubctl, as far as they go without Spark: which logs, which exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.pubctl.collect import logs_of
from tools.pubctl.failure import USAGE, Failure
from tools.pubctl.local import place
from tools.pubctl.running import run


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "lab.toml"
    path.write_text(
        "[defaults.delivery_log]\nmode = 'all'\n[[broker]]\nname = 'b1'\nhost = 'h1'\n"
        "[[broker]]\nname = 'b2'\nhost = 'h2'\nneighbours = ['b1']\n"
    )
    return path


def test_logs_lie_where_local_or_deploy_fetch_put_them(topology: Path, tmp_path: Path) -> None:
    here = {log.broker: log.directories for log in logs_of(topology, None, None)}
    assert here["b2"] == [place(topology, None) / "b2" / "state" / "deliveries"]
    there = {log.broker: log.directories for log in logs_of(topology, None, tmp_path / "got")}
    assert there["b2"] == [tmp_path / "got" / "h2" / "b2" / "state" / "deliveries"]
    topology.write_text(topology.read_text().replace("mode = 'all'", "mode = 'all'\ndir = '/var/log/here'"))
    assert logs_of(topology, None, None)[0].directories == [Path("/var/log/here")]


def test_a_broker_that_logs_nothing_is_told(topology: Path) -> None:
    topology.write_text(topology.read_text() + "delivery_log = { mode = 'off' }\n")
    with pytest.raises(Failure, match="no delivery log at b2") as error:
        logs_of(topology, None, None)
    assert error.value.code == USAGE


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["collect", "--to", "x"], 2),  # which logs?
        (["collect", "--logs", "nowhere", "--to", "x"], 6),
        (["collect", "no-such.toml", "--to", "x"], 2),
        (["collect", "--logs", "."], 2),  # where to?
        (["feed"], 2),
        (["feed", "x.csv", "--nulls", "perhaps"], 2),
        (["report"], 2),
        (["report", "nowhere"], 6),
        (["feed", "nowhere.csv"], 6),
        (["feed", "some.csv", "--attributes", "prize"], 2),
        (["feed", "some.csv", "--rate", "0"], 2),
        (["feed", "some.csv", "--follow"], 2),
    ],
)
def test_exit_codes(words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these waits for Spark."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.session.opened", lambda *_, **__: pytest.fail("Spark was started"))
    (tmp_path / "some.csv").write_text("price\n1\n")
    assert run(words) == code


def test_without_spark_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pipeline.session.find_spec", lambda name: None)
    (tmp_path / "run=000001").mkdir()
    (tmp_path / "run=000001" / "_collected.json").write_text("{}")
    assert run(["-o", "json", "report", str(tmp_path)]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert "pip install 'grapevine-broker[spark]'" in error["message"]
