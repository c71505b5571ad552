"""What the loop waits for, and who reads it when it comes."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from typing import TypeAlias

import zmq

from daemon.sockets import Socket

Reader: TypeAlias = Callable[[float], bool]  # called with now; True if there may be more to read at once


class Watch:
    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._readers: dict[Socket | int, Reader] = {}

    def add(self, source: Socket | int, read: Reader) -> None:
        self._readers[source] = read
        self._poller.register(source, select.POLLIN if isinstance(source, int) else zmq.POLLIN)

    def remove(self, source: Socket | int) -> None:
        if self._readers.pop(source, None) is not None:
            self._poller.unregister(source)

    def wait(self, timeout_ms: int) -> list[Socket | int]:
        return [source for source, _ in self._poller.poll(timeout_ms)]

    def readers(self, sources: list[Socket | int]) -> Iterator[Reader]:
        """Of those sources that nobody has removed meanwhile."""
        for source in sources:
            if (reader := self._readers.get(source)) is not None:
                yield reader
