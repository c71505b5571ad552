"""Whether this tree's broker has its compiled inner loops: figures without them are of another broker."""

from __future__ import annotations

from bench.running import say
from daemon.compiled import missing


def compiled() -> bool:
    return not missing()


def say_if_not() -> None:
    if not compiled():
        say("the compiled loops are missing or older than this tree, Python does their work: install again")
