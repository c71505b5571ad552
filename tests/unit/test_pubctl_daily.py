"""Lines to publications, publications to lines, and places by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.pubctl import lines
from tools.pubctl.contexts import Context, Contexts, file, in_use
from tools.pubctl.failure import NOT_FOUND, USAGE, Failure
from tools.pubctl.invocation import DEFAULT_BROKER, Invocation
from tools.pubctl.load import quantiles
from tools.pubctl.output import elapsed
from tools.pubctl.running import run
from tools.pubctl.subscribing import check_template, formatted

ROW: dict[str, Any] = {
    "publisher": "quotes",
    "sequence": 7,
    "broker": "b1",
    "hops": 2,
    "accepted_at": 5.5,
    "payload": "hello",
    "attributes": {"symbol": "YHOO", "halted": False, "odd.name": 1},
}


def test_words_and_json_lines() -> None:
    text = [
        "symbol=YHOO volume=6200\n",
        "\n",
        "# a comment\n",
        "n='12' text='two words, it''s' other=\"also two\" empty=\n",
        '{"symbol": "YHOO", "n": 1.5}\n',
        '{"attributes": {"n": 1}, "payload": "ä", "sequence": 9}\n',
        '{"attributes": {"n": 2}, "payload": "x", "payload_base64": "AP8="}\n',
    ]
    assert list(lines.read(text)) == [
        ({"symbol": "YHOO", "volume": 6200}, b""),
        ({"n": "12", "text": "two words, it's", "other": "also two", "empty": ""}, b""),
        ({"symbol": "YHOO", "n": 1.5}, b""),
        ({"n": 1}, "ä".encode()),
        ({"n": 2}, b"\x00\xff"),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        "word",
        "a=1 b",
        '{"a"',
        '{"attributes": {}, "payload": 5}',
        '{"attributes": {}, "payload_base64": "?"}',
        "a=inf",
    ],
)
def test_a_line_that_cannot_be_read_is_told_by_its_number(bad: str) -> None:
    with pytest.raises(Failure, match=r"^line 2: ") as caught:
        list(lines.read(["a=1", bad]))
    assert caught.value.code == USAGE


def test_a_line_of_ones_own() -> None:
    template = (
        "{publisher}#{sequence}\t{attributes.symbol} {attributes.halted} {attributes.no} {payload} {context}"
    )
    check_template(template)
    assert formatted(template, ROW) == "quotes#7\tYHOO false - hello -"
    assert formatted("{attributes}", ROW) == "symbol=YHOO halted=False odd.name=1"
    assert formatted("{attributes.odd.name}", ROW) == "1"
    with pytest.raises(Failure, match=r"no field \{volume\}") as caught:
        check_template("{volume}")
    assert caught.value.code == USAGE


def test_contexts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("PUBCTL_BROKER", "PUBCTL_CONTEXT", "GRAPEVINE_KEYS"):
        monkeypatch.delenv(name, raising=False)
    assert Invocation().broker == DEFAULT_BROKER
    assert run(["context", "add", "lab one", "tcp://lab1:7470", "--keys", str(tmp_path / "keys")]) == 0
    assert run(["context", "add", "here", "tcp://127.0.0.1:7471"]) == 0
    assert Invocation().broker == "tcp://lab1:7470", "the first is in use"
    assert run(["context", "use", "here"]) == 0
    assert Invocation().broker == "tcp://127.0.0.1:7471"
    assert Invocation({"broker": "b9"}).broker == "b9"
    monkeypatch.setenv("PUBCTL_CONTEXT", "lab one")
    assert in_use(Invocation().environment) == Context("tcp://lab1:7470", str(tmp_path / "keys"))
    monkeypatch.setenv("PUBCTL_CONTEXT", "nowhere")
    assert run(["status"]) == NOT_FOUND
    monkeypatch.delenv("PUBCTL_CONTEXT")
    capsys.readouterr()
    assert run(["context", "ls", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["name"], row["current"]) for row in rows] == [("lab one", False), ("here", True)]
    assert run(["context", "use", "nowhere"]) == NOT_FOUND
    assert run(["context", "rm", "here"]) == 0
    assert Invocation().broker == DEFAULT_BROKER
    file(Invocation().environment).write_text("current = 5")
    assert run(["status"]) == USAGE


def test_a_context_file_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "grapevine" / "contexts.toml"
    made = Contexts("a'b", {"a'b": Context("tcp://h:1", '/k "x"'), "c": Context("b1")})
    made.write(path)
    assert Contexts.read(path) == made


def test_figures_for_people() -> None:
    assert [elapsed(s) for s in (0, 0.35, 12, 600, 30_000, 1e6)] == [
        "0",
        "350 ms",
        "12 s",
        "10 m",
        "8 h",
        "12 d",
    ]
    assert quantiles([0.001]) == {"p50_ms": 1.0, "p95_ms": 1.0, "p99_ms": 1.0, "max_ms": 1.0}
    assert quantiles([n / 1000 for n in range(1, 102)])["p50_ms"] == 51.0
