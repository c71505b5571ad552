"""The contract between the page process and who reads it: every document as a Struct, JSON Schema from them.

Documents say `"schema": "grapevine.web.NAME/1"`. Changes are additive: fields are added, arrays grow at their
end, nothing is renamed. Numbers that are not known are null and never zero. `i` of a broker or a link is its
number for the life of the page process.
"""

from __future__ import annotations

from typing import Any

import msgspec

PREFIX = "grapevine.web."
NO_ANSWER, CUT_OFF, GONE, SLOW, OLD, JOINING, LEAVING, LEFT = 1, 2, 4, 8, 16, 32, 64, 128  # flags of a broker
ABSENT = NO_ANSWER | CUT_OFF | GONE | LEFT
FLAGS = {"no answer": NO_ANSWER, "cut off": CUT_OFF, "gone": GONE, "joining": JOINING, "leaving": LEAVING}
FLAGS |= {"left": LEFT}
Rate = float | None


# --- what a broker says (overlay/administration/pulse.py) ---------------------------------------------


class LinkBeat(msgspec.Struct, array_like=True, gc=False):
    peer: str
    kind: str
    sent: int
    received: int
    bytes_out: int | None = None
    bytes_in: int | None = None
    unsettled: int = 0
    rtt_ms: float | None = None
    gain: float | None = None


class Beat(msgspec.Struct, array_like=True):
    name: str
    id: int
    incarnation: int
    t_ms: int
    generation: int
    state: str
    accepted: int
    forwarded: int
    delivered: int
    duplicates: int
    dropped: int
    cpu: float | None
    busy: float | None
    queue_ms: float | None
    slowest_ms: float | None
    backlog: int
    slow: int
    clients: int
    events: int
    links: list[LinkBeat]
    received: int = 0
    memory_bytes: float | None = None
    subscriptions: int = 0
    known: int = 0


class Look(msgspec.Struct):
    """One answer to `pulse`."""

    asked: str = ""
    t_ms: int = 0
    pulses: list[Beat | dict[str, Any]] = []
    missing: list[str] = []
    cut_off: list[str] = []

    @property
    def beats(self) -> list[Beat]:
        return [beat for beat in self.pulses if isinstance(beat, Beat)]

    @property
    def left_out(self) -> int:
        """Brokers that did not fit into the answer."""
        return sum(rest.get("left_out", 0) for rest in self.pulses if isinstance(rest, dict))


# --- what the page gets -----------------------------------------------------------------------------


class Broker(msgspec.Struct):
    i: int
    name: str
    incarnation: int = 0
    state: str = "no answer"  # ready, joining, leaving, no answer, cut off, gone, left
    parent: int | None = None
    addresses: list[str] = []
    host: str = ""
    roles: list[str] = msgspec.field(default_factory=lambda: ["broker"])
    since: float | None = None  # up, or absent
    ring: dict[str, Any] | None = None
    segments: list[dict[str, Any]] | None = None
    channels: dict[str, Any] | None = None


class Link(msgspec.Struct):
    i: int
    a: int
    b: int
    kind: str  # primary, soft, candidate, successor, finger, dispatch, backend
    bypasses: list[int] = []
    up: bool = True


class Publisher(msgspec.Struct):
    name: str
    at: int
    algorithm: str = ""


class Overlay(msgspec.Struct):
    g: int
    asked: str
    kind: str
    settings: dict[str, str]
    strategies: dict[str, int]
    brokers: list[Broker]
    links: list[Link]
    publishers: list[Publisher]
    schema: str = PREFIX + "overlay/1"


class Trouble(msgspec.Struct):
    level: str  # good, warn, bad
    text: str
    broker: int | None = None


class Total(msgspec.Struct):
    brokers: int
    well: int
    in_s: Rate
    accepted_s: Rate
    delivered_s: Rate
    forwarded_s: Rate
    bypassed: Rate  # of forwards, by soft links: 0 to 1
    slow: int
    backlog: int
    clients: int
    subscriptions: int
    left_out: int
    health: Trouble


class Pulse(msgspec.Struct):
    """`b`: [i, flags, in_s, out_s, acc_s, dlv_s, busy, cpu, queue_ms, backlog, slow, clients, slowest_ms,
    memory_bytes, subscriptions, known, dropped, age_s]
    `l`: [i, ab_s, ba_s, ab_B, ba_B, unsettled, rtt_ms, gain]"""

    g: int
    t: float
    b: list[list[Any]]
    l: list[list[Any]]  # noqa: E741 the contract's name
    total: Total
    whole: bool = False  # every row is here
    schema: str = PREFIX + "pulse/1"


class Event(msgspec.Struct):
    n: int
    t: float
    broker: str
    kind: str
    level: str
    text: str
    fields: dict[str, Any] = {}
    schema: str = PREFIX + "event/1"


class SourceState(msgspec.Struct):
    state: str  # ok, slow, lost, ended
    asked: str
    age_s: float
    reason: str = ""
    kind: str = "broker"  # broker, recording, simulator
    schema: str = PREFIX + "source/1"


class Hello(msgspec.Struct):
    version: str
    role: str
    csrf: str
    every_s: float
    history_s: float
    now: float
    source: str
    actions: bool
    schema: str = PREFIX + "hello/1"


class Series(msgspec.Struct):
    of: str
    every_s: float
    t: list[float]
    v: list[Rate]
    schema: str = PREFIX + "series/1"


DOCUMENTS = (Hello, Overlay, Pulse, Event, SourceState, Series)


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schema of every document, by the name of its file."""
    return {kind.__name__.lower(): msgspec.json.schema(kind) for kind in DOCUMENTS}
