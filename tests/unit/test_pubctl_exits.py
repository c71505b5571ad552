"""Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable, 4 timeout or partial, 5 not allowed, 6 not found."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from itertools import takewhile
from pathlib import Path

import click
import pytest

from grapevine.client.keys import Entry, write_entry
from tools.pubctl.invocation import prepare
from tools.pubctl.main import ENTRIES
from tools.pubctl.running import root, run
from tools.pubctl.topology import build


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPEVINE_KEYS", str(tmp_path))
    monkeypatch.delenv("PUBCTL_BROKER", raising=False)
    return tmp_path


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize(
    "words",
    [
        ["stauts"],
        ["broker"],
        ["broker", "lss"],
        ["status", "--colour"],
        ["-o", "xml", "status"],
        ["-t", "soon", "status"],
        ["-b", "http://here", "status"],
        ["pub", "no-equals-sign"],
        ["trace", "a=1", "--deliver", "--as-is"],
        ["local", "up", "no-such-file.toml"],
    ],
)
def test_usage(keys: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    said = capsys.readouterr()
    assert said.out == "" or words == ["broker"]
    assert said.err or words == ["broker"]


def test_unreachable_and_unknown(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = free_address()
    assert run(["-b", address, "-t", "1s", "status"]) == 3  # no key
    write_entry(keys, Entry("b1", "", (address,)))
    assert run(["-b", address, "-t", "300ms", "status"]) == 3  # nobody listens
    assert run(["-b", "b1", "-t", "300ms", "status"]) == 3  # by its name
    assert run(["-b", "nobody", "status"]) == 6
    assert "nobody listens" in capsys.readouterr().err


def test_silence_is_a_timeout(keys: Path) -> None:
    """Somebody is there and takes the frame, but does not answer."""
    import zmq

    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    write_entry(keys, Entry("mute", "", (f"tcp://127.0.0.1:{port}",)))
    try:
        assert run(["-b", "mute", "-t", "500ms", "status"]) == 4
    finally:
        context.destroy(0)


def test_errors_are_json_where_json_was_asked_for(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-o", "json", "-b", "nobody", "link", "ls"], ["link", "ls", "-b", "nobody", "-o", "json"]):
        assert run(words) == 6
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "pubctl.link.ls/1"
        assert document["error"]["code"] == "not-found"
        assert document["error"]["exit"] == 6


def test_changes_are_not_made_without_a_word(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = tmp_path / "t.toml"
    topology.write_text("generate = { brokers = 2 }")
    assert (
        run(["local", "up", str(topology), "--dry-run", "--dir", str(tmp_path / "run"), "-o", "jsonl"]) == 0
    )
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["b1", "b2"]
    assert not (tmp_path / "run").exists()
    assert run(["local", "down", str(topology), "--dir", str(tmp_path / "run")]) == 6


def test_config_check(keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "b.toml"
    file.write_text("[broker]\nname = 'b1'\n[links]\npings = 1\nwindow = 0\n")
    assert run(["config", "check", str(file), "-o", "json"]) == 2
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["key"] for row in rows} == {"links.pings", "links.window"}
    file.write_text("[broker]\nname = 'b1'\n")
    assert run(["config", "check", str(file)]) == 0


def test_key_allow_says_what_it_grants(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a policy every key may do everything, administer too."""
    write_entry(keys, Entry("quotes", "k" * 40, (), "client"))
    assert run(["key", "allow", "quotes", "--dry-run"]) == 0
    assert "every role, admin too" in capsys.readouterr().err
    assert run(["key", "allow", "quotes", "--role", "publisher", "--yes"]) == 0
    assert "as publisher" in capsys.readouterr().err
    assert run(["key", "allow", "quotes", "--yes"]) == 0
    assert "as publisher, subscriber" in capsys.readouterr().err, "there is a policy now, and it says so"
    assert run(["key", "ls", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["roles"] == ["publisher", "subscriber"]


def test_pub_says_how_it_reads_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pub", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("12", "'12'", "true", "0x10"))


def test_pub_of_nothing_is_asked_about(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pub", "-b", free_address()]) == 2
    assert "--yes" in capsys.readouterr().err
    assert run(["pub", "-b", free_address(), "-t", "300ms", "--yes"]) == 3  # nobody is there to take it


def test_a_feed_that_reaches_nobody_says_so_before_spark_starts(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1,2\n")
    address = free_address()
    write_entry(keys, Entry("b1", "", (address,)))
    began = time.monotonic()
    assert run(["feed", str(rows), "-b", address]) == 3
    assert "no broker can be reached" in capsys.readouterr().err
    place = free_address().removeprefix("tcp://")
    monkeypatch.setattr("pipeline.reach.brokers", lambda *given: None)
    assert run(["feed", str(rows), "--master", f"spark://{place}", "-b", address]) == 3
    assert "Spark's master cannot be reached" in capsys.readouterr().err
    assert time.monotonic() - began < 15


def test_every_command_loads_and_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ENTRIES:
        assert run([name, "--help"]) == 0, name
        assert "Usage: pubctl" in capsys.readouterr().out or name == "sim"


def test_version_loads_nothing_and_is_quick() -> None:
    code = (
        "import sys; from tools.pubctl.main import main; main(['--version']); "
        "sys.exit(sum(name in sys.modules for name in ('click', 'rich', 'zmq', 'msgspec')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.returncode == 0
    assert loaded.stdout.startswith("pubctl ")
    command = [sys.executable, "-m", "tools.pubctl.main", "--version"]
    times = []
    for _ in range(5):
        began = _children_cpu_s()
        subprocess.run(command, check=True, capture_output=True, env=os.environ)
        times.append(_children_cpu_s() - began)
    assert min(times) < 0.2, times


def _children_cpu_s() -> float:
    """What processes that have ended took of the processor: the machine may be busy with others."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
GUIDES = "".join(page.read_text() for page in sorted(HOWTO.glob("*.md")))
CALLS = sorted(
    call
    for call in set(re.findall(r"(?:^\$ |`)pubctl ([^`\n]+)", GUIDES, re.MULTILINE))
    if not call.endswith("...")
)


@pytest.mark.parametrize("call", CALLS)
def test_the_guide_shows_commands_that_exist(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsed to the last word, not run; prose may name a command without its arguments."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before.json").write_text("{}")
    words = prepare(list(takewhile(lambda word: word not in (">", "|"), shlex.split(call))))
    command: click.Command = root
    context = None
    try:
        while isinstance(command, click.Group):
            context = command.make_context("pubctl", words, parent=context)
            _, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None, call
            command = found
        command.make_context("verb", words, parent=context)
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        pass


def test_the_guide_shows_topologies_that_can_be_built() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", GUIDES, re.DOTALL)
    topologies = [block for block in blocks if "[[broker]]" in block or "generate" in block]
    assert sorted(len(build(tomllib.loads(block)).brokers) for block in topologies) == [2, 7]


def test_sim_run_is_the_simulators_own_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "run", "--help"]) == 0
    assert "SCENARIO" in capsys.readouterr().out
    assert run(["sim", "run", "no-such-scenario"]) == 2
