"""What `subscribe` and `advertise` of an asyncio client return."""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from grapevine.client import options
from grapevine.client.session import AdvertisementState, AttachmentGap, Message, SubscriptionState
from grapevine.client.waiting import Reader
from grapevine.errors import Closed

if TYPE_CHECKING:
    from grapevine.client.aio import Client

RUN = 1024  # messages of a batch, unless told
TELL = 64  # messages read one by one before the session hears of it


class Subscription:
    """Messages for one filter, in their publishers' order. An asynchronous iterator."""

    def __init__(self, client: Client, state: SubscriptionState, into: Subscription | None) -> None:
        self._client = client
        self._state = state
        self._reader: Reader = Reader(client._loop) if into is None else into._reader

    @property
    def number(self) -> int:
        """As in `Message.subscriptions`."""
        return self._state.number

    @property
    def dropped(self) -> int:
        """Deliveries lost because this client was slow; the broker counts them per client."""
        return self._client.dropped

    @property
    def gaps(self) -> list[AttachmentGap]:
        """Where something may be missing: one entry for every time that the session with the broker was lost
        and the subscription was made anew. Empty: nothing that was settled is missing."""
        return list(self._state.gaps)

    async def next(self, timeout: float | None = None) -> Message | None:
        """The next message, or None if there was none in time."""
        batch = await self.next_batch(1, timeout)
        return batch[0] if batch else None

    async def next_batch(self, most: int = RUN, timeout: float | None = None) -> list[Message]:
        """Up to `most` messages as soon as there is one; an empty list if there was none in time."""
        queue = self._state.queue
        if not queue:
            await self._arrival(timeout)
        if len(queue) <= most:
            batch = list(queue)
            queue.clear()
        else:
            batch = [queue.popleft() for _ in range(most)]
        self._consumed(len(batch))
        return batch

    async def _arrival(self, timeout: float | None) -> None:
        """Until there is a message, or in vain in time."""
        client, state, loop = self._client, self._state, self._client._loop
        deadline = inf if timeout is None else loop.time() + timeout
        while not state.queue:
            if state.withdrawn:
                raise Closed("unsubscribed")
            if client._stopped:
                raise Closed("the client is closed")
            client._engine.check_hope()
            await self._reader.wait(deadline)  # also where there is no time: others must have their turn
            if loop.time() >= deadline:
                return

    def _consumed(self, count: int) -> None:
        session = self._client._session
        session.consumed(count)
        if session.owes_credit:
            self._client._plan_sending()

    async def __aiter__(self) -> AsyncIterator[Message]:
        """One by one: who leaves the loop finds the others later."""
        queue, read = self._state.queue, 0
        try:
            while True:
                if not queue or read == TELL:
                    self._consumed(read)
                    read = 0
                if not queue:
                    await self._arrival(None)
                read += 1
                yield queue.popleft()
        except Closed:
            return
        finally:
            self._consumed(read)

    async def unsubscribe(self, timeout: float | None = options.CONFIRM_S) -> None:
        client = self._client
        request = client._session.unsubscribe(self._state, monotonic(), timeout)
        client._subscriptions.pop(self.number, None)
        self._reader.stop()
        await client._wait(lambda: client._engine.answered(request), None, "")


class Advertisement:
    """What a client has said it will publish."""

    def __init__(self, client: Client, state: AdvertisementState) -> None:
        self._client = client
        self._state = state

    @property
    def number(self) -> int:
        return self._state.number

    async def unadvertise(self, timeout: float | None = options.CONFIRM_S) -> None:
        """Ends it when everything published so far is settled."""
        client = self._client
        request = client._session.unadvertise(self._state, monotonic(), timeout)
        await client._wait(lambda: client._engine.answered(request), None, "")
