"""A connection that can be frozen: it stays open, and nothing passes it until it thaws."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.relay import Relay


class Freezer(Relay):
    def __init__(self, address: str) -> None:
        self._flows = threading.Event()
        self._flows.set()
        super().__init__(address)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def passing(self, source: socket.socket, data: bytes) -> None:
        self._flows.wait()

    def close(self) -> None:
        self._flows.set()
        super().close()
