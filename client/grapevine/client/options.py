"""What `connect` takes, for both shells: brokers, identity, windows, keys."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from grapevine.client.engine import Engine
from grapevine.client.keys import default_directory
from grapevine.client.link import check_address
from grapevine.client.session import Session, SessionSettings
from grapevine.errors import FilterError, Invalid
from grapevine.filters import Filter, parse
from grapevine.wire.limits import NAME_BYTES
from grapevine.wire.messages import DISCONNECT, DROP_NEWEST, DROP_OLDEST, PLACES

CONNECT_S = 10.0
CONFIRM_S = 30.0
CLOSE_S = 5.0
PUBLISH_WINDOW = 65_536
RECEIVE_WINDOW = 32_768
POLICIES = {"drop_oldest": DROP_OLDEST, "drop_newest": DROP_NEWEST, "disconnect": DISCONNECT}

Brokers = str | Sequence[str]
Keys = str | os.PathLike[str] | Literal[False] | None
Slow = Literal["drop_oldest", "drop_newest", "disconnect"]
Until = Literal["accepted", "persisted", "settled"]
Confirm = Literal["confirmed", "local"]
Place = bool | Literal["nearest", "round_robin", "random"]


def make_engine(
    brokers: Brokers,
    name: str | None,
    on_slow: str,
    publish_window: int,
    receive_window: int,
    keys: Keys,
    incarnation: int | None,
    place: Place = False,
    location: Sequence[float] | None = None,
) -> Engine:
    addresses = [brokers] if isinstance(brokers, str) else list(brokers)
    if not addresses:
        raise Invalid("no broker to connect to")
    for address in addresses:
        check_address(address)
    if on_slow not in POLICIES:
        raise Invalid(f"on_slow={on_slow!r} is none of {', '.join(POLICIES)}")
    if publish_window < 1 or receive_window < 1:
        raise Invalid("a window has room for one at least")
    if incarnation is None:
        incarnation = secrets.randbits(63)
    settings = SessionSettings(
        publish_window, receive_window, POLICIES[on_slow], _place(place), _location(location)
    )
    session = Session(_name(name), incarnation, settings)
    session.channels.kept = name is not None
    return Engine(addresses, session, _directory(keys))


def _name(name: str | None) -> str:
    if name is None:
        return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    if not name or len(name.encode()) > NAME_BYTES:
        raise Invalid(f"a client's name has 1 to {NAME_BYTES} bytes")
    return name


def _place(place: Place) -> str:
    word = "assigned" if place is True else place or ""
    if word not in PLACES:
        raise Invalid(f"place={place!r} is none of True, {', '.join(PLACES[2:])}")
    return word


def _location(location: Sequence[float] | None) -> tuple[float, float] | None:
    if location is None:
        return None
    try:
        north, east = map(float, location)
    except (TypeError, ValueError):
        raise Invalid(f"location={location!r} is not latitude and longitude") from None
    if not (-90 <= north <= 90 and -180 <= east <= 180):
        raise Invalid(f"location={location!r}: latitude is within 90 degrees, longitude within 180")
    return (north, east)


def _directory(keys: Keys) -> Path | None:
    if keys is False:
        return None
    return default_directory() if keys is None else Path(keys)


def as_filter(filter: str | Filter) -> Filter:
    if isinstance(filter, str):
        return parse(filter)
    if not isinstance(filter, Filter):
        raise FilterError(f'a filter is a text such as "volume > 1000", not {type(filter).__name__}')
    return filter
