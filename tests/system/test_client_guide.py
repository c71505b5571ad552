"""Every example of docs/client.md runs against a real broker."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import pytest

import grapevine
from tests.system.overlay import Overlay

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "client-reference.md").read_text()
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall((DOCS / "client.md").read_text() + PAGE)
SHARED = EXAMPLE.findall((DOCS / "howto" / "groups.md").read_text())


def test_examples(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    b1 = overlay.start("b1")
    monkeypatch.setenv("GRAPEVINE_KEYS", str(b1.keys))
    scope: dict[str, object] = {}
    assert len(EXAMPLES) == 5
    for example in EXAMPLES:
        exec(example.replace("tcp://127.0.0.1:7470", b1.address), scope)  # noqa: S102
    out = capsys.readouterr().out
    assert "50.5 b'any bytes' quotes b1\n51.5 b'any bytes' quotes b1\n" in out
    assert "{'n': 2}\n{'n': 3}\n" in out and "outside" in out


def test_examples_of_groups_and_requests(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    b1 = overlay.start("b1")
    monkeypatch.setenv("GRAPEVINE_KEYS", str(b1.keys))
    scope: dict[str, object] = {}
    assert len(SHARED) == 3  # the last one needs a stream: tests/system/test_groups.py
    for example in SHARED[:2]:
        exec(example.replace("tcp://127.0.0.1:7470", b1.address), scope)  # noqa: S102
    assert capsys.readouterr().out.split("\n")[:3] == ["did 1", "49", "nobody is there"]


def test_table_of_connect() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE.partition("## All of connect")[2], re.MULTILINE))
    parameters = signature(grapevine.connect).parameters
    assert list(told) == list(parameters)
    for name in ("on_slow", "publish_window", "receive_window", "keys"):
        assert told[name].strip("`") == str(parameters[name].default).replace("drop_oldest", '"drop_oldest"')
    assert float(told["timeout"]) == parameters["timeout"].default
    assert list(signature(grapevine.aio.connect).parameters) == list(parameters)


def test_table_of_errors() -> None:
    told = set(
        re.findall(r"^\| (\w+) \|", PAGE.partition("## Errors")[2].partition("## Keys")[0], re.MULTILINE)
    )
    known = {
        n
        for n in grapevine.__all__
        if isinstance(v := getattr(grapevine, n), type) and issubclass(v, Exception)
    }
    assert told - {"error"} == known - {"Error"}
