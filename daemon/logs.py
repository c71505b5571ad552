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


# A name that somebody else chose may hold anything: it must not look like a line of ours.
_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_SHOWN |= {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class Lines(logging.Formatter):
    """What is said is one line, whatever it quotes; the stack of an error follows in its own."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(_SHOWN)


class JournalLines(Lines):
    def format(self, record: logging.LogRecord) -> str:
        priority = _PRIORITY.get(record.levelno, 6)
        lines = super().format(record).splitlines() or [""]
        return "\n".join(f"<{priority}>{self._name}: {line}" for line in lines)


class PlainLines(Lines):
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
