"""Server-Sent Events: every message is encoded once and kept in a ring, readers follow it by its number.

A reader that comes back with `Last-Event-ID` goes on after it, if the ring still has what follows; else, and
at first, it gets what is known now: hello, the overlay, a whole pulse, the latest events.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

import msgspec

from tools.web.model import Event, Hello, Overlay, Pulse, SourceState

KEPT = 600
QUIET_S = 15.0  # a comment keeps proxies from ending a silent stream
STREAMS_MAX = 8
NAMES: dict[type, str] = {Hello: "hello", Overlay: "overlay", Pulse: "pulse", Event: "event"}
NAMES |= {SourceState: "source"}
BYE = b"event: bye\ndata: {}\n\n"


def encoded(document: object, number: int) -> bytes:
    data = msgspec.json.encode(document)
    return b"event: %b\nid: %d\ndata: %b\n\n" % (NAMES[type(document)].encode(), number, data)


class Stream:
    def __init__(self) -> None:
        self.last = 0
        self.readers = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._news = asyncio.Event()
        self._over = False

    def tell(self, documents: list[object]) -> None:
        for document in documents:
            self.last += 1
            self._kept.append((self.last, encoded(document, self.last)))
        if documents:
            self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def end(self) -> None:
        self._over = True
        self._wake()

    def after(self, number: int) -> list[tuple[int, bytes]] | None:
        """What follows, or None if some of it is gone."""
        if number > self.last or (number < self.last and (not self._kept or self._kept[0][0] > number + 1)):
            return None
        return [pair for pair in self._kept if pair[0] > number]

    async def read(
        self, since: int | None, snapshot: Callable[[], list[object]]
    ) -> AsyncGenerator[bytes, None]:
        self.readers += 1
        try:
            at = self.last
            yield b"retry: 1000\n\n"
            first = snapshot()
            missed = self.after(since) if since is not None else None
            if missed is not None and since is not None:
                yield encoded(first[0], since)  # hello: the session may be another one
                at = since
            else:
                for document in first:
                    yield encoded(document, at)
            while not self._over:
                news = self._news
                ready = self.after(at)
                if ready is None:  # too slow a reader: it begins anew
                    at = self.last
                    for document in snapshot()[1:]:
                        yield encoded(document, at)
                    continue
                if ready:
                    at = ready[-1][0]
                    yield b"".join(data for _, data in ready)
                    continue
                try:
                    await asyncio.wait_for(news.wait(), QUIET_S)
                except TimeoutError:
                    yield b": quiet\n\n"
            yield BYE
        finally:
            self.readers -= 1
