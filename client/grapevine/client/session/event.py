"""What a session asks of its driver."""

from __future__ import annotations

from typing import Any, NamedTuple

from grapevine.wire import relocation


class Event(NamedTuple):
    """Something the driver may have to act on: "attached", "resumed", "refused" (reason, text), "go-away"
    (other addresses), "unanswered" and "silent" (nobody at the other end: dial again), "promoted" (an
    attachment of `moving` is the main one from now on), "gap" (this subscription may have missed something),
    "elsewhere" (the group that this session reads is at a broker with these addresses), "round-trips" (asked:
    a driver that can measure them says the answer to the attachment that it came from)."""

    what: str
    reason: str = ""
    text: str = ""
    addresses: tuple[str, ...] = ()
    asked: tuple[Any, relocation.RoundTripsRequest] | None = None
    subscription: Any = None  # its SubscriptionState
