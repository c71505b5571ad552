"""The compiled inner loops if they were built, else None.

Whoever uses them asks for `module` each time and has the same in Python beside it, so that a test can take
the module away and compare.
"""

from __future__ import annotations

from types import ModuleType

module: ModuleType | None
try:
    from matching import _kernel

    # One built from an older source would fail in the middle of a match.
    module = _kernel if hasattr(_kernel, "pieces") and hasattr(_kernel, "sids") else None
except ImportError:
    module = None
