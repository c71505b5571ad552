"""Somebody on the wire between two programs: passes on what both say, one thread a direction."""

from __future__ import annotations

import contextlib
import socket
import threading

CHUNK = 65_536


class Relay:
    """Whoever connects to `address` is connected with the broker behind it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self.target = (host, int(port))
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.connections: list[tuple[socket.socket, socket.socket]] = []  # who came, and the broker
        threading.Thread(target=self._serve, daemon=True).start()

    def passing(self, source: socket.socket, data: bytes) -> None:
        """Before this is passed on."""

    def cut(self) -> int:
        """Every connection ends, and new ones are taken; how many there were."""
        ended, self.connections = self.connections, []
        for ends in ended:
            _end(*ends)
        return len(ended)

    def close(self) -> None:
        self._door.close()
        self.cut()

    def _serve(self) -> None:
        while True:
            try:
                came, _ = self._door.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(self.target)
            except OSError:
                came.close()  # it is not there now
                continue
            self.connections.append((came, broker))
            for source, target in ((came, broker), (broker, came)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                self.passing(source, data)
                target.sendall(data)
        _end(source, target)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):  # it has ended already
            end.shutdown(socket.SHUT_RDWR)
