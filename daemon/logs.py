"""The broker's own log on standard error: one line an event, readable as it is.

Under journald each line begins with its priority, and the time is left to journald; elsewhere with the
time and the level. The broker's name stands in every line, so that the logs of many can be read together.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

log = logging.getLogger("grapevine")

_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class JournalLines(logging.Formatter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        priority = _PRIORITY.get(record.levelno, 6)
        lines = super().format(record).splitlines() or [""]
        return "\n".join(f"<{priority}>{self._name}: {line}" for line in lines)


class PlainLines(logging.Formatter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        at = self.formatTime(record, "%Y-%m-%d %H:%M:%S")
        head = f"{at}.{int(record.msecs):03d} {record.levelname.lower():<7} {self._name}: "
        return head + super().format(record)


def set_up(name: str, level: str, environment: Mapping[str, str] = os.environ) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JournalLines if environment.get("JOURNAL_STREAM") else PlainLines)(name))
    log.handlers[:] = [handler]
    log.propagate = False
    set_level(level)


def set_level(level: str) -> None:
    log.setLevel(level.upper())
