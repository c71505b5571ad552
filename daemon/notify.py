"""systemd's notify protocol: a datagram to $NOTIFY_SOCKET, and nothing where there is none."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notify:
    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        self.watchdog_s = _watchdog_s(environment)  # 0: nobody watches

    def send(self, **fields: str) -> None:
        if self._socket is None:
            return
        text = "\n".join(f"{key.upper()}={value}" for key, value in fields.items())
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError:
            pass  # whoever listened is gone; the broker goes on

    def ready(self, status: str) -> None:
        self.send(ready="1", status=status)

    def status(self, text: str) -> None:
        self.send(status=text)

    def watchdog(self) -> None:
        self.send(watchdog="1")

    def stopping(self) -> None:
        self.send(stopping="1")


def _watchdog_s(environment: Mapping[str, str]) -> float:
    pid = environment.get("WATCHDOG_PID")
    if pid and pid != str(os.getpid()):
        return 0.0
    try:
        return int(environment.get("WATCHDOG_USEC", "0")) / 1e6
    except ValueError:
        return 0.0
