"""A word to systemd, if it has started us."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        try:
            to.connect("\0" + address[1:] if address.startswith("@") else address)
            to.send(state.encode())
        except OSError:
            pass  # it has gone away: nobody waits for the word
