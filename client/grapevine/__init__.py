"""Client library of grapevine, a content-based publish/subscribe broker over ZeroMQ.

    with grapevine.connect("tcp://127.0.0.1:7470", name="quotes") as client:
        client.publish({"class": "STOCK", "symbol": "YHOO", "volume": 6200}, b"payload")

`grapevine.aio.connect` is the same for asyncio. Errors are one tree under `grapevine.Error`. What needs
ZeroMQ is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from grapevine.errors import (
    ChannelError,
    Closed,
    Error,
    FilterError,
    Invalid,
    NoResponders,
    NotAllowed,
    ParameterError,
    Timeout,
    Undelivered,
    Unreachable,
)

if TYPE_CHECKING:
    import grapevine.aio as aio
    from grapevine.client.channel_readers import ChannelSubscription
    from grapevine.client.durable import DurableSubscription
    from grapevine.client.groups import GroupSubscription
    from grapevine.client.reading import Advertisement, Subscription
    from grapevine.client.session.channels import Result
    from grapevine.client.session.durable import Gap
    from grapevine.client.session.incoming import AttachmentGap
    from grapevine.client.session.message import Message
    from grapevine.client.sync import Client, connect

__version__ = "0.1.0"

__all__ = [
    "Advertisement",
    "AttachmentGap",
    "ChannelError",
    "ChannelSubscription",
    "Client",
    "Closed",
    "DurableSubscription",
    "Error",
    "FilterError",
    "Gap",
    "GroupSubscription",
    "Invalid",
    "Message",
    "NoResponders",
    "NotAllowed",
    "ParameterError",
    "Result",
    "Subscription",
    "Timeout",
    "Undelivered",
    "Unreachable",
    "aio",
    "connect",
]

_LATE = {
    "Advertisement": "grapevine.client.reading",
    "ChannelSubscription": "grapevine.client.channel_readers",
    "Client": "grapevine.client.sync",
    "AttachmentGap": "grapevine.client.session.incoming",
    "DurableSubscription": "grapevine.client.durable",
    "GroupSubscription": "grapevine.client.groups",
    "Gap": "grapevine.client.session.durable",
    "Message": "grapevine.client.session.message",
    "Result": "grapevine.client.session.channels",
    "Subscription": "grapevine.client.reading",
    "connect": "grapevine.client.sync",
}


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("grapevine.aio")
    if name in _LATE:
        value = getattr(import_module(_LATE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'grapevine' has no attribute {name!r}")
