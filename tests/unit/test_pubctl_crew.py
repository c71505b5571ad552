"""What `pubctl` starts, it knows and can end, whenever it is interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.pubctl.crew import CONFIG, Crew, started_at, toml
from tools.pubctl.interrupts import in_one_piece, interruptible, undisturbed
from tools.pubctl.topology import build

pytestmark = pytest.mark.usefixtures("heard")
SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def heard() -> Iterator[None]:
    """Who is started in the background of a script has SIGINT ignored, and so have its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_process_is_made_finds_it_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    made = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            made.append(self)
            signal.raise_signal(number)

    monkeypatch.setattr("tools.pubctl.crew.subprocess.Popen", Interrupted)
    crew = Crew(tmp_path)
    with pytest.raises(KeyboardInterrupt), interruptible():
        crew.launch("sleeper", "", tmp_path / "sleeper", SLEEPER)
    assert [member.pid for member in crew.alive] == [made[0].pid]
    assert [member.pid for member in Crew(tmp_path).members] == [made[0].pid]
    assert crew.down() == []  # it hears the SIGTERM
    assert made[0].poll() == -signal.SIGTERM
    assert started_at(made[0].pid) == 0


def test_who_ended_before_it_was_looked_at_is_not_alive(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    member = crew.launch("gone", "", tmp_path / "gone", [sys.executable, "-c", ""])
    crew._children[0].wait()
    member.started = started_at(member.pid)
    assert not crew.alive


def test_handlers_are_as_they_were_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with interruptible(), in_one_piece(), undisturbed():
        signal.raise_signal(signal.SIGTERM)
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_who_runs_with_another_configuration_than_the_file_s_is_known(tmp_path: Path) -> None:
    content: dict[str, Any] = {"generate": {"shape": "line", "brokers": 2}}
    before, crew = build(content), Crew(tmp_path)
    for broker in before.brokers:
        crew.launch(broker.name, broker.address, tmp_path / broker.name, SLEEPER)
        configured = crew._placed(broker, before.settings(broker))
        (tmp_path / broker.name / CONFIG).write_text(toml(configured))
    after = build({**content, "broker": [{"name": "b2", "broker": {"roles": ["broker", "coordinator"]}}]})
    found = Crew(tmp_path)  # of a later command
    assert found.is_whole(after) and found.outdated(before) == []
    assert found.outdated(after) == ["b2"]
    crew.down()
    assert found.outdated(after) == [], "who does not run is started with the new one"
