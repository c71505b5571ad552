"""One broker to talk to: a DEALER that sends a Command and waits for its Answer.

The address is tcp (encrypted with the user's keys unless the broker's entry says otherwise), a control
socket (ipc), or the name of a broker in the keys directory. Nothing is kept between two calls; a wrong key,
nobody listening and no answer in time are told apart, because the next step differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeAlias

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

from grapevine.client.keys import client_keys, default_directory, find_server, read_entries
from grapevine.wire import WireError, decode, encode
from grapevine.wire.limits import FRAME_BYTES
from grapevine.wire.messages import Answer, Command
from tools.pubctl.failure import NOT_ALLOWED, NOT_FOUND, OUTCOMES, TIMEOUT, UNREACHABLE, USAGE, Failure
from tools.pubctl.invocation import current

SCHEMES = ("tcp://", "ipc://")
KEY_NAME = "user"
Argument: TypeAlias = str | int | float | bool | None
STARTING_S = 3.0
MARGIN = 0.9  # of our time the overlay gets to answer


class Reply(msgspec.Struct):
    outcome: str
    body: dict[str, Any]
    text: str

    @property
    def missing(self) -> list[str]:
        return list(self.body.get("missing", ()))

    @property
    def cut_off(self) -> list[str]:
        """Who is behind those that are missing."""
        return list(self.body.get("cut_off", ()))

    @property
    def partial(self) -> bool:
        return self.outcome == "partial"


def locate(broker: str, keys: Path | None = None) -> str:
    """The address of what the user called a broker."""
    if broker.startswith(SCHEMES):
        return broker
    if "://" in broker:
        raise Failure(f"{broker}: an address begins with tcp:// or ipc://", USAGE)
    if ":" in broker:
        return f"tcp://{broker}"
    if broker.startswith(("/", "./", "../", "~")):
        return f"ipc://{Path(broker).expanduser().absolute()}"
    return _named(broker, keys or default_directory())


def _named(broker: str, directory: Path) -> str:
    """Its address from the keys directory. One that was started a moment ago is about to write it there."""
    until = monotonic() + STARTING_S
    while True:
        for entry in read_entries(directory):
            if entry.kind == "broker" and entry.name == broker and entry.addresses:
                return entry.addresses[0]
        if monotonic() > until:
            raise Failure(f"no broker named {broker} in {directory}: give its address", NOT_FOUND)
        sleep(0.05)


class Channel:
    def __init__(self, broker: str, timeout_s: float, keys: Path | None = None, key: str = KEY_NAME) -> None:
        self.asked = broker
        self.key = key
        self.keys = keys or default_directory()
        self.address = locate(broker, self.keys)
        self.timeout_s = timeout_s
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES)
        self._events = 0  # what has happened to the connection
        self._request = 0
        try:
            self._secure()
            self._monitor = self._socket.get_monitor_socket()
            self._socket.connect(self.address)
        except zmq.ZMQError as error:
            self._context.destroy(0)
            raise Failure(f"{self.address}: {error.strerror}", USAGE) from None
        except BaseException:
            self._context.destroy(0)
            raise

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.disable_monitor()
        self._context.destroy(0)

    def _secure(self) -> None:
        if not self.address.startswith("tcp://"):
            return
        try:
            server = find_server(self.keys, self.address).public
        except LookupError:
            raise Failure(
                f"no broker at {self.address} is known in {self.keys}: is it running? "
                "For a broker of another user or host, copy its .broker.toml there",
                UNREACHABLE,
            ) from None
        if server:
            mine = client_keys(self.keys, self.key)
            self._socket.curve_serverkey = server.encode()
            self._socket.curve_publickey = mine.public.encode()
            self._socket.curve_secretkey = mine.secret.encode()

    # --- asking -----------------------------------------------------------------------------------

    def ask(self, verb: str, **arguments: Argument) -> Reply:
        """The broker's answer; every outcome but "ok" and "partial" is a Failure."""
        answer = self.answer(verb, **arguments)
        try:
            body = msgspec.json.decode(answer.body or b"{}", type=dict[str, Any])
        except msgspec.MsgspecError:
            raise Failure(f"{self.address} answered what is no JSON") from None
        return Reply(answer.outcome, body, answer.text)

    def answer(self, verb: str, **arguments: Argument) -> Answer:
        """The same, with its body as the bytes that came."""
        self._request += 1
        given: dict[str, Argument] = {key: value for key, value in arguments.items() if value is not None}
        given.setdefault("timeout_s", round(self.timeout_s * MARGIN, 3))
        self._socket.send(encode(Command(self._request, verb, given)))
        answer = self._await(monotonic() + self.timeout_s)
        if (code := OUTCOMES.get(answer.outcome)) is not None:
            raise Failure(answer.text or answer.outcome, code)
        return answer

    def _await(self, deadline: float) -> Answer:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        while (left := deadline - monotonic()) > 0:
            ready = dict(poller.poll(int(left * 1000) + 1))
            if self._monitor in ready:
                self._note()
            if self._socket in ready:
                answer = self._read()
                if answer is not None and answer.request == self._request:
                    return answer
        raise self._silence()

    def _read(self) -> Answer | None:
        try:
            message = decode(self._socket.recv())
        except WireError as error:
            raise Failure(f"{self.address} speaks another protocol: {error}") from None
        return message if isinstance(message, Answer) else None

    def _note(self) -> None:
        event = parse_monitor_message(self._monitor.recv_multipart())["event"]
        self._events |= event
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            raise Failure(
                f"{self.address} does not accept the key {self.key} of {self.keys}: "
                "its operator has to allow it, or use the broker's own control socket",
                NOT_ALLOWED,
            )

    def _silence(self) -> Failure:
        ended = self._events & (zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
        if self._events & zmq.EVENT_HANDSHAKE_SUCCEEDED or (self._events & zmq.EVENT_CONNECTED and not ended):
            return Failure(f"{self.address} has not answered within {self.timeout_s:g} s", TIMEOUT)
        if self._events & zmq.EVENT_CONNECTED:
            return Failure(f"{self.address} is not a broker of these keys ({self.keys})", UNREACHABLE)
        return Failure(f"nobody listens at {self.address}: is the broker running?", UNREACHABLE)


@contextmanager
def opened(broker: str = "") -> Iterator[Channel]:
    """The channel that the global flags ask for."""
    invocation = current()
    with Channel(broker or invocation.broker, invocation.timeout_s) as channel:
        yield channel
