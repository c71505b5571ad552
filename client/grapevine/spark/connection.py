"""A connection of a driver or a task to a broker: one thread, calls that block, made again when it breaks.

Everything asked here may be asked twice. So after a break the question is only how far the broker has come.
A broker that restarts is waited for; one that stays away for `timeout_s` is an Unreachable.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic, sleep
from typing import Self, TypeVar

import zmq

from grapevine.client.keys import default_directory
from grapevine.client.link import UP, Link
from grapevine.client.session.message import Names as PublisherNames
from grapevine.errors import NotAllowed, Timeout, Unreachable
from grapevine.wire.codec import decode, encode
from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    DROP_OLDEST,
    PROTOCOL,
    PROTOCOL_OLDEST,
    Attach,
    Attached,
    Detach,
    GoAway,
    Message,
    Names,
    Ping,
    Pong,
    Refuse,
    Reset,
)

ANSWER_S = 10.0  # a broker that says nothing for so long is dialled again
PAUSE_S = 0.1
M = TypeVar("M")


def tell(text: str) -> None:
    """A line for whoever reads what the driver or an executor prints."""
    print(f"grapevine: {text}", file=sys.stderr)  # noqa: T201


class Broken(Exception):
    """The connection is gone; try again."""


class Connection:
    def __init__(self, addresses: Iterable[str], keys: str | None, timeout_s: float) -> None:
        self.addresses = tuple(addresses)
        self.timeout_s = timeout_s
        self.broker = ""
        self.names = PublisherNames()
        self._keys = None if keys == "none" else Path(keys) if keys else default_directory()
        self._link: Link | None = None
        self._request = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._link is not None:
            try:
                self._link.socket.send(encode(Detach()), zmq.NOBLOCK)
            except zmq.ZMQError:
                pass
            self._link.close(500)
            self._link = None

    # --- the link -----------------------------------------------------------------------------------

    def connect(self) -> None:
        """Attached to the first of the addresses that answers; tried in rounds until the time is over."""
        deadline = monotonic() + self.timeout_s
        while self._link is None:
            for address in self.addresses:
                try:
                    self._dial(address, deadline)
                    return
                except NotAllowed:
                    raise
                except (Broken, Unreachable) as error:
                    self.hang_up()
                    complaint = str(error)
            if monotonic() + PAUSE_S >= deadline:
                raise Unreachable(f"no broker answers within {self.timeout_s:g} s: {complaint}")
            sleep(PAUSE_S)

    def _dial(self, address: str, deadline: float) -> None:
        link = self._link = Link(address, self._keys)
        while (news := link.news()) is None:
            if not link.monitor.poll(max(0, int((deadline - monotonic()) * 1000))):
                raise Unreachable(f"{address} does not answer")
        if news != UP:
            raise link.why_down()
        name = f"feed-{secrets.token_hex(8)}"
        self.send(
            Attach(PROTOCOL_OLDEST, PROTOCOL, name, identify(name), secrets.randbits(63), 1, 1, DROP_OLDEST)
        )
        answer = self.receive(min(deadline, monotonic() + ANSWER_S))
        if isinstance(answer, Refuse):
            kind = NotAllowed if answer.reason == "not-allowed" else Unreachable
            raise kind(f"{address}: {answer.text or answer.reason}")
        if not isinstance(answer, Attached):
            raise Broken(f"{address} answers {type(answer).__name__}")
        self.broker = answer.broker_name

    def hang_up(self) -> None:
        if self._link is not None:
            self._link.close(0)
            self._link = None

    def send(self, message: Message) -> None:
        self.send_frame(encode(message))

    def send_frame(self, frame: bytes) -> None:
        link = self._link
        if link is None:
            raise Broken("not connected")
        try:
            if not link.socket.poll(int(ANSWER_S * 1000), zmq.POLLOUT):
                raise Broken(f"{link.address} takes nothing")
            link.socket.send(frame, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            raise Broken(f"{link.address}: {error.strerror}") from None

    def receive(self, deadline: float) -> Message:
        """The next message that is not about the link itself; Broken when the link is, or stays silent."""
        link = self._link
        if link is None:
            raise Broken("not connected")
        poller = zmq.Poller()
        poller.register(link.socket, zmq.POLLIN)
        poller.register(link.monitor, zmq.POLLIN)
        while True:
            ready = dict(poller.poll(max(0, int((deadline - monotonic()) * 1000))))
            if link.socket in ready:
                message = decode(link.socket.recv(zmq.NOBLOCK))
                if isinstance(message, Ping):
                    self.send(Pong(message.sent_at))
                elif isinstance(message, Names):
                    self.names[message.publisher] = (message.name, message.broker_name)
                elif isinstance(message, Reset | GoAway):
                    raise Broken(f"{link.address} has let go of us")
                else:
                    return message
            elif link.monitor in ready and link.news() is not None:
                raise Broken(f"the connection to {link.address} broke")
            elif not ready:
                raise Broken(f"{link.address} does not answer")

    # --- one question -------------------------------------------------------------------------------

    def ask(self, question: Callable[[int], Message], answered: Callable[[Message], M | None]) -> M:
        """Say it, and again after every break, until `answered` makes something of what comes back."""
        deadline = monotonic() + self.timeout_s
        self._request += 1
        while True:
            try:
                self.connect()
                self.send(question(self._request))
                while True:
                    message = self.receive(monotonic() + ANSWER_S)
                    if getattr(message, "request", None) == self._request:
                        answer = answered(message)
                        if answer is not None:
                            return answer
                        deadline = monotonic() + self.timeout_s
            except Broken as error:
                self.hang_up()
                if monotonic() > deadline:
                    raise Timeout(f"no answer in {self.timeout_s:g} s: {error}") from None
