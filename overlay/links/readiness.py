"""When this broker serves clients: the overlay says so, once, and who waited for it hears it in order."""

from __future__ import annotations

from collections.abc import Callable

from overlay.core import Core


class Readiness:
    def __init__(self) -> None:
        self.on_ready: list[Callable[[float], None]] = []

    def become_ready(self, core: Core, now: float) -> None:
        if not core.ready:
            core.ready = True
            for call in self.on_ready:
                call(now)
