"""What goes wrong for the user of pubctl, each kind with its exit code (0 ok)."""

from __future__ import annotations

from typing import Any

FAILED = 1
USAGE = 2
UNREACHABLE = 3
TIMEOUT = 4  # also a partial answer
NOT_ALLOWED = 5
NOT_FOUND = 6

WORDS = {
    FAILED: "failed",
    USAGE: "usage",
    UNREACHABLE: "unreachable",
    TIMEOUT: "timeout",
    NOT_ALLOWED: "not-allowed",
    NOT_FOUND: "not-found",
}
# how a broker's outcome ends the program
OUTCOMES = {"failed": FAILED, "usage": USAGE, "not-allowed": NOT_ALLOWED, "not-found": NOT_FOUND}


class Failure(Exception):
    """One line for the user: what went wrong and, where there is one, the next step."""

    def __init__(self, text: str, code: int = FAILED, *, told: bool = False, **details: Any) -> None:
        super().__init__(text)
        self.code = code
        self.told = told  # the data on stdout says so already
        self.details = details

    def document(self, schema: str) -> dict[str, Any]:
        error = {"code": WORDS[self.code], "exit": self.code, "message": str(self), **self.details}
        return {"schema": schema, "error": error}


def of_library(error: Exception) -> Failure:
    """An error of the client library as a failure of this program."""
    from grapevine import FilterError, NotAllowed, Timeout, Unreachable

    for kind, code in ((FilterError, USAGE), (NotAllowed, NOT_ALLOWED), (Unreachable, UNREACHABLE)):
        if isinstance(error, kind):
            return Failure(str(error), code)
    return Failure(str(error), TIMEOUT if isinstance(error, Timeout) else FAILED)
