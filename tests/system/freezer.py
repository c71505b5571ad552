"""A connection that can be frozen: it stays open, and nothing passes it until it thaws."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CHUNK = 65_536


class Freezer:
    """Stands before a broker's address; whoever connects to it is passed on."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._door.getsockname()[1]}"
        self._flows = threading.Event()
        self._flows.set()
        threading.Thread(target=self._serve, daemon=True).start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def close(self) -> None:
        self._flows.set()
        self._door.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._flows.wait()
        try:
            broker = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        threading.Thread(target=self._pass, args=(client, broker), daemon=True).start()
        self._pass(broker, client)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(CHUNK):
                self._flows.wait()
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended already
