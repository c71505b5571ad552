"""Outcomes of a long run, kept line by line, so that it goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tools.reproduce.grape_experiment import Outcome
from tools.reproduce.grape_placing import Setting


class Line(msgspec.Struct, frozen=True):
    setting: Setting
    real: bool  # with the directory of real data
    outcome: Outcome


class Kept:
    """Without a path nothing is kept."""

    def __init__(self, path: Path | None, real: bool) -> None:
        self.path = path
        self.real = real
        self.known: dict[bytes, Outcome] = {}
        if path is not None and path.exists():
            lines = msgspec.json.Decoder(Line).decode_lines(path.read_bytes())
            self.known = {_key(line.setting): line.outcome for line in lines if line.real == real}

    def find(self, setting: Setting) -> Outcome | None:
        return self.known.get(_key(setting))

    def add(self, setting: Setting, outcome: Outcome) -> None:
        if self.path is not None:
            with self.path.open("ab") as file:
                file.write(msgspec.json.encode(Line(setting, self.real, outcome)) + b"\n")


def _key(setting: Setting) -> bytes:
    return msgspec.json.encode(setting)
