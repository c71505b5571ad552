"""Seconds since 1970 that never go back: the wall clock at the start plus what passed since."""

from __future__ import annotations

import time


class Clock:
    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset
