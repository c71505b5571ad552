"""Whether a finished command showed what its claim says.

Rules: a judgement is a list of reasons why not, empty when it holds; a value that is missing is a reason,
never an exception; the JSON is all of stdout, or else its last line that is a JSON object or list.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
COMPARISON = re.compile(r"\s*(\S+)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*")


class Expect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    exit: int = 0
    match: str = ""
    json: tuple[str, ...] = ()


class ComparisonError(ValueError):
    """A line of expect.json that cannot be read."""


class MissingError(LookupError):
    """The path leads nowhere in this document."""


@dataclass(frozen=True)
class Comparison:
    path: str
    symbol: str
    value: Any

    @classmethod
    def parse(cls, text: str) -> Comparison:
        match = COMPARISON.fullmatch(text)
        if not match:
            raise ComparisonError(f"{text!r} is not `path operator value`")
        try:
            return cls(match[1], match[2], json.loads(match[3]))
        except json.JSONDecodeError:
            raise ComparisonError(f"{match[3]!r} in {text!r} is not a JSON value") from None

    def reasons_against(self, document: Any) -> list[str]:
        try:
            values = select(document, self.path.split("."))
        except MissingError as error:
            return [str(error)]
        return [
            f"{self.path} is {json.dumps(value)}, not {self.symbol} {json.dumps(self.value)}"
            for value in values
            if not self.holds(value)
        ]

    def holds(self, value: Any) -> bool:
        try:
            return OPERATORS[self.symbol](value, self.value)
        except TypeError:
            return False


def select(document: Any, path: list[str]) -> list[Any]:
    """All values at a path: a key, an index, `#` for the length, `*` for every element (at least one)."""
    if not path:
        return [document]
    step, rest = path[0], path[1:]
    if step == "#" and isinstance(document, list | dict):
        return select(len(document), rest)
    if step == "*" and isinstance(document, list | dict) and document:
        parts = document.values() if isinstance(document, dict) else document
        return [value for part in parts for value in select(part, rest)]
    if isinstance(document, dict) and step in document:
        return select(document[step], rest)
    if (
        isinstance(document, list)
        and re.fullmatch(r"-?\d+", step)
        and -len(document) <= int(step) < len(document)
    ):
        return select(document[int(step)], rest)
    raise MissingError(f"nothing at {step!r}")


def find_json(stdout: str) -> Any:
    for text in (stdout, *reversed(stdout.splitlines())):
        if text.lstrip()[:1] in ("{", "["):
            try:
                return json.loads(text)
            except json.JSONDecodeError:
                continue
    raise MissingError("stdout has no JSON")


def judge(expect: Expect, code: int, stdout: str) -> list[str]:
    reasons = []
    if code != expect.exit:
        reasons.append(f"exit code {code}, not {expect.exit}")
    if expect.match and not re.search(expect.match, stdout, re.MULTILINE):
        reasons.append(f"stdout has no match for {expect.match!r}")
    if expect.json:
        try:
            document = find_json(stdout)
        except MissingError as error:
            return [*reasons, str(error)]
        for text in expect.json:
            reasons += Comparison.parse(text).reasons_against(document)
    return reasons
