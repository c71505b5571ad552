"""ZeroMQ sockets with every limit set: their own defaults have none worth having.

A ROUTER listens for brokers, clients and pubctl, a DEALER is one dialled link. tcp, ipc and inproc are
used and nothing else. A DEALER does not reconnect by itself: the core dials again and greets again, so a
link that broke is known to have broken.
"""

from __future__ import annotations

import errno
import os
import socket as network
from typing import TypeAlias

import zmq

from daemon.errors import Failure
from daemon.keys import Keys
from daemon.settings.sections import Transport
from daemon.zap import DOMAIN_KEYS, DOMAIN_WIRE

Socket: TypeAlias = zmq.Socket[bytes]
Context: TypeAlias = zmq.Context[Socket]
SCHEMES = ("tcp://", "ipc://", "inproc://")
BACKLOG = 1024


def new_context(encrypted: bool) -> Context:
    """libzmq encrypts in its own threads: two share that work. Without it a second one was faster for one
    topic and slower for a hundred (bench/method.md)."""
    context: Context = zmq.Context(2 if encrypted else 1)
    context.set(zmq.MAX_SOCKETS, 4096)
    return context


class Sockets:
    """Makes sockets; `keys` is None where security.curve is false."""

    def __init__(self, context: Context, settings: Transport, keys: Keys | None) -> None:
        self.context = context
        self.settings = settings
        self.keys = keys

    def listen(self, address: str) -> Socket:
        """A ROUTER bound to `address`; Failure says why not."""
        assert address.startswith(SCHEMES), address
        router = self.context.socket(zmq.ROUTER)
        self._limit(router)
        router.setsockopt(zmq.IPV6, "[" in address)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.setsockopt(zmq.BACKLOG, BACKLOG)
        secured = self.keys is not None and address.startswith("tcp://")
        router.setsockopt(zmq.ZAP_DOMAIN, DOMAIN_KEYS if secured else DOMAIN_WIRE)
        router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        if secured and self.keys is not None:
            router.setsockopt(zmq.CURVE_SERVER, 1)
            router.setsockopt(zmq.CURVE_SECRETKEY, self.keys.secret.encode())
        self._bind(router, address)
        return router

    def _bind(self, router: Socket, address: str) -> None:
        if address.startswith("ipc:///"):
            _remove_stale(address.removeprefix("ipc://"))
        before = os.umask(0o177)  # an ipc socket is its owner's alone
        try:
            router.bind(address)
        except zmq.ZMQError as error:
            router.close(0)
            raise Failure(f"cannot listen on {address}: {_bind_error(error)}") from None
        finally:
            os.umask(before)

    def dial(self, address: str) -> tuple[Socket, str]:
        """A DEALER to connect to `address`, and the key it will find there, empty on a wire without one;
        LookupError if the key is not known."""
        assert address.startswith(SCHEMES), address
        dealer = self.context.socket(zmq.DEALER)
        self._limit(dealer)
        dealer.setsockopt(zmq.IPV6, "[" in address or not address[6:7].isdigit())
        dealer.setsockopt(zmq.RECONNECT_IVL, -1)
        dealer.setsockopt(zmq.CONNECT_TIMEOUT, int(self.settings.handshake_s * 1000))
        server = ""
        if self.keys is not None and address.startswith("tcp://"):
            try:
                server = self.keys.server_key(address)
            except LookupError:
                dealer.close(0)
                raise
            dealer.setsockopt(zmq.CURVE_SERVERKEY, server.encode())
            dealer.setsockopt(zmq.CURVE_PUBLICKEY, self.keys.public.encode())
            dealer.setsockopt(zmq.CURVE_SECRETKEY, self.keys.secret.encode())
        return dealer, server

    def _limit(self, socket: Socket) -> None:
        settings = self.settings
        socket.setsockopt(zmq.LINGER, int(settings.linger_s * 1000))
        socket.setsockopt(zmq.MAXMSGSIZE, settings.frame_bytes)
        socket.setsockopt(zmq.HANDSHAKE_IVL, int(settings.handshake_s * 1000))
        socket.setsockopt(zmq.SNDHWM, settings.queue_frames)
        socket.setsockopt(zmq.RCVHWM, settings.queue_frames)
        if settings.heartbeat_s > 0:
            every_ms = int(settings.heartbeat_s * 1000)
            socket.setsockopt(zmq.HEARTBEAT_IVL, every_ms)
            socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * every_ms)
            socket.setsockopt(zmq.HEARTBEAT_TTL, min(3 * every_ms, 6_553_500))


def bound_address(router: Socket) -> str:
    """Where it listens, the port known."""
    endpoint: bytes = router.getsockopt(zmq.LAST_ENDPOINT)  # type: ignore[assignment]
    return endpoint.rstrip(b"\0").decode()


def told_address(address: str) -> str:
    """The address under which others reach what listens on `address`."""
    if not address.startswith("tcp://"):
        return address
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    if host in ("*", "0.0.0.0", "[::]"):
        host = network.gethostname()
    return f"tcp://{host}:{port}"


def _remove_stale(path: str) -> None:
    """A socket file that nobody listens on any more stays behind a killed daemon."""
    probe = network.socket(network.AF_UNIX, network.SOCK_STREAM)
    try:
        probe.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
    except OSError:
        pass
    finally:
        probe.close()


def _bind_error(error: zmq.ZMQError) -> str:
    if error.errno == zmq.EADDRINUSE:
        return "the address is in use: stop who uses it, or change broker.listen"
    if error.errno == zmq.EADDRNOTAVAIL:
        return "this machine has no such address: change broker.listen"
    if error.errno == errno.ENODEV:
        return "this machine does not know that host or interface: change broker.listen"
    return f"{error.strerror or error}: change broker.listen"
