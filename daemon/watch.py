"""What the loop waits for, and who reads it when it comes.

The kernel is asked about descriptors once for a turn, however many links there are. A ZeroMQ socket's
descriptor tells that something has changed, and any use of the socket may take note of it: only one that was
read until it was empty, and not used since, need not be asked itself before the loop sleeps.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import TypeAlias

import zmq

from daemon.sockets import Socket

Reader: TypeAlias = Callable[[float], bool]  # called with now; True if there may be more to read at once


class Watch:
    def __init__(self) -> None:
        self.used: set[Socket] = set()  # sent on, or not known to be empty
        self._epoll = select.epoll()
        self._readers: dict[Socket | int, Reader] = {}
        self._descriptors: dict[Socket | int, int] = {}
        self._sources: dict[int, Socket | int] = {}  # by descriptor

    def add(self, source: Socket | int, read: Reader) -> None:
        descriptor = source if isinstance(source, int) else int(source.fd)
        self._readers[source] = read
        self._descriptors[source] = descriptor
        self._sources[descriptor] = source
        self._epoll.register(descriptor, select.EPOLLIN)
        if not isinstance(source, int):
            self.used.add(source)

    def remove(self, source: Socket | int) -> None:
        """Before it is closed."""
        if self._readers.pop(source, None) is not None:
            descriptor = self._descriptors.pop(source)
            del self._sources[descriptor]
            self._epoll.unregister(descriptor)
            self.used.discard(source)

    def wait(self, timeout_ms: int) -> list[Socket | int]:
        """Who has something to read, perhaps."""
        ready: dict[Socket | int, None] = {}
        for socket in self.used:
            if int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                ready[socket] = None
        self.used.clear()
        for descriptor, _ in self._epoll.poll(0 if ready else timeout_ms / 1000):
            ready[self._sources[descriptor]] = None
        return list(ready)

    def read(self, sources: list[Socket | int], now: float) -> bool:
        """Have them read, but those that somebody has removed meanwhile; True if there may be more."""
        more = False
        for source in sources:
            if (reader := self._readers.get(source)) is not None and reader(now):
                more = True
        if more:
            self.used.update(source for source in self._readers if not isinstance(source, int))
        return more
