"""Durable subscriptions for the two shells: an iterator over what a broker keeps for this name.

Messages come until they are acknowledged. With ack="auto" asking for the next one acknowledges those before;
a Gap stands for offsets that nobody will get, and is never left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Literal

from grapevine.client.session.durable import DurableMessage, DurableReader, Item, Wanted, start_of
from grapevine.errors import Closed, Error, NotAllowed, Timeout
from grapevine.filters.normal import Filter

if TYPE_CHECKING:
    from grapevine.client import aio, sync

Ack = Literal["auto", "explicit", "cumulative"]
CLOSE_S = 5.0


def wanted(
    name: str,
    filter: Filter | None,
    stream: str = "",
    start: object = "new",
    ack: Ack = "auto",
    ack_wait_s: float = 30.0,
    in_flight: int = 1_000,
    max_deliver: int | None = None,
    expires_s: float = 604_800.0,
    fresh: bool = False,
) -> Wanted:
    if not name:
        raise ValueError("a durable subscription needs a name")
    if ack not in ("auto", "explicit", "cumulative"):
        raise ValueError(f"ack={ack!r} is none of auto, explicit, cumulative")
    begin, at = start_of(start)
    limits = (ack_wait_s, in_flight, max_deliver or 0, expires_s, fresh)
    return Wanted(name, filter, stream, begin, at, ack, *limits)


class _Reading:
    """What the two shells share."""

    _reader: DurableReader
    _given: list[DurableMessage]

    @property
    def name(self) -> str:
        return self._reader.wanted.name

    @property
    def stream(self) -> str:
        """The name of the stream that it reads."""
        return self._reader.stream

    @property
    def home(self) -> str:
        """The broker that keeps it."""
        return self._reader.home

    def _take(self, most: int) -> list[Item]:
        queue = self._reader.queue
        return [queue.popleft() for _ in range(min(most, len(queue)))]

    def _acknowledge_given(self) -> None:
        if self._reader.wanted.ack == "auto":
            given, self._given = self._given, []
            for message in given:
                message.ack()

    def _note(self, batch: list[Item]) -> list[Item]:
        if self._reader.wanted.ack == "auto":
            self._given += [item for item in batch if isinstance(item, DurableMessage)]
        return batch


def opened(reader: DurableReader) -> bool:
    if reader.error is not None:
        raise reader.error
    return reader.opened


def check_journal(has: bool, broker: str) -> None:
    if not has:
        raise NotAllowed(f"the broker {broker} keeps no journal: nothing is durable there")


class DurableSubscription(_Reading):
    """For `grapevine.connect`. Made by `subscribe(..., durable=name)`."""

    def __init__(self, client: sync.Client, reader: DurableReader) -> None:
        self._client = client
        self._reader = reader
        self._given = []
        reader.wake = self._wake

    def _wake(self) -> None:
        if self._client._sleeping:
            self._client._wake()

    def next(self, timeout: float | None = None) -> Item | None:
        """The next message or Gap, or None if there was none in time."""
        batch = self.next_batch(1, timeout)
        return batch[0] if batch else None

    def next_batch(self, most: int = 1_000, timeout: float | None = None) -> list[Item]:
        client = self._client
        with client._lock:
            self._acknowledge_given()
            if client._sleeping:
                client._wake()
            if not self._reader.queue:
                client._await(self._some, timeout)
            batch = self._take(most)
        return self._note(batch)

    def _some(self) -> bool:
        if self._reader.error is not None:
            raise self._reader.error
        if self._reader.ended and not self._reader.queue:
            raise Closed("the durable subscription is closed")
        return bool(self._reader.queue)

    def __iter__(self) -> Iterator[Item]:
        try:
            while True:
                item = self.next()
                if item is not None:
                    yield item
        except Closed:
            return

    def flush(self, timeout: float | None = None) -> None:
        """Everything acknowledged so far has left."""
        client = self._client
        with client._lock:
            self._acknowledge_given()
            client._wait_locked(lambda: not self._reader.owes, timeout, "not acknowledged in time")

    def close(self) -> None:
        """Stop reading; the broker goes on keeping, and whoever comes under this name goes on from here."""
        try:
            self.flush(CLOSE_S)
        except Error:
            pass  # what is not acknowledged comes again
        with self._client._lock:
            self._reader.ended = True
            self._client._session.durables.close(self._reader)

    def unsubscribe(self, timeout: float | None = 10.0) -> None:
        """The broker forgets it, and what it keeps for it."""
        client = self._client
        with client._lock:
            self._acknowledge_given()
            client._session.say(self._reader.end())
            client._wait_locked(lambda: not self._reader.asking, timeout, "not forgotten in time")
            client._session.durables.close(self._reader)


class AsyncDurableSubscription(_Reading):
    """For `grapevine.aio.connect`; the same names."""

    def __init__(self, client: aio.Client, reader: DurableReader) -> None:
        self._client = client
        self._reader = reader
        self._given = []
        reader.wake = client._plan

    async def next(self, timeout: float | None = None) -> Item | None:
        batch = await self.next_batch(1, timeout)
        return batch[0] if batch else None

    async def next_batch(self, most: int = 1_000, timeout: float | None = None) -> list[Item]:
        self._acknowledge_given()
        if not self._reader.queue:
            end = None if timeout is None else monotonic() + timeout
            await self._client._until(self._some, None if end is None else max(end - monotonic(), 0.0))
        return self._note(self._take(most))

    def _some(self) -> bool:
        if self._reader.error is not None:
            raise self._reader.error
        if self._reader.ended and not self._reader.queue:
            raise Closed("the durable subscription is closed")
        return bool(self._reader.queue)

    async def __aiter__(self) -> AsyncIterator[Item]:
        try:
            while True:
                item = await self.next()
                if item is not None:
                    yield item
        except Closed:
            return

    async def flush(self, timeout: float | None = None) -> None:
        self._acknowledge_given()
        await self._client._wait(lambda: not self._reader.owes, timeout, "not acknowledged in time")

    async def close(self) -> None:
        try:
            await self.flush(CLOSE_S)
        except (Timeout, Closed):
            pass  # what is not acknowledged comes again
        self._reader.ended = True
        self._client._session.durables.close(self._reader)

    async def unsubscribe(self, timeout: float | None = 10.0) -> None:
        self._acknowledge_given()
        self._client._session.say(self._reader.end())
        await self._client._wait(lambda: not self._reader.asking, timeout, "not forgotten in time")
        self._client._session.durables.close(self._reader)
