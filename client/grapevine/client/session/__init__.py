"""The client's session as a pure object; the shells and the simulator drive it."""

from grapevine.client.session.advertised import AdvertisementState
from grapevine.client.session.attachment import Attachment
from grapevine.client.session.away import Away
from grapevine.client.session.event import Event
from grapevine.client.session.incoming import AttachmentGap, SubscriptionState
from grapevine.client.session.message import Message
from grapevine.client.session.requests import Request
from grapevine.client.session.session import Session
from grapevine.client.session.settings import SessionSettings
from grapevine.client.session.state import State

__all__ = [
    "AdvertisementState",
    "Attachment",
    "Away",
    "Event",
    "AttachmentGap",
    "Message",
    "Request",
    "Session",
    "SessionSettings",
    "State",
    "SubscriptionState",
]

import grapevine.client.session.handlers  # noqa: F401 (fills the session's table)
