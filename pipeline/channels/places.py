"""Where a key of a TOML file stands: tomllib knows, and does not say.

A path is a table's name and keys in it: ("channel.Near", "parameters", "km"). Lines and columns count from 1.
What cannot be found is at the nearest thing above it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TABLE = re.compile(r"^\s*\[\[?\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_PART = r"""(?:"[^"]+"|'[^']+'|[A-Za-z0-9_-]+)"""
_KEY = re.compile(rf"^\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=\s*")
_LONG = ('"""', "'''")


class Place(NamedTuple):
    line: int
    column: int


def _parts(name: str) -> list[str]:
    """Of a dotted name, without the quotes of any."""
    return [part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, name)]


class Places:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.keys: dict[tuple[str, ...], Place] = {}
        self.values: dict[tuple[str, ...], Place] = {}
        table, until = "", ""
        for number, line in enumerate(self.lines, 1):
            if until:
                until = "" if until in line else until
                continue
            if header := _TABLE.match(line):
                table = ".".join(_parts(header[1]))
                self.keys[(table,)] = Place(number, line.index("[") + 1)
            elif key := _KEY.match(line):
                path = (table, *_parts(key[1]))
                self.keys[path] = Place(number, len(line) - len(line.lstrip()) + 1)
                self.values[path] = Place(number, key.end() + 1)
                until = next((mark for mark in _LONG if line.count(mark) == 1), "")

    def of(self, *path: str) -> Place:
        for length in range(len(path), 0, -1):
            if path[:length] in self.keys:
                found = self.keys[path[:length]]
                return self._inside(path[:length], path[length:]) or found
        below = (place for key, place in self.keys.items() if key[0].startswith(f"{path[0]}."))
        return next(below, Place(1, 1))

    def _inside(self, path: tuple[str, ...], rest: tuple[str, ...]) -> Place | None:
        """A key of an inline table."""
        begin = self.values.get(path)
        if begin is None or not rest:
            return None
        pattern = re.compile(rf"""(?:(?<=[{{,\s])|^)["']?{re.escape(rest[0])}["']?\s*=""")
        for number in range(begin.line, min(begin.line + 50, len(self.lines) + 1)):
            line = self.lines[number - 1]
            offset = begin.column - 1 if number == begin.line else 0
            if number > begin.line and (_TABLE.match(line) or _KEY.match(line)) and "}" not in line:
                return None
            if found := pattern.search(line, offset):
                return Place(number, found.start() + 1)
        return None

    def within(self, path: tuple[str, ...], line: int, column: int) -> Place:
        """A place inside of a text value, whose own lines and columns count from 1."""
        begin = self.values.get(path)
        if begin is None:
            return self.of(*path)
        text = self.lines[begin.line - 1][begin.column - 1 :]
        opening = 3 if text.startswith(_LONG) else 1
        if opening == 3 and len(text.rstrip()) == 3:  # a newline after the opening marks is not in the value
            return Place(begin.line + line, max(column, 1))
        if line <= 1:
            return Place(begin.line, begin.column + opening + max(column, 1) - 1)
        return Place(begin.line + line - 1, max(column, 1))
