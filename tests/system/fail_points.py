"""A daemon that kills itself at a chosen step of its journal, for tests: `fail_points.py --config FILE`.

FAIL_AT is `call:when:n`: the n-th `os.<call>` on the journal, `before` or `after` it is done. What has been
synced is noted in FAIL_NOTES (file and size, a line each), so that a test can take away the rest, as a power
cut would.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = ("pwritev", "fdatasync", "fsync", "rename", "unlink")


def concerns(argument: object) -> str:
    """The name of the journal's file that a call is about."""
    path = os.readlink(f"/proc/self/fd/{argument}") if isinstance(argument, int) else str(argument)
    return path if "/journal" in path else ""


class FailPoint:
    def __init__(self, call: str, when: str, count: int) -> None:
        self.call, self.when, self.left = call, when, count

    def wrap(self, name: str, real: Callable[..., Any], notes: Path) -> Callable[..., Any]:
        def called(argument: Any, *others: Any, **named: Any) -> Any:
            path = concerns(argument)
            if not path:
                return real(argument, *others, **named)
            mine = name == self.call
            if mine:
                self.left -= 1
            if mine and not self.left and self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(argument, *others, **named)
            if name == "fdatasync":
                with open(notes, "a") as file:
                    file.write(f"{path} {os.fstat(argument).st_size}\n")
            elif name == "rename":
                with open(notes, "a") as file:
                    file.write(f"{others[0]} {os.stat(others[0]).st_size}\n")
            if mine and not self.left and self.when == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return called


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    call, when, count = os.environ.get("FAIL_AT", "none:before:0").split(":")
    notes = Path(os.environ["FAIL_NOTES"])
    point = FailPoint(call, when, int(count))
    for name in CALLS:
        setattr(os, name, point.wrap(name, getattr(os, name), notes))
    from daemon.main import main as run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
