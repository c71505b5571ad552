"""The first word of every attachment of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grapevine.wire.messages import PROTOCOL, PROTOCOL_OLDEST, Attach, Resume

if TYPE_CHECKING:
    from grapevine.client.session.session import Session


def greeting(session: Session, epoch: int, window: int, resume: Resume | None, main: bool) -> Attach:
    """`main`: a coordinator may choose another broker for it."""
    settings = session.settings
    return Attach(
        PROTOCOL_OLDEST,
        PROTOCOL,
        session.name,
        session.id,
        session.incarnation,
        epoch,
        window,
        settings.on_slow,
        resume,
        settings.place if main else "",
        settings.location if main else None,
    )
