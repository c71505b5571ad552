"""Somebody on the wire between a client and its broker: hears every byte, and can say it once more."""

from __future__ import annotations

import socket
import threading

from tests.system.overlay import eventually

CHUNK = 65_536


class Tap:
    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._door.getsockname()[1]}"
        self.said: list[bytes] = []  # by the client, on its first connection
        self._broker: socket.socket | None = None
        self._open: list[socket.socket] = [self._door]
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *error: object) -> None:
        for each in self._open:
            each.close()

    def _serve(self) -> None:
        """The first connection is listened to; later ones are only passed on."""
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            broker = socket.create_connection(self._target)
            self._open += [client, broker]
            first = self._broker is None
            if first:
                self._broker = broker
            threading.Thread(target=self._pass, args=(client, broker, first), daemon=True).start()
            threading.Thread(target=self._pass, args=(broker, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, heard: bool) -> None:
        try:
            while data := source.recv(CHUNK):
                if heard:
                    self.said.append(data)
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended already

    # --- once more ------------------------------------------------------------------------------------

    def replay_here(self) -> None:
        """The last that the client said, on the connection it was said on."""
        assert self._broker is not None
        self._broker.sendall(self.said[-1])

    def replay_elsewhere(self) -> bytes:
        """All that the client said, on a connection of its own; what the broker answers."""
        with socket.create_connection(self._target, timeout=5) as connection:
            connection.sendall(b"".join(self.said))
            connection.settimeout(1.0)
            answer = b""
            try:
                while data := connection.recv(CHUNK):
                    answer += data
            except OSError:
                pass  # silence, or the connection was ended
            return answer

    def quiet(self) -> None:
        """Until nothing has been said for a moment."""
        seen = [-1]

        def same() -> bool:
            before, seen[0] = seen[0], len(self.said)
            return before == seen[0]

        eventually(same, 30, 0.2)
