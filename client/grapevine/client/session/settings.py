"""What a client's session is told at start."""

from __future__ import annotations

import msgspec

from grapevine.wire.messages import DROP_OLDEST


class SessionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    publish_window: int = 65_536  # publications not settled yet; a full window holds the publisher back
    receive_window: int = 32_768  # deliveries that wait in this process for the application
    on_slow: int = DROP_OLDEST  # what the broker does when this client's queue there is full
    place: str = ""  # have a coordinator choose the broker: a word of wire.PLACES
    location: tuple[float, float] | None = None  # latitude and longitude, for that
    attach_s: float = 5.0  # an Attach without an answer is repeated after this
    silent_s: float = 10.0  # a broker that says nothing for so long is taken for gone; asked at half of it
