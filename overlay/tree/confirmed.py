"""Since when the subscriptions of the clients here count: from their confirmation.

What was accepted before is not owed to them. As elsewhere the broker's serial numbers tell which was first.
Of those that have counted for long only the number is known that they were made with.
"""

from __future__ import annotations

from overlay.core import Core
from overlay.data.client import Key
from overlay.gather import Gather

KEPT = 4_096
NOT_YET = 1 << 64


class ConfirmedSince:
    def __init__(self) -> None:
        self._since: dict[Key, int] = {}  # of the newest

    def attach(self, core: Core) -> None:
        self.core = core

    def await_confirmation(self, key: Key, gather: Gather) -> None:
        self._since[key] = NOT_YET
        if len(self._since) > KEPT:
            del self._since[next(iter(self._since))]
        gather.first(lambda: self._confirmed(key))

    def _confirmed(self, key: Key) -> None:
        if key in self._since:
            self._since[key] = self.core.serial()

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)

    def before(self, key: Key, when: int) -> bool:
        return self._since.get(key, key[1]) < when
