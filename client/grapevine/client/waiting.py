"""Tasks that wait for messages of one subscription, for asyncio.

A client may have hundreds of waiting readers, and each waits again after every few messages. So nobody asks
all of them whether they have something: whoever filled a queue wakes its readers. And a wait arms no timer of
its own: the one that the subscription has goes off early if need be, looks at the time and is set again.
"""

from __future__ import annotations

import asyncio
from math import inf


class Reader:
    """Who is woken looks whether it was for him, and waits again if not."""

    __slots__ = ("_deadline", "_loop", "_timer", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[None]] = []
        self._deadline = inf  # the first one of those who wait
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, deadline: float) -> None:
        """Until somebody calls `wake`, or the loop's time is `deadline`."""
        self._deadline = min(deadline, self._deadline) if self._waiting else deadline
        if deadline < inf and (self._timer is None or deadline < self._timer.when()):
            self._arm(deadline)
        future = self._loop.create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:  # it was cancelled
                self._waiting.remove(future)

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def stop(self) -> None:
        """The last call: no timer outlives the subscription."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wake()

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._late)

    def _late(self) -> None:
        self._timer = None
        if not self._waiting or self._deadline == inf:
            return
        if self._loop.time() < self._deadline:
            self._arm(self._deadline)
        else:
            self.wake()
