"""What goes wrong for the user of a job: one text, and the exit code that `pubctl` gives it."""

from __future__ import annotations

FAILED = 1
USAGE = 2
UNREACHABLE = 3
PARTIAL = 4
NOT_ALLOWED = 5
NOT_FOUND = 6


class Trouble(Exception):
    """What happened, where (file and row if there are such), and what to do next."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code
