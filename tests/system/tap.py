"""Somebody on the wire between a client and its broker: hears every byte, and can say it once more."""

from __future__ import annotations

import socket

from tests.relay import CHUNK, Relay
from tests.system.overlay import eventually


class Tap(Relay):
    def __init__(self, address: str) -> None:
        self.said: list[bytes] = []  # by the client, on its first connection
        super().__init__(address)

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def passing(self, source: socket.socket, data: bytes) -> None:
        if self.connections and source is self.connections[0][0]:
            self.said.append(data)

    # --- once more ------------------------------------------------------------------------------------

    def replay_here(self) -> None:
        """The last that the client said, on the connection it was said on."""
        self.connections[0][1].sendall(self.said[-1])

    def replay_elsewhere(self) -> bytes:
        """All that the client said, on a connection of its own; what the broker answers."""
        with socket.create_connection(self.target, timeout=5) as connection:
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
