"""Many clients in one process, each turned when one of its sockets has something.

A sweep over all of them would cost most of a core while nothing comes, and the brokers need that core.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import zmq

from grapevine.client.engine import Engine

SWEEP_S = 1.0  # between two turns of everybody, for timers


class Crowd:
    def __init__(self, engines: Iterable[Engine]) -> None:
        self.engines = list(engines)
        self._epoll = select.epoll()
        self._known: dict[int, tuple[Engine, bool]] = {}  # by descriptor; whether it is a monitor's
        self._again: dict[Engine, None] = dict.fromkeys(self.engines)
        self._sweep_at = 0.0
        for engine in self.engines:
            engine.relinked = partial(self._relinked, engine, set())

    def turn(self, most_s: float) -> None:
        """Turn those that have something to do, waiting for the first so long."""
        ready, self._again = self._again, {}
        for descriptor, _ in self._epoll.poll(0 if ready else most_s):
            engine, monitor = self._known[descriptor]
            engine.rumour |= monitor
            ready[engine] = None
        now = time.monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_S
            ready = dict.fromkeys(self.engines)
        for engine in ready:
            if engine.turn() or _readable(engine):
                self._again[engine] = None

    def until(self, what: Callable[[], Any], seconds: float) -> bool:
        """Whether it came true in time; asked now and then."""
        deadline = time.monotonic() + seconds
        while not what():
            now = time.monotonic()
            if now > deadline:
                return False
            while time.monotonic() < now + 0.02:
                self.turn(0.02)
        return True

    def wait(self, seconds: float) -> None:
        self.until(lambda: False, seconds)

    def _relinked(self, engine: Engine, old: set[int]) -> None:
        links = engine.links()
        watched = {int(link.socket.fd): False for link in links}
        watched |= {int(link.monitor.fd): True for link in links}
        for descriptor in old - watched.keys():
            del self._known[descriptor]
            with suppress(OSError):  # it is closed
                self._epoll.unregister(descriptor)
        for descriptor in watched.keys() - old:
            self._known[descriptor] = engine, watched[descriptor]
            self._epoll.register(descriptor, select.EPOLLIN)
        old.clear()
        old.update(watched)
        engine.rumour = True
        self._again[engine] = None  # what is there now is not told again


def _readable(engine: Engine) -> bool:
    """A descriptor tells of changes only, and sending may have taken note of one."""
    return any(int(link.socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN for link in engine.links())
