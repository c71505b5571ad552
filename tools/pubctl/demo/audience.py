"""The subscribers of the demo, and the judgement over what they got.

What each one is owed follows from its filter and from all that was published; it must arrive exactly once
and in its publisher's order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grapevine
from grapevine.filters import parse
from grapevine.filters.evaluate import matches
from tools.pubctl.demo.scene import Attributes, Seat

LOOK_S = 0.1
NUMBER = "n"  # the attribute by which a publication of a feed is known, from 1
Published = dict[str, list[Attributes]]  # by feed, in order


class Listener(threading.Thread):
    """One subscriber: reads what arrives and remembers when."""

    def __init__(self, seat: Seat, address: str, keys: Path) -> None:
        super().__init__(name=seat.name, daemon=True)
        self.seat = seat
        self.client = grapevine.connect(address, name=seat.name, keys=keys)
        self.subscription = self.client.subscribe(seat.filter)
        self.got: dict[str, list[int]] = {}
        self.delays_s: list[float] = []
        self.count = 0
        self.last_at = time.monotonic()
        self._going = True
        self.start()

    @property
    def broker(self) -> str:
        return self.client.broker

    def run(self) -> None:
        while self._going:
            try:
                batch = self.subscription.next_batch(1000, timeout=LOOK_S)
            except grapevine.Closed:
                return
            now = time.time()
            for message in batch:
                feed = message.publisher.partition("/")[0]  # Spark adds the number of its writer
                self.got.setdefault(feed, []).append(int(message.attributes[NUMBER]))
                self.delays_s.append(now - message.accepted_at)
            if batch:
                self.count += len(batch)
                self.last_at = time.monotonic()

    def stop(self) -> None:
        self._going = False
        self.client.close(0)
        self.join(5)

    # --- what it should have got --------------------------------------------------------------------

    def owed(self, published: Published) -> dict[str, list[int]]:
        filter = parse(self.seat.filter)
        return {
            feed: [number for number, content in enumerate(contents, 1) if matches(filter, content)]
            for feed, contents in published.items()
        }

    def judge(self, published: Published) -> dict[str, Any]:
        owed = {feed: numbers for feed, numbers in self.owed(published).items() if numbers}
        expected = sum(map(len, owed.values()))
        missing = expected - sum(
            len(set(self.got.get(feed, ())) & set(numbers)) for feed, numbers in owed.items()
        )
        return {
            "name": self.seat.name,
            "broker": self.broker,
            "filter": self.seat.filter,
            "expected": expected,
            "received": self.count,
            "missing": missing,
            "exact": self.got == owed,
            "p50_ms": _quantile_ms(self.delays_s, 0.5),
            "p99_ms": _quantile_ms(self.delays_s, 0.99),
        }


def _quantile_ms(delays_s: Iterable[float], share: float) -> float | None:
    ordered = sorted(delays_s)
    return round(ordered[int(share * (len(ordered) - 1))] * 1000, 2) if ordered else None


class Speaker(threading.Thread):
    """One publisher at a steady rate."""

    def __init__(self, client: grapevine.Client, contents: list[Attributes], rate: float) -> None:
        super().__init__(name=client.name, daemon=True)
        self.client = client
        self.contents = contents
        self.rate = rate
        self.sent = 0
        self.going = True
        self.undelivered = ""

    def run(self) -> None:
        began = time.monotonic()
        while self.going and self.sent < len(self.contents):
            due = min(len(self.contents), int((time.monotonic() - began) * self.rate) + 1)
            while self.sent < due:
                content = self.contents[self.sent]
                try:
                    self.client.publish(content, f"{self.name} {self.sent + 1}".encode())
                except grapevine.Closed:
                    return
                self.sent += 1
            time.sleep(0.005)

    def stop(self) -> None:
        self.going = False
        self.client.close(0)

    def finish(self, timeout_s: float) -> None:
        """Until everything is settled."""
        self.join()
        try:
            self.client.flush(timeout=timeout_s)
        except grapevine.Error as error:
            self.undelivered = str(error)
