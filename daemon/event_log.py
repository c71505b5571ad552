"""The broker's events as lines of its log, for journald. What happens to links is there already."""

from __future__ import annotations

from daemon.logs import log
from overlay.core import Core

LOOK_S = 0.5
LEVELS = {"warn": log.warning, "bad": log.warning}


class EventLog:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._told = 0

    def __call__(self, now: float) -> float:
        """Called at intervals."""
        events = self._core.events
        for happened in events.since(self._told):
            if not happened.kind.startswith("link."):
                LEVELS.get(happened.level, log.info)("%s: %s", happened.kind, happened.text)
        self._told = events.last
        return now + LOOK_S
