"""Who wants results of a channel at a broker: its clients' subscriptions, and what it has at the back end for
them."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from grapevine.wire.channels import SubscribeChannel
from overlay.links.session import Session

WINDOW_MIN = 4_096
WINDOW_MOST = 64 << 20  # of rows that one subscriber lets wait in a broker
TITLE_MAX = 40  # characters of a value in a picture


class FrontEndSubscription:
    __slots__ = (
        "client", "number", "channel", "parameters", "kept", "window",
        "be", "asked", "located", "sent", "taken", "acknowledged", "flight", "flight_bytes", "pulling",
    )  # fmt: skip

    def __init__(self, client: Session, message: SubscribeChannel) -> None:
        self.client = client
        self.number = message.number
        self.channel = message.channel
        self.parameters = message.parameters
        self.kept = message.kept
        self.be = 0  # none before the back end has confirmed it
        self.asked = 0  # the request, while the back end is to say where it goes on
        self.acknowledged = 0  # the cursor that the back end knows
        self.begin(message)

    def begin(self, message: SubscribeChannel) -> None:
        """The client says up to where rows have come to it. How far its program has taken them, which is
        where it goes on after a crash, it says on its own."""
        self.window = min(max(message.window, WINDOW_MIN), WINDOW_MOST)
        self.located = True  # False from a broken link on: what was under way may be lost
        self.sent = max(message.after - 1, 0)
        self.taken = 0
        self.flight: deque[tuple[int, int]] = deque()  # (position, bytes) that are not taken
        self.flight_bytes = 0
        self.pulling = 0  # the request of its own pull

    @property
    def room(self) -> int:
        return self.window - self.flight_bytes

    @property
    def served(self) -> bool:
        """Rows may be sent: the client has said on this link up to where it has them. A session that is
        resumed has not yet, and what is sent then would hide what was lost."""
        return self.located and not self.asked and self.client.link is not None

    def took(self, position: int) -> None:
        self.taken = max(self.taken, min(position, self.sent))
        while self.flight and self.flight[0][0] <= position:
            self.flight_bytes -= self.flight.popleft()[1]


class Wanted:
    """A back-end subscription here."""

    __slots__ = ("fes", "executed", "pulling")

    def __init__(self, executed: int) -> None:
        self.fes: dict[FrontEndSubscription, None] = {}
        self.executed = executed  # the last execution that may have something for it
        self.pulling = 0  # the request under way

    @property
    def title(self) -> str:
        """The channel with the values of its parameters, as a person would write it."""
        fe = next(iter(self.fes), None)
        if fe is None:
            return ""
        try:
            values = msgspec.msgpack.decode(fe.parameters, type=dict[str, Any]).values()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return fe.channel
        return f"{fe.channel}({', '.join(str(value)[:TITLE_MAX] for value in values)})"
