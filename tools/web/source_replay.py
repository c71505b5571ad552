"""A recording as a source: what `--record` wrote, at the pace at which it happened.

A line is {"at": seconds, "what": "pulse" | "overlay" | "events" | "lost", ...} with what the source answered,
or {"what": "answer", "verb", "arguments", "body"} for a question that somebody asked meanwhile. Demos, bug
reports and the tests of the page use it; a simulation writes the same lines into a pipe (source_sim.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from tools.pubctl.channel import Argument, Reply
from tools.pubctl.failure import NOT_FOUND, UNREACHABLE, USAGE, Failure
from tools.web.model import Look, SourceState
from tools.web.source import Source


class Line(msgspec.Struct, omit_defaults=True):
    at: float
    what: str
    look: msgspec.Raw = msgspec.Raw(b"{}")
    rows: list[dict[str, Any]] = []
    reason: str = ""
    verb: str = ""
    arguments: dict[str, Any] = {}
    outcome: str = "ok"
    body: dict[str, Any] = {}
    text: str = ""


class ReplaySource:
    kind = "recording"

    def __init__(self, lines: Iterator[bytes], name: str, speed: float = 1.0) -> None:
        self.name = name
        self.speed = speed
        self.state = SourceState("slow", name, 0.0, "connecting", self.kind)
        self._lines = lines
        self._next: Line | None = None
        self._began: float | None = None
        self._from = 0.0
        self._look: Look | None = None
        self._overlay: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._answers: dict[tuple[str, str], Line] = {}
        self._ended = False

    def pulse(self) -> Look:
        """The next pulse that is due; the recording waits for who reads it."""
        while True:
            line = self._take()
            if line is None:
                self._ended = True
                raise Failure(f"{self.name} has ended", NOT_FOUND)
            if line.what == "pulse":
                self._wait(line.at)
                self._look = msgspec.json.decode(line.look, type=Look)
                self._read_ahead()
                return self._look
            if line.what == "lost":
                self._wait(line.at)
                raise Failure(line.reason or "nobody listens", UNREACHABLE)
            self._keep(line)

    def _read_ahead(self) -> None:
        """Overlay and events that were recorded with this pulse follow it."""
        while (line := self._take()) is not None:
            if line.what in ("pulse", "lost"):
                self._next = line
                return
            self._keep(line)

    def _keep(self, line: Line) -> None:
        if line.what == "overlay":
            self._overlay = line.rows
        elif line.what == "events":
            self._events += line.rows
        elif line.what == "answer":
            self._answers[line.verb, _key(line.arguments)] = line

    def _take(self) -> Line | None:
        if self._next is not None:
            line, self._next = self._next, None
            return line
        for text in self._lines:
            if text.strip():
                return msgspec.json.decode(text, type=Line)
        return None

    def _wait(self, at: float) -> None:
        if self._began is None:
            self._began, self._from = time.monotonic(), at
        if self.speed > 0:
            delay = (at - self._from) / self.speed - (time.monotonic() - self._began)
            if delay > 0:
                time.sleep(min(delay, 5.0))

    def overlay(self) -> list[dict[str, Any]]:
        return self._overlay

    def events(self, look: Look) -> list[dict[str, Any]]:
        rows, self._events = self._events, []
        return rows

    def ask(self, verb: str, **arguments: Argument) -> Reply:
        given = {key: value for key, value in arguments.items() if value is not None}
        line = self._answers.get((verb, _key(given)))
        if line is None:
            raise Failure(
                f"{verb} is not in {self.name}: a recording answers what was asked in it", NOT_FOUND
            )
        return Reply(line.outcome, line.body, line.text)

    def close(self) -> None:
        return


def _key(arguments: dict[str, Any]) -> str:
    kept = {key: value for key, value in arguments.items() if key != "timeout_s"}
    return msgspec.json.encode(kept, order="sorted").decode()


def opened(path: Path, speed: float = 1.0) -> ReplaySource:
    try:
        file: IO[bytes] = path.open("rb")
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", USAGE) from None
    return ReplaySource(iter(file), path.name, speed)


class Recorder:
    """A source that writes down what another one answers."""

    def __init__(self, source: Source, path: Path) -> None:
        self.source = source
        self.kind = source.kind
        self.state = source.state
        self._file = path.open("ab", buffering=0)
        self._encoder = msgspec.json.Encoder()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def _write(self, line: Line) -> None:
        self._file.write(self._encoder.encode(line) + b"\n")

    def pulse(self) -> Look:
        try:
            look = self.source.pulse()
        except Failure as failure:
            self._write(Line(time.time(), "lost", reason=str(failure)))
            raise
        self._write(Line(time.time(), "pulse", look=msgspec.Raw(self._encoder.encode(look))))
        return look

    def overlay(self) -> list[dict[str, Any]]:
        rows = self.source.overlay()
        self._write(Line(time.time(), "overlay", rows=rows))
        return rows

    def events(self, look: Look) -> list[dict[str, Any]]:
        rows = self.source.events(look)
        if rows:
            self._write(Line(time.time(), "events", rows=rows))
        return rows

    def ask(self, verb: str, **arguments: Argument) -> Reply:
        reply = self.source.ask(verb, **arguments)
        given = {key: value for key, value in arguments.items() if value is not None}
        self._write(
            Line(
                time.time(),
                "answer",
                verb=verb,
                arguments=given,
                outcome=reply.outcome,
                body=reply.body,
                text=reply.text,
            )
        )
        return reply

    def close(self) -> None:
        self.source.close()
        self._file.close()
