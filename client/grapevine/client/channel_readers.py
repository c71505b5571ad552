"""What `subscribe_channel` returns, for programs with threads and for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from grapevine.client.session.channels import ChannelSubscriptionState, Result
from grapevine.errors import Closed
from grapevine.wire.channels import next_execution

if TYPE_CHECKING:
    from grapevine.client import aio, sync

RUN = 1024  # results of a batch, unless told


class _Reader:
    _state: ChannelSubscriptionState

    @property
    def channel(self) -> str:
        return self._state.channel

    @property
    def parameters(self) -> dict[str, Any]:
        """As the channel has taken them: defaults filled in, values snapped."""
        return dict(self._state.parameters)

    @property
    def position(self) -> int:
        """Of the last result taken: `subscribe_channel(..., after=position)` goes on from there."""
        return max(self._state.taken, self._state.since)

    @property
    def trouble(self) -> str:
        """Why the channel's executions fail at the moment; empty: they do not."""
        return self._state.trouble

    @property
    def lost(self) -> int:
        """Executions that were no longer kept when this subscriber came back."""
        return self._state.lost

    def _some(self) -> bool:
        if self._state.queue:
            return True
        if self._state.error is not None:
            raise self._state.error
        return False

    def _whole(self) -> bool:
        """Whether all rows of the first execution in the queue are there, or no more will come."""
        if not self._some():
            return False
        state = self._state
        if state.error is not None or next_execution(state.through) > state.queue[0].execution:
            return True
        self._more()
        return False

    def _more(self) -> None:
        raise NotImplementedError

    def _first_execution(self) -> int:
        """How many rows of the queue are of its first execution."""
        queue = self._state.queue
        return sum(result.execution == queue[0].execution for result in queue) if queue else 0


class ChannelSubscription(_Reader):
    """Results of one channel and parameter set, in order. An iterator that never ends by itself."""

    def __init__(self, client: sync.Client, state: ChannelSubscriptionState) -> None:
        self._client = client
        self._state = state

    def next(self, timeout: float | None = None) -> Result | None:
        found = self.next_batch(1, timeout)
        return found[0] if found else None

    def next_batch(self, most: int = RUN, timeout: float | None = None) -> list[Result]:
        """Up to `most` results as soon as there is one; an empty list if there was none in time."""
        client = self._client
        with client._lock:
            client._await(self._some, timeout)
            return self._take(most)

    def next_execution(self, timeout: float | None = None) -> list[Result]:
        """All results of one execution; an empty list if there was none in time."""
        client = self._client
        with client._lock:
            client._await(self._whole, timeout)
            return self._take(self._first_execution()) if self._whole() else []

    def _more(self) -> None:
        client = self._client
        if client._session.channels.more(self._state) and client._sleeping:
            client._wake()

    def _take(self, most: int) -> list[Result]:
        client = self._client
        found = client._session.channels.take(self._state, most)
        if found and client._sleeping:
            client._wake()
        return found

    def __iter__(self) -> Iterator[Result]:
        try:
            while True:
                result = self.next()  # one by one: who leaves the loop has not taken the rest
                if result is not None:
                    yield result
        except Closed:
            return

    def unsubscribe(self) -> None:
        client = self._client
        with client._lock:
            client._session.channels.unsubscribe(self._state)
            client._changed.notify_all()
            if client._sleeping:
                client._wake()


class AsyncChannelSubscription(_Reader):
    """The same for asyncio."""

    def __init__(self, client: aio.Client, state: ChannelSubscriptionState) -> None:
        self._client = client
        self._state = state

    async def next(self, timeout: float | None = None) -> Result | None:
        found = await self.next_batch(1, timeout)
        return found[0] if found else None

    async def next_batch(self, most: int = RUN, timeout: float | None = None) -> list[Result]:
        return self._take(most) if await self._until(self._some, timeout) else []

    async def next_execution(self, timeout: float | None = None) -> list[Result]:
        return self._take(self._first_execution()) if await self._until(self._whole, timeout) else []

    async def _until(self, goal: Any, timeout: float | None) -> bool:
        return await self._client._until(goal, timeout)

    def _more(self) -> None:
        if self._client._session.channels.more(self._state):
            self._client._plan()

    def _take(self, most: int) -> list[Result]:
        found = self._client._session.channels.take(self._state, most)
        if found:
            self._client._plan()
        return found

    async def __aiter__(self) -> AsyncIterator[Result]:
        try:
            while True:
                result = await self.next()
                if result is not None:
                    yield result
        except Closed:
            return

    async def unsubscribe(self) -> None:
        self._client._session.channels.unsubscribe(self._state)
        self._client._plan()


def confirmed(state: ChannelSubscriptionState) -> bool:
    if state.error is not None:
        raise state.error
    return state.confirmed
