"""Whether this tree's broker has its compiled inner loops: figures without them are of another broker.

A tree that was installed before a source changed keeps the modules of then, and Python does their work.
"""

from __future__ import annotations

from bench.running import say
from matching import kernel
from overlay.tree import runs


def compiled() -> bool:
    return kernel.module is not None and runs.compiled is not None


def say_if_not() -> None:
    if not compiled():
        say("the compiled loops are missing or older than this tree, Python does their work: install again")
