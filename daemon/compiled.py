"""Which compiled inner loops are missing: Python does their work then, exactly but slower.

A tree that was installed before a source changed keeps the modules of then, which are not used.
"""

from __future__ import annotations

from daemon import packing
from matching import kernel
from overlay.data import runs


def missing() -> list[str]:
    loops = {"matching": kernel.module, "routing": runs.compiled, "frames": packing.compiled}
    return [name for name, module in loops.items() if module is None]
