"""Where the page process gets its facts: a broker, a recording, or a simulation. Who reads cannot tell which.

`BrokerSource` has one channel to one broker, which answers for the rest. If that one goes away, the other
brokers of the last overlay are tried, the nearest first. Questions that people ask have a channel of their
own, so that a slow one does not hold up the pulse. Only verbs that read can be asked unless `actions`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeVar

import msgspec

from tools.pubctl.channel import Argument, Channel, Reply
from tools.pubctl.events import Follower, read_new
from tools.pubctl.failure import NOT_ALLOWED, TIMEOUT, UNREACHABLE, Failure
from tools.web.model import Look, SourceState

READS = frozenset(
    [
        "status",
        "broker.ls",
        "broker.info",
        "broker.ping",
        "link.ls",
        "topo.show",
        "subs.ls",
        "subs.explain",
        "adv.ls",
        "client.ls",
        "client.info",
        "trace",
        "pulse",
        "events",
        "relocate.show",
        "relocate.plan",
        "config",
    ]
)
PATIENCE = 0.8  # of an interval the overlay gets to answer
ASK_S = 4.0
Got = TypeVar("Got")


class Source(Protocol):
    kind: str
    state: SourceState

    def pulse(self) -> Look: ...
    def overlay(self) -> list[dict[str, Any]]: ...
    def events(self, look: Look) -> list[dict[str, Any]]: ...
    def ask(self, verb: str, **arguments: Argument) -> Reply: ...
    def close(self) -> None: ...


class BrokerSource:
    kind = "broker"

    def __init__(
        self,
        broker: str,
        every_s: float,
        *,
        keys: Path | None = None,
        key: str = "user",
        actions: bool = False,
    ) -> None:
        self.first = broker
        self.every_s = every_s
        self.keys = keys
        self.key = key
        self.actions = actions
        self.follower = Follower()
        self.follow_from_now = False
        self.places: list[str] = []  # addresses of other brokers, the nearest first
        self.state = SourceState("slow", broker, 0.0, "connecting")
        self._at = broker
        self._watch: Channel | None = None
        self._reader: Channel | None = None
        self._lock = Lock()

    # --- the pulse ----------------------------------------------------------------------------------

    def pulse(self) -> Look:
        timeout_s = PATIENCE * self.every_s
        reply = self._try(lambda channel: channel.answer("pulse", timeout_s=timeout_s))
        return msgspec.json.decode(reply.body, type=Look)

    def overlay(self) -> list[dict[str, Any]]:
        reply = self._try(lambda channel: channel.ask("topo.show", timeout_s=max(1.0, 2 * self.every_s)))
        found: list[dict[str, Any]] = reply.body["brokers"]
        return found

    def events(self, look: Look) -> list[dict[str, Any]]:
        pulses = [[b.name, b.id, b.incarnation, *[0] * 15, b.events] for b in look.beats]
        return self._try(lambda channel: read_new(channel, self.follower, pulses))

    def _try(self, question: Callable[[Channel], Got]) -> Got:
        """Ask the broker that we have; the next one only when nobody listens there any more."""
        try:
            if self._watch is None:
                self._watch = self._open(self._at)
            return question(self._watch)
        except Failure as failure:
            if failure.code == TIMEOUT and self._watch is not None and self._patient():
                raise
            self._close()
            if failure.code in (UNREACHABLE, TIMEOUT):
                self._elsewhere()
            raise

    def _patient(self) -> bool:
        """A broker may miss a few pulses before another is asked."""
        self._missed = getattr(self, "_missed", 0) + 1
        if self._missed < 3:
            return True
        self._missed = 0
        return False

    def answered(self) -> None:
        self._missed = 0

    def _elsewhere(self) -> None:
        others = [place for place in (*self.places, self.first) if place != self._at]
        if others:
            self._at = others[0]
            self.places = [*self.places[1:], *self.places[:1]]

    @property
    def next(self) -> str:
        return self._at

    def _open(self, broker: str) -> Channel:
        return Channel(broker, max(1.0, 3 * self.every_s), self.keys, self.key)

    # --- what people ask ----------------------------------------------------------------------------

    def ask(self, verb: str, **arguments: Argument) -> Reply:
        if verb not in READS and not self.actions:
            raise Failure(f"{verb} changes something: start the page with --actions", NOT_ALLOWED)
        with self._lock:
            if self._reader is None or self._reader.asked != self._at:
                if self._reader is not None:
                    self._reader.close()
                self._reader = Channel(self._at, ASK_S, self.keys, self.key)
            return self._reader.ask(verb, **arguments)

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def close(self) -> None:
        self._close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None
