"""The client for asyncio: the same engine, turned by the event loop when the socket has something.

No task and no future per message. What is published in one step of the loop leaves in the next as one
batch; a reader that waits gets whole runs of messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

import zmq

from grapevine.client import durable as durables
from grapevine.client import options
from grapevine.client.aio_reading import Advertisement, Subscription
from grapevine.client.channel_readers import AsyncChannelSubscription, confirmed
from grapevine.client.durable import AsyncDurableSubscription
from grapevine.client.engine import Engine
from grapevine.client.groups import AsyncGroupSubscription, Membership, membership, newest
from grapevine.client.options import Brokers, Confirm, Keys, Place, Slow, Until, as_filter
from grapevine.client.requesting import REPLY_S, AsyncRequests
from grapevine.client.session import AttachmentGap, Message
from grapevine.client.session.context import publish_in
from grapevine.client.session.durable import Wanted
from grapevine.errors import Closed, Error, Timeout, Unreachable
from grapevine.filters import Filter, Value

D = TypeVar("D", bound=AsyncDurableSubscription)
TIMER_S = 0.001  # after a deadline: it has passed then, whatever the clock's grain
FEW = 16  # messages read at a time whose acknowledgement waits for a step of the event loop


class connect:
    """`async with connect(...) as client`, or `client = await connect(...)` and `await client.close()`."""

    def __init__(
        self,
        brokers: Brokers,
        name: str | None = None,
        *,
        on_slow: Slow = "drop_oldest",
        publish_window: int = options.PUBLISH_WINDOW,
        receive_window: int = options.RECEIVE_WINDOW,
        keys: Keys = None,
        incarnation: int | None = None,
        place: Place = False,
        location: Sequence[float] | None = None,
        timeout: float = options.CONNECT_S,
    ) -> None:
        self._engine = options.make_engine(
            brokers, name, on_slow, publish_window, receive_window, keys, incarnation, place, location
        )
        self._timeout = timeout
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def _connect(self) -> Client:
        client = self._client = Client(self._engine)
        try:
            await client._wait(self._engine.attached, self._timeout, "no broker")
        except Timeout:
            await client.close(0)
            raise self._engine.error or Unreachable("no broker has answered") from None
        except BaseException:
            await client.close(0)
            raise
        return client

    async def __aenter__(self) -> Client:
        return await self._connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._client is not None
        await self._client.close(options.CLOSE_S if error is None else 0)


class Client:
    """Made by `connect`; belongs to the event loop that it was made in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session = engine.session
        self._loop = asyncio.get_running_loop()
        self._goals: dict[asyncio.Future[bool], Callable[[], bool]] = {}
        self._sources: list[int] = []
        self._planned = False  # a turn comes with the loop's next step
        self._whole = False  # it reads, too
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._subscriptions: dict[int, Subscription] = {}
        self._requests = AsyncRequests(self)
        engine.relinked = self._watch
        self._plan()

    # --- who and where ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._session.name

    @property
    def incarnation(self) -> int:
        return self._session.incarnation

    @property
    def broker(self) -> str:
        """The name of the broker that this client is or was last attached to."""
        return self._session.broker_name

    @property
    def dropped(self) -> int:
        """Deliveries that this client has lost by being slow."""
        return self._session.dropped

    @property
    def partial(self) -> tuple[str, ...]:
        """Brokers that cannot be reached from ours: what is settled did not reach their subscribers, and what
        is confirmed they do not know. Empty: the overlay is whole, as far as anybody knows."""
        return self._session.partial

    @property
    def subscriptions(self) -> dict[int, Subscription]:
        """By number, those whose confirmation timed out included."""
        return dict(self._subscriptions)

    # --- publishing -------------------------------------------------------------------------------

    async def publish(
        self,
        attributes: Mapping[str, Value],
        payload: bytes = b"",
        durable: bool = False,
        sequence: int | None = None,
        context: str | None = None,
    ) -> int:
        """Hands a publication over and returns its sequence number; waits only while the window is full.
        `context` is a traceparent, which subscribers find in `Message.context`."""
        if not self._session.can_publish:
            await self._wait(self._engine.has_room, None, "")
        return self.publish_nowait(attributes, payload, durable, sequence, context)

    def publish_nowait(
        self,
        attributes: Mapping[str, Value],
        payload: bytes = b"",
        durable: bool = False,
        sequence: int | None = None,
        context: str | None = None,
    ) -> int:
        """The same where waiting is impossible; asyncio.QueueFull if the window is full."""
        session = self._session
        if not session.can_publish:
            self._engine.check_open()
            raise asyncio.QueueFull("the publish window is full")
        if context is None:
            number = session.publish(attributes, payload, durable, sequence)
        else:
            number = publish_in(session, context, attributes, payload, durable, sequence)
        if not self._planned:
            self._plan_sending()
        return number

    async def flush(self, timeout: float | None = None, until: Until = "settled") -> None:
        """Returns when everything published so far is `until`; Undelivered names what did not arrive."""
        engine = self._engine
        engine.check_open()
        engine.check_flush(until)
        number, last = self._session.outgoing.appended, self._session.next_sequence - 1
        await self._wait(lambda: engine.flushed(number, until), timeout, f"not {until} in time")
        error = self._session.undelivered(last)
        if error is not None:
            raise error

    async def advertise(
        self,
        filter: str | Filter,
        timeout: float | None = options.CONFIRM_S,
        confirm: Confirm = "confirmed",
    ) -> Advertisement:
        state = self._session.advertise(as_filter(filter), monotonic(), timeout, confirm)
        await self._wait(lambda: self._engine.answered(state.request), None, "")
        return Advertisement(self, state)

    # --- subscribing ------------------------------------------------------------------------------

    @overload
    async def subscribe(
        self,
        filter: str | Filter,
        timeout: float | None = ...,
        confirm: Confirm = ...,
        into: Subscription | None = ...,
    ) -> Subscription: ...
    @overload
    async def subscribe(
        self, filter: str | Filter | None, timeout: float | None = ..., *, durable: str, **more: Any
    ) -> AsyncDurableSubscription: ...
    @overload
    async def subscribe(
        self, filter: str | Filter | None, timeout: float | None = ..., *, group: str, **more: Any
    ) -> AsyncGroupSubscription: ...
    @overload
    async def subscribe(
        self, filter: str | Filter, timeout: float | None = ..., *, last: Literal[True]
    ) -> AsyncGroupSubscription: ...
    async def subscribe(
        self,
        filter: str | Filter | None,
        timeout: float | None = options.CONFIRM_S,
        confirm: Confirm = "confirmed",
        into: Subscription | None = None,
        on_gap: Callable[[AttachmentGap], object] | None = None,
        durable: str | None = None,
        group: str | None = None,
        last: bool = False,
        **more: Any,
    ) -> Subscription | AsyncDurableSubscription:
        """Returns when every broker that must know knows, or, with confirm="local", when the first does.

        With `into`, another subscription of this client, both are read from one queue, which has once what
        both want; `Message.subscriptions` says who wanted it. `on_gap` is called, by whoever does the
        client's input and output, when something may have been missed (`Subscription.gaps`).

        With `durable`, a name, see `subscribe_durable`; with `group`, a name, each message goes to one member
        of that group, and takes the options of a durable subscription; with `last`, the newest message of
        each key that a stream keeps, then what is new."""
        if durable is not None:
            return await self.subscribe_durable(filter, durable, timeout, **more)
        if group is not None or last:
            engine = self._engine
            member = newest(engine, filter) if group is None else membership(engine, group, filter, more)
            return await Client(member.engine)._join(member, timeout)
        if filter is None or more:
            raise TypeError(f"only a durable subscription has {', '.join(more) or 'no filter'}")
        shared = None if into is None else into._state
        state = self._session.subscribe(as_filter(filter), monotonic(), timeout, confirm, shared)
        state.on_gap = on_gap
        subscription = self._subscriptions[state.number] = Subscription(self, state, into)
        try:
            await self._wait(lambda: self._engine.answered(state.request), None, "")
        except BaseException:
            if state.withdrawn:
                del self._subscriptions[state.number]
            raise
        return subscription

    async def subscribe_durable(
        self,
        filter: str | Filter | None,
        durable: str,
        timeout: float | None = options.CONFIRM_S,
        **options_of_it: Any,
    ) -> AsyncDurableSubscription:
        """What matches is kept under this name by the broker that this client is attached to, whether the
        client is there or not, until it is acknowledged. Without a filter: a cursor of the stream `stream`.
        Options: stream, start, ack, ack_wait_s, in_flight, max_deliver, expires_s, fresh."""
        wanted = durables.wanted(durable, None if filter is None else as_filter(filter), **options_of_it)
        return await self._open(AsyncDurableSubscription, wanted, timeout)

    async def _open(self, kind: type[D], wanted: Wanted, timeout: float | None) -> D:
        durables.check_journal(self._session.journal, self._session.broker_name)
        reader = self._session.durables.open(wanted)
        subscription = kind(self, reader)
        try:
            await self._wait(lambda: durables.opened(reader), timeout, "not confirmed in time")
        except BaseException:
            self._session.durables.close(reader)
            raise
        return subscription

    async def _join(self, member: Membership, timeout: float | None) -> AsyncGroupSubscription:
        """This client is a member's own."""
        try:
            await self._wait(self._engine.attached, timeout, "no broker")
            return await self._open(AsyncGroupSubscription, member.wanted, timeout)
        except BaseException:
            await self.close(0)
            raise

    async def request(
        self, attributes: Mapping[str, Value], payload: bytes = b"", timeout: float = REPLY_S
    ) -> Message:
        """As the blocking client's."""
        return await self._requests.request(attributes, payload, timeout)

    async def subscribe_channel(
        self,
        channel: str,
        parameters: Mapping[str, object] | None = None,
        after: int | None = None,
        timeout: float | None = options.CONFIRM_S,
    ) -> AsyncChannelSubscription:
        """As the blocking client's."""
        self._engine.check_open()
        state = self._session.channels.subscribe(channel, parameters or {}, after, monotonic(), timeout)
        self._plan()
        await self._wait(lambda: confirmed(state), None, "")
        return AsyncChannelSubscription(self, state)

    # --- end --------------------------------------------------------------------------------------

    async def close(self, timeout: float = options.CLOSE_S) -> None:
        """Leaves when the broker has accepted everything published; Timeout if it has not in time."""
        if self._stopped:
            return
        late: Error | None = None
        number = self._session.outgoing.appended
        try:
            if timeout > 0:
                await self._wait(
                    lambda: self._engine.flushed(number, "accepted"), timeout, "not accepted in time"
                )
        except Error as error:
            late = error
        finally:
            self._stop()
        if late is not None and not isinstance(late, Closed):
            raise late

    def _stop(self) -> None:
        self._stopped = True
        self._unwatch()
        self._engine.relinked = lambda: None
        self._engine.close()
        if self._timer is not None:
            self._timer.cancel()
        for subscription in self._subscriptions.values():
            subscription._reader.stop()
        self._reached()

    # --- waiting ----------------------------------------------------------------------------------

    async def _wait(self, goal: Callable[[], bool], timeout: float | None, complaint: str) -> None:
        if not await self._until(goal, timeout):
            raise Timeout(complaint)

    async def _until(self, goal: Callable[[], bool], timeout: float | None) -> bool:
        """Whether `goal` became true in time; looked at after every turn."""
        if goal():
            return True
        if self._stopped:
            raise Closed("the client is closed")
        future: asyncio.Future[bool] = self._loop.create_future()
        self._goals[future] = goal
        self._plan_sending()
        timer = None if timeout is None else self._loop.call_later(timeout, _expire, future)
        try:
            return await future
        finally:
            del self._goals[future]
            if timer is not None:
                timer.cancel()

    def _reached(self) -> None:
        for future, goal in list(self._goals.items()):
            if future.done():
                continue
            try:
                if goal():
                    future.set_result(True)
                elif self._stopped:
                    future.set_exception(Closed("the client is closed"))
            except Error as error:
                future.set_exception(error)

    def _wake_readers(self) -> None:
        touched = self._session.incoming.touched
        for state in touched:
            if (subscription := self._subscriptions.get(state.number)) is not None:
                subscription._reader.wake()
        touched.clear()

    # --- the loop ---------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Something may have to be done: all of it with the loop's next step."""
        self._whole = True
        self._plan_sending()

    def _plan_sending(self) -> None:
        if not self._planned and not self._stopped:
            self._planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Send, then read: readers that got a few messages have run by now, and what they published, a reply
        for example, leaves with the acknowledgement or before it."""
        self._planned = False
        if self._stopped:
            return
        self._engine.flush()
        # The socket's descriptor tells of changes only: what is there now must be read now.
        if self._whole or self._readable():
            self._read()
        else:
            self._set_timer()

    def _hear(self) -> None:
        """The socket has something."""
        if self._planned:
            self._whole = True
        else:
            self._read()

    def _read(self) -> None:
        self._whole = False
        engine, incoming = self._engine, self._session.incoming
        taken = incoming.taken
        more = engine.read()
        if incoming.touched:
            self._wake_readers()
        if engine.hopeless:
            for subscription in self._subscriptions.values():
                subscription._reader.wake()
        if self._goals:
            self._reached()
        if not 0 < incoming.taken - taken <= FEW:
            engine.flush()
            more = more or self._readable()
        elif not more:
            self._plan_sending()
            return
        if more:
            self._plan()
        else:
            self._set_timer()

    def _readable(self) -> bool:
        links = self._engine.links()
        return any(int(link.socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN for link in links)

    def _set_timer(self) -> None:
        """One that goes off too early does no harm: the next one is set then."""
        deadline = self._engine.next_deadline()
        if deadline is None:
            return
        if self._timer is not None:
            if self._timer.when() <= deadline + TIMER_S:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(max(deadline, monotonic()) + TIMER_S, self._late)

    def _late(self) -> None:
        self._timer = None
        self._plan()

    def _watch(self) -> None:
        """The engine has another link."""
        self._unwatch()
        for link in self._engine.links():
            self._sources += [int(link.socket.fd), int(link.monitor.fd)]
            self._loop.add_reader(self._sources[-2], self._hear)
            self._loop.add_reader(self._sources[-1], self._listen)
        if self._sources:
            self._listen()

    def _listen(self) -> None:
        self._engine.rumour = True
        self._plan()

    def _unwatch(self) -> None:
        for source in self._sources:
            self._loop.remove_reader(source)
        self._sources = []


def _expire(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)
