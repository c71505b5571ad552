"""The compiled inner loops if they were built, else None.

Whoever uses them asks for `module` each time and has the same in Python beside it, so that a test can take
the module away and compare.
"""

from __future__ import annotations

from types import ModuleType

module: ModuleType | None
try:
    from matching import _kernel

    # One built from an older source would read the rows of bits the other way round.
    module = _kernel if hasattr(_kernel, "fallen") else None
except ImportError:
    module = None
