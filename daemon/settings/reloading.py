"""What a running broker takes of a changed configuration, and what has to wait for a restart.

The settings in force are always ones that could stand in a file: a key that goes only with another one that
needs a restart waits with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from daemon.settings.checks import check
from daemon.settings.keys import table, value
from daemon.settings.sections import Settings


class Change(NamedTuple):
    settings: Settings  # in force from now on
    now: list[str]
    restart: list[str]


def taken(old: Settings, fresh: Settings) -> Change:
    keys = [key for section in table().values() for key in section.values()]
    changed = [key for key in keys if value(old, key.path) != value(fresh, key.path)]
    now = [key.path for key in changed if key.reload]
    while True:
        settings = _with(old, fresh, now)
        wrong = {path for path, _ in check(settings)} & set(now)
        if not wrong:
            return Change(settings, now, [key.path for key in changed if key.path not in now])
        now = [path for path in now if path not in wrong]


def _with(old: Settings, fresh: Settings, paths: Iterable[str]) -> Settings:
    sections: dict[str, dict[str, Any]] = {}
    for path in paths:
        section, key = path.split(".")
        sections.setdefault(section, {})[key] = value(fresh, path)
    made = {name: msgspec.structs.replace(getattr(old, name), **keys) for name, keys in sections.items()}
    return msgspec.structs.replace(old, **made)
