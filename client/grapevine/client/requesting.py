"""`client.request` and `message.reply` for the two shells."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

from grapevine.client.session import Message
from grapevine.client.session.inbox import Inbox
from grapevine.filters import Value

if TYPE_CHECKING:
    from grapevine.client import aio, aio_reading, sync
    from grapevine.client.reading import Subscription

REPLY_S = 5.0


class Requests:
    """Of a blocking client."""

    def __init__(self, client: sync.Client) -> None:
        self._client = client
        self._inbox = Inbox(client._session)
        self._replies: Subscription | None = None
        client._session.incoming.names.reply = self.reply

    def request(self, attributes: Mapping[str, Value], payload: bytes, timeout: float) -> Message:
        client, inbox, end = self._client, self._inbox, monotonic() + timeout
        if self._replies is None:
            self._replies = client.subscribe(inbox.filter, timeout)
        queue = self._replies._state.queue
        with client._lock:
            client._wait_locked(client._engine.has_room, end - monotonic(), "no room to publish in time")
            number, sequence = inbox.ask(attributes, payload)

            def answered() -> bool:
                client._session.consumed(inbox.sort(queue))
                return inbox.answered(number, sequence)

            try:
                client._wait_locked(answered, end - monotonic(), f"no reply within {timeout:g} s")
                reply = inbox.waiting[number]
            finally:
                del inbox.waiting[number]
        assert reply is not None
        return reply

    def reply(self, message: Message, attributes: Mapping[str, Value], payload: bytes) -> int:
        with self._client._lock:
            answer = self._inbox.reply(message, attributes)
        return self._client.publish(answer, payload)


class AsyncRequests:
    """Of an asyncio client."""

    def __init__(self, client: aio.Client) -> None:
        self._client = client
        self._inbox = Inbox(client._session)
        self._replies: aio_reading.Subscription | None = None
        client._session.incoming.names.reply = self.reply

    async def request(self, attributes: Mapping[str, Value], payload: bytes, timeout: float) -> Message:
        client, inbox, end = self._client, self._inbox, monotonic() + timeout
        if self._replies is None:
            self._replies = await client.subscribe(inbox.filter, timeout)
        queue = self._replies._state.queue
        await client._wait(client._engine.has_room, end - monotonic(), "no room to publish in time")
        number, sequence = inbox.ask(attributes, payload)

        def answered() -> bool:
            client._session.consumed(inbox.sort(queue))
            return inbox.answered(number, sequence)

        try:
            await client._wait(answered, end - monotonic(), f"no reply within {timeout:g} s")
            reply = inbox.waiting[number]
        finally:
            del inbox.waiting[number]
        assert reply is not None
        return reply

    async def reply(self, message: Message, attributes: Mapping[str, Value], payload: bytes) -> int:
        return await self._client.publish(self._inbox.reply(message, attributes), payload)
