"""Two brokers, who is fed and where it is read, and a count of every row."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grapevine
from grapevine.client.session.message import Message
from tests.system.overlay import Daemon, Overlay

QUIET_S = 1.0  # so long after the last delivery nothing more is on its way


class Brokers(Overlay):
    """b1 is fed; subscribers are at b2, so that b1 may be killed."""

    def __init__(self, directory: Path) -> None:
        # A machine that runs Spark beside its brokers is busy: no link is given up for that.
        super().__init__(directory, links={"ping_s": 3.0, "redial_s": 0.1, "greet_s": 5.0})

    def __enter__(self) -> Brokers:
        self.start("b1")
        self.start("b2", parent="b1")
        return self

    @property
    def fed(self) -> Daemon:
        return self["b1"]

    def options(self, **more: object) -> dict[str, str]:
        """Of the source."""
        said = {"brokers": self.fed.address, "keys": str(self.fed.keys), **more}
        return {name: str(value) for name, value in said.items()}

    def restart(self) -> None:
        """Kill the broker that is fed, and start it again."""
        self.fed.kill()
        self.fed.start().ready()

    def kill_when(self, condition: Callable[[], bool]) -> threading.Thread:
        """The same as soon as `condition` is true, meanwhile."""

        def wait() -> None:
            while not condition():
                time.sleep(0.01)
            self.restart()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    @contextmanager
    def reading(self, filter: str, name: str = "row") -> Iterator[Reader]:
        reader = Reader(self["b2"], filter, name)
        try:
            yield reader
        finally:
            reader.close()


class Reader:
    """A subscriber that counts what it gets by one attribute."""

    def __init__(self, broker: Daemon, filter: str, name: str) -> None:
        self.rows: Counter[Any] = Counter()
        self.messages: list[Message] = []
        self.kept = 0  # of these so many at most
        self._name = name
        self._client = grapevine.connect(broker.address, keys=str(broker.keys))
        self._subscription = self._client.subscribe(filter)
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        name = self._name
        while True:
            try:
                batch = self._subscription.next_batch(10_000)
            except grapevine.Closed:
                return
            self._last = time.monotonic()
            self.rows.update(message.attributes[name] for message in batch)
            self.messages += batch[: max(self.kept - len(self.messages), 0)]

    @property
    def count(self) -> int:
        return self.rows.total()

    def wait(self, rows: int, timeout_s: float = 60.0) -> None:
        """Until so many rows have come."""
        deadline = time.monotonic() + timeout_s
        while self.count < rows:
            assert time.monotonic() < deadline, f"{self.count} of {rows} rows after {timeout_s} s"
            time.sleep(0.02)

    def all(self, rows: int, timeout_s: float = 60.0) -> Counter[Any]:
        """Everything that comes, when `rows` have come and nothing follows."""
        self.wait(rows, timeout_s)
        while time.monotonic() - self._last < QUIET_S:
            time.sleep(0.05)
        return self.rows

    def close(self) -> None:
        self._client.close(0)
        self._thread.join(10)


def once(rows: int, start: int = 0) -> Counter[Any]:
    """Each row one time."""
    return Counter(range(start, start + rows))
