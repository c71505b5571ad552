"""What `subscribe` and `advertise` of a blocking client return."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING

from grapevine.client import options
from grapevine.client.session import AdvertisementState, AttachmentGap, Message, SubscriptionState
from grapevine.errors import Closed

if TYPE_CHECKING:
    from grapevine.client.sync import Client

RUN = 1024  # messages that an iterator takes at a time
TELL = 64  # messages read one by one before the session hears of it


class Subscription:
    """Messages for one filter, in their publishers' order. An iterator that never ends by itself."""

    def __init__(self, client: Client, state: SubscriptionState) -> None:
        self._client = client
        self._state = state
        self._read = 0  # one by one, not yet told

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

    def next(self, timeout: float | None = None) -> Message | None:
        """The next message, or None if there was none in time."""
        try:
            message = self._state.queue.popleft()
        except IndexError:
            batch = self.next_batch(1, timeout)
            return batch[0] if batch else None
        self._read += 1
        if self._read >= TELL:
            with self._client._lock:
                self._tell(0)
        return message

    def next_batch(self, most: int = RUN, timeout: float | None = None) -> list[Message]:
        """Up to `most` messages as soon as there is one; an empty list if there was none in time."""
        queue = self._state.queue
        client = self._client
        with client._lock:
            self._tell(0)
            if not queue:
                client._await(self._some, timeout)
            if len(queue) <= most:
                batch = list(queue)
                queue.clear()
            else:
                batch = [queue.popleft() for _ in range(most)]
            self._tell(len(batch))
        return batch

    def _some(self) -> bool:
        if self._state.withdrawn and not self._state.queue:
            raise Closed("unsubscribed")
        if not self._state.queue:
            self._client._engine.check_hope()
        return bool(self._state.queue)

    def _tell(self, count: int) -> None:
        """The session learns what was read, and the broker of it if it waits for that."""
        count += self._read
        self._read = 0
        if count:
            client = self._client
            client._session.consumed(count)
            if client._sleeping and client._session.owes_credit:
                client._wake()

    def __iter__(self) -> Iterator[Message]:
        try:
            while True:
                rest = iter(self.next_batch(RUN))
                try:
                    yield from rest
                finally:
                    self._put_back(list(rest))
        except Closed:
            return

    def _put_back(self, messages: list[Message]) -> None:
        """Who leaves a loop finds the others later. Without the lock: that may be when it is collected."""
        if messages:
            self._state.queue.extendleft(reversed(messages))
            self._client._session.consumed(-len(messages))

    def unsubscribe(self, timeout: float | None = options.CONFIRM_S) -> None:
        client = self._client
        with client._lock:
            request = client._session.unsubscribe(self._state, monotonic(), timeout)
            client._subscriptions.pop(self.number, None)
            client._changed.notify_all()
            client._wait_locked(lambda: client._engine.answered(request), None, "")


class Advertisement:
    """What a client has said it will publish."""

    def __init__(self, client: Client, state: AdvertisementState) -> None:
        self._client = client
        self._state = state

    @property
    def number(self) -> int:
        return self._state.number

    def unadvertise(self, timeout: float | None = options.CONFIRM_S) -> None:
        """Ends it when everything published so far is settled."""
        client = self._client
        with client._lock:
            request = client._session.unadvertise(self._state, monotonic(), timeout)
            client._wait_locked(lambda: client._engine.answered(request), None, "")
