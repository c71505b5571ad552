"""Claims as they stand in claims.toml (the schema is its header): read, checked, picked.

Rules: a mistake in the file is a ClaimsError that lists all mistakes at once, before anything runs; claims
keep the order of the file, cheapest first within an area being the habit.
"""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from tools.proof.expectation import Comparison, ComparisonError, Expect

DEFAULT_FILE = Path(__file__).with_name("claims.toml")
ID = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")


class ClaimsError(Exception):
    """What is wrong with the claims file, one line each."""


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    area: str
    sentence: str
    command: str
    estimate_s: float
    timeout_s: float = 0.0
    needs: tuple[str, ...] = ()
    expect: Expect = Expect()

    @property
    def limit_s(self) -> float:
        """A claim that takes four times its estimate hangs, or its estimate is wrong: both want a look."""
        return self.timeout_s or 60 + 4 * self.estimate_s


class _File(msgspec.Struct, forbid_unknown_fields=True):
    claim: list[Claim] = []


def mistakes_of(claim: Claim) -> list[str]:
    found = []
    if not ID.fullmatch(claim.id):
        found.append("id is not made of lower-case words joined by . or -")
    if claim.estimate_s <= 0:
        found.append("estimate_s is not positive")
    try:
        re.compile(claim.expect.match)
    except re.error as error:
        found.append(f"expect.match: {error}")
    for text in claim.expect.json:
        try:
            Comparison.parse(text)
        except ComparisonError as error:
            found.append(f"expect.json: {error}")
    return [f"{claim.id}: {mistake}" for mistake in found]


def load(path: Path = DEFAULT_FILE) -> list[Claim]:
    try:
        claims = msgspec.toml.decode(path.read_bytes(), type=_File).claim
    except msgspec.MsgspecError as error:
        raise ClaimsError(f"{path.name}: {error}") from None
    mistakes = [mistake for claim in claims for mistake in mistakes_of(claim)]
    twice = [name for name, count in Counter(claim.id for claim in claims).items() if count > 1]
    mistakes += [f"{name}: id used more than once" for name in twice]
    if mistakes:
        raise ClaimsError("\n".join(f"{path.name}: {mistake}" for mistake in mistakes))
    return claims


def pick(claims: list[Claim], patterns: tuple[str, ...]) -> list[Claim]:
    """Those whose id or area is named (with * and ?); all of them when nothing is."""
    if not patterns:
        return claims
    return [c for c in claims if any(fnmatchcase(c.id, p) or fnmatchcase(c.area, p) for p in patterns)]
