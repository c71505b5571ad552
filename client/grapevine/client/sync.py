"""The client for programs with threads or with none: one I/O thread, and calls that block.

The I/O thread owns the sockets; the session belongs to who holds the lock. A call that leaves something
to send wakes that thread only if it sleeps, so a batch is whatever gathered while it was busy, and no
publication costs a system call. Readers take whole runs of messages at a time.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

import zmq

from grapevine.client import durable as durables
from grapevine.client import options
from grapevine.client.channel_readers import ChannelSubscription, confirmed
from grapevine.client.durable import DurableSubscription
from grapevine.client.engine import Engine
from grapevine.client.groups import GroupSubscription, Membership, membership, newest
from grapevine.client.options import Brokers, Confirm, Keys, Place, Slow, Until, as_filter
from grapevine.client.reading import RUN, Advertisement, Subscription
from grapevine.client.requesting import REPLY_S, Requests
from grapevine.client.session import AttachmentGap, Message
from grapevine.client.session.context import publish_in
from grapevine.client.session.durable import Wanted
from grapevine.client.session.packed import append_packed
from grapevine.errors import Closed, Error, Timeout, Unreachable
from grapevine.filters import Filter, Value
from grapevine.wire.channels import DriverAnswer

D = TypeVar("D", bound=DurableSubscription)
SLEEP_MOST_S = 60.0


def connect(
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
) -> Client:
    """A client attached to one of the brokers, tried in order. `keys` is a keys directory (the user's own
    if None), or False for a wire without encryption. With `place` a coordinator chooses the broker: True for
    its own rule, "nearest" to `location` (latitude, longitude), "round_robin" or "random"."""
    said = (brokers, name, on_slow, publish_window, receive_window, keys, incarnation, place, location)
    engine = options.make_engine(*said)
    client = Client(engine)
    try:
        client._wait(engine.attached, timeout, "no broker")
    except Timeout:
        client.close(0)
        raise engine.error or Unreachable("no broker has answered") from None
    except BaseException:
        client.close(0)
        raise
    return client


class Client:
    """Made by `connect`. Every method may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session = engine.session
        self._outgoing = engine.session.outgoing
        self._publish = engine.session.publish
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._sleeping = False
        self._stopped = False
        self._failure: BaseException | None = None
        self._bell, self._ear = socket.socketpair()
        self._ear.setblocking(False)
        self._subscriptions: dict[int, Subscription] = {}
        self._requests = Requests(self)
        self._thread = threading.Thread(target=self._run, name=f"grapevine {self.name}", daemon=True)
        self._thread.start()

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

    def publish(
        self,
        attributes: Mapping[str, Value],
        payload: bytes = b"",
        durable: bool = False,
        sequence: int | None = None,
        context: str | None = None,
    ) -> int:
        """Hands a publication over and returns its sequence number; blocks while the window is full.
        `context` is a traceparent, which subscribers find in `Message.context`."""
        self._lock.acquire()  # half the price of `with`, and this is paid per publication
        try:
            outgoing = self._outgoing
            if outgoing.appended >= outgoing.bound:
                self._wait_locked(self._engine.has_room, None, "")
            if context is None:
                number = self._publish(attributes, payload, durable, sequence)
            else:
                number = publish_in(self._session, context, attributes, payload, durable, sequence)
            if self._sleeping:
                self._wake()
            return number
        finally:
            self._lock.release()

    def publish_packed(self, rows: Sequence[tuple[bytes, bytes]], sequence: int) -> None:
        """For feeders: (packed attributes, payload) under the one advertisement of this client, with sequence
        numbers from `sequence` on; blocks while the window is full."""
        done = 0
        while done < len(rows):
            with self._lock:
                if self._session.outgoing.full:
                    self._wait_locked(self._engine.has_room, None, "")
                done += append_packed(self._session, rows[done : done + RUN], sequence + done)
                if self._sleeping:
                    self._wake()

    def flush(self, timeout: float | None = None, until: Until = "settled") -> None:
        """Returns when everything published so far is `until`; Undelivered names what did not arrive."""
        engine = self._engine
        with self._lock:
            engine.check_open()
            engine.check_flush(until)
            number, last = self._session.outgoing.appended, self._session.next_sequence - 1
            self._wait_locked(lambda: engine.flushed(number, until), timeout, f"not {until} in time")
            error = self._session.undelivered(last)
        if error is not None:
            raise error

    def advertise(
        self,
        filter: str | Filter,
        timeout: float | None = options.CONFIRM_S,
        confirm: Confirm = "confirmed",
    ) -> Advertisement:
        form = as_filter(filter)
        with self._lock:
            state = self._session.advertise(form, monotonic(), timeout, confirm)
            self._wait_locked(lambda: self._engine.answered(state.request), None, "")
        return Advertisement(self, state)

    # --- subscribing ------------------------------------------------------------------------------

    @overload
    def subscribe(
        self,
        filter: str | Filter,
        timeout: float | None = ...,
        confirm: Confirm = ...,
        into: Subscription | None = ...,
    ) -> Subscription: ...
    @overload
    def subscribe(
        self, filter: str | Filter | None, timeout: float | None = ..., *, durable: str, **more: Any
    ) -> DurableSubscription: ...
    @overload
    def subscribe(
        self, filter: str | Filter | None, timeout: float | None = ..., *, group: str, **more: Any
    ) -> GroupSubscription: ...
    @overload
    def subscribe(
        self, filter: str | Filter, timeout: float | None = ..., *, last: Literal[True]
    ) -> GroupSubscription: ...
    def subscribe(
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
    ) -> Subscription | DurableSubscription:
        """Returns when every broker that must know knows, or, with confirm="local", when the first does.

        With `into`, another subscription of this client, both are read from one queue, which has once what
        both want; `Message.subscriptions` says who wanted it. `on_gap` is called, by whoever does the
        client's input and output, when something may have been missed (`Subscription.gaps`).

        With `durable`, a name, see `subscribe_durable`; with `group`, a name, each message goes to one member
        of that group, and takes the options of a durable subscription; with `last`, the newest message of
        each key that a stream keeps, then what is new."""
        if durable is not None:
            return self.subscribe_durable(filter, durable, timeout, **more)
        if group is not None or last:
            engine = self._engine
            member = newest(engine, filter) if group is None else membership(engine, group, filter, more)
            return Client(member.engine)._join(member, timeout)
        if filter is None or more:
            raise TypeError(f"only a durable subscription has {', '.join(more) or 'no filter'}")
        form, shared = as_filter(filter), None if into is None else into._state
        with self._lock:
            state = self._session.subscribe(form, monotonic(), timeout, confirm, shared)
            state.on_gap = on_gap
            subscription = self._subscriptions[state.number] = Subscription(self, state)
            try:
                self._wait_locked(lambda: self._engine.answered(state.request), None, "")
            except BaseException:
                if state.withdrawn:
                    del self._subscriptions[state.number]
                raise
        return subscription

    def subscribe_durable(
        self,
        filter: str | Filter | None,
        durable: str,
        timeout: float | None = options.CONFIRM_S,
        **options_of_it: Any,
    ) -> DurableSubscription:
        """What matches is kept under this name by the broker that this client is attached to, whether the
        client is there or not, until it is acknowledged. Without a filter: a cursor of the stream `stream`.
        Options: stream, start, ack, ack_wait_s, in_flight, max_deliver, expires_s, fresh."""
        wanted = durables.wanted(durable, None if filter is None else as_filter(filter), **options_of_it)
        return self._open(DurableSubscription, wanted, timeout)

    def _open(self, kind: type[D], wanted: Wanted, timeout: float | None) -> D:
        with self._lock:
            durables.check_journal(self._session.journal, self._session.broker_name)
            reader = self._session.durables.open(wanted)
            subscription = kind(self, reader)
            try:
                self._wait_locked(lambda: durables.opened(reader), timeout, "not confirmed in time")
            except BaseException:
                self._session.durables.close(reader)
                raise
        return subscription

    def _join(self, member: Membership, timeout: float | None) -> GroupSubscription:
        """This client is a member's own."""
        try:
            self._wait(self._engine.attached, timeout, "no broker")
            return self._open(GroupSubscription, member.wanted, timeout)
        except BaseException:
            self.close(0)
            raise

    def request(
        self, attributes: Mapping[str, Value], payload: bytes = b"", timeout: float = REPLY_S
    ) -> Message:
        """Publish a request and return the first reply. NoResponders, at once, if nobody has subscribed to
        it; Timeout if nobody has answered in time."""
        return self._requests.request(attributes, payload, timeout)

    def subscribe_channel(
        self,
        channel: str,
        parameters: Mapping[str, object] | None = None,
        after: int | None = None,
        timeout: float | None = options.CONFIRM_S,
    ) -> ChannelSubscription:
        """Results of a channel for these parameters, from the next execution on, or after a position of an
        earlier `Result`. A client with a name of its own goes on where it was when it comes back."""
        with self._lock:
            self._engine.check_open()
            channels = self._session.channels
            state = channels.subscribe(channel, parameters or {}, after, monotonic(), timeout)
            self._wait_locked(lambda: confirmed(state), None, "")
        return ChannelSubscription(self, state)

    def ask_back_end(self, verb: str, body: bytes, timeout: float | None = 30.0) -> DriverAnswer:
        """For the driver of channels: a question to the back end that this client is attached to."""
        with self._lock:
            self._engine.check_open()
            ask = self._session.channels.ask(verb, body)
            try:
                self._wait_locked(lambda: ask.done, timeout, f"no answer to {verb!r} in time")
            finally:
                self._session.channels.asks.pop(ask.message.request, None)
        if ask.error is not None:
            raise ask.error
        assert ask.answer is not None
        return ask.answer

    # --- end --------------------------------------------------------------------------------------

    def close(self, timeout: float = options.CLOSE_S) -> None:
        """Leaves when the broker has accepted everything published; Timeout if it has not in time."""
        late: Error | None = None
        with self._lock:
            if self._stopped:
                return
            number = self._session.outgoing.appended
            if timeout > 0:
                try:
                    self._wait_locked(
                        lambda: self._engine.flushed(number, "accepted"), timeout, "not accepted in time"
                    )
                except Error as error:
                    late = error
            self._stopped = True
            self._changed.notify_all()
            self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        if late is not None and not isinstance(late, Closed):
            raise late

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(options.CLOSE_S if error is None else 0)

    # --- waiting ----------------------------------------------------------------------------------

    def _wait(self, goal: Callable[[], bool], timeout: float | None, complaint: str) -> None:
        with self._lock:
            self._wait_locked(goal, timeout, complaint)

    def _wait_locked(self, goal: Callable[[], bool], timeout: float | None, complaint: str) -> None:
        """Until `goal` is true; Timeout after that time. The lock is held, and let go meanwhile."""
        if self._sleeping:
            self._wake()  # there may be something to send
        if not self._await(goal, timeout):
            raise Timeout(complaint)

    def _await(self, goal: Callable[[], bool], timeout: float | None) -> bool:
        end = None if timeout is None else monotonic() + timeout
        while not goal():
            if self._failure is not None:
                raise Closed(f"the client has failed: {self._failure}") from self._failure
            if self._stopped:
                raise Closed("the client is closed")
            left_s = None if end is None else end - monotonic()
            if left_s is not None and left_s <= 0:
                return False
            self._waiting += 1
            try:
                self._changed.wait(left_s)
            finally:
                self._waiting -= 1
        return True

    def _wake(self) -> None:
        self._sleeping = False
        self._bell.send(b"!")

    # --- the I/O thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            with self._lock:
                self._engine.close()
                self._stopped = True
                self._changed.notify_all()
            self._bell.close()
            self._ear.close()

    def _loop(self) -> None:
        engine = self._engine
        poller = _watch(engine, self._ear)

        def relinked() -> None:
            nonlocal poller
            poller = _watch(engine, self._ear)

        engine.relinked = relinked
        while True:
            with self._lock:
                if self._stopped:
                    return
                more = engine.turn()
                self._session.incoming.touched.clear()  # all who wait are asked
                if self._waiting:
                    self._changed.notify_all()
                if more:
                    continue
                self._sleeping = True
                sleep_s = _sleep_s(engine)
            for source, _ in poller.poll(int(sleep_s * 1000)):
                if source == self._ear.fileno():
                    self._ear.recv(4096)
                elif engine.link is not None and source is engine.link.monitor:
                    engine.rumour = True
            self._sleeping = False


def _watch(engine: Engine, ear: socket.socket) -> zmq.Poller:
    poller = zmq.Poller()
    poller.register(ear.fileno(), select.POLLIN)
    for link in engine.links():
        poller.register(link.socket, zmq.POLLIN)
        poller.register(link.monitor, zmq.POLLIN)
    return poller


def _sleep_s(engine: Engine) -> float:
    deadline = engine.next_deadline()
    return SLEEP_MOST_S if deadline is None else min(max(deadline - monotonic(), 0.0) + 0.001, SLEEP_MOST_S)
