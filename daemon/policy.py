"""Who may do what: `policy.toml` in the keys directory.

    [[key]]
    name = "quotes"                       # an entry of the keys directory, or: public = "<40 characters>"
    roles = ["publisher", "subscriber"]   # also "broker", "admin", "observer"
    publish = "class = 'STOCK'"           # what it may publish; left out: anything
    ask = "class = 'STOCK'"               # what it may subscribe to; left out: anything

Without the file every authorised key may do everything. With it, only the keys in it may do anything, and
only what it says; an empty file is nobody. A mistake is told with its line, and nothing of the file is taken.
An observer may say the verbs that only read (overlay.administration.verbs), and nothing else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from grapevine.client.keys import KEY_CHARS, Entry
from grapevine.filters import FilterError, parse
from grapevine.filters.normal import EVERYTHING, Filter
from grapevine.wire.messages import MESSAGES, Command, Message
from overlay.administration.verbs import Access, access

FILE = "policy.toml"
Role = Literal["publisher", "subscriber", "broker", "admin", "observer"]
ROLES: frozenset[str] = frozenset(get_args(Role))
# One of these roles is needed, by the kind of the message. Behind a greeting the core lets a link speak only
# as what it greeted as; greetings and commands may come on any link.
NEEDS: dict[int, frozenset[str]] = {message.kind: message.gate.roles for message in MESSAGES}


class PolicyError(ValueError):
    """One line: file, line, what is wrong."""


@cache
def _barred(roles: frozenset[str]) -> frozenset[int]:
    return frozenset(kind for kind, needed in NEEDS.items() if not needed & roles)


class Grant(NamedTuple):
    roles: frozenset[str]
    publish: Filter = EVERYTHING
    ask: Filter = EVERYTHING

    @property
    def barred(self) -> frozenset[int]:
        """Kinds of messages that this key may not send."""
        return _barred(self.roles)

    @property
    def watched(self) -> frozenset[int]:
        """Those, and kinds of which this key may send some: `forbids` decides. One set, so that who may
        everything is asked one question a frame."""
        return self.barred if "admin" in self.roles else self.barred | {Command.kind}

    def forbids(self, message: Message) -> bool:
        """Whether this key may not send a message of a kind that is watched."""
        if message.kind in self.barred or not isinstance(message, Command):
            return True
        return access(message.verb) is not Access.READ


FULL = Grant(ROLES)
Grants = Mapping[str, Grant]  # by public key


class Rule(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str = ""
    public: str = ""
    roles: list[Role] = []
    publish: str = ""
    ask: str = ""


def read(path: Path, entries: Iterable[Entry]) -> Grants:
    """The whole policy, or PolicyError."""
    try:
        text = path.read_text()
        rules = tomllib.loads(text)
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: {error}") from None
    lines = Lines(path, text)
    if stray := [key for key in rules if key != "key"]:
        raise PolicyError(f"{lines.of_word(stray[0])}: unknown; write [[key]]")
    listed = rules.get("key", [])
    if not isinstance(listed, list):
        raise PolicyError(f"{lines.of_word('key')}: write [[key]], there are several")
    known = list(entries)
    grants: dict[str, Grant] = {}
    for number, rule in enumerate(listed):
        grants.update(_grants(rule, known, lines, number))  # the later of two rules about one key counts
    return grants


def _grants(given: Any, entries: list[Entry], lines: Lines, number: int) -> list[tuple[str, Grant]]:
    def wrong(field: str, text: str) -> PolicyError:
        return PolicyError(f"{lines.of_field(number, field)}: {text}")

    try:
        rule = msgspec.convert(given, Rule)
    except msgspec.ValidationError as error:
        text = str(error)
        place = re.search(r"\$\.(\w+)|unknown field `(\w+)`", text)
        raise wrong((place[1] or place[2]) if place else "", text.partition(" - at")[0]) from None
    if not rule.roles:
        raise wrong("roles", f"no roles; there are {', '.join(sorted(ROLES))}")
    filters = {}
    for field in ("publish", "ask"):
        try:
            said = getattr(rule, field)
            filters[field] = parse(said) if said else EVERYTHING
        except FilterError as error:
            raise wrong(field, " ".join(str(error).split())) from None
    keys = [rule.public] if rule.public else [e.public for e in entries if e.name == rule.name and e.public]
    if rule.public and len(rule.public) != KEY_CHARS:
        raise wrong("public", f"a key has {KEY_CHARS} characters")
    if not keys:
        raise wrong("name", f"no key of {rule.name!r} in {lines.path.parent}; give it as `public`")
    return [(key, Grant(frozenset(rule.roles), **filters)) for key in keys]


class Lines:
    """Where in the file something stands."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._lines = text.splitlines()
        self._rules = [n for n, line in enumerate(self._lines) if re.match(r"\s*\[\[\s*key\s*\]\]", line)]

    def of_field(self, rule: int, field: str) -> str:
        start = self._rules[rule] if rule < len(self._rules) else 0
        end = self._rules[rule + 1] if rule + 1 < len(self._rules) else len(self._lines)
        for number in range(start, end):
            if field and re.match(rf"\s*{field}\s*=", self._lines[number]):
                return f"{self.path}:{number + 1}: {field}"
        return f"{self.path}:{start + 1}"

    def of_word(self, word: str) -> str:
        found = next((n for n, line in enumerate(self._lines) if word in line), 0)
        return f"{self.path}:{found + 1}: {word}"
