"""What a broker says and wants done: its outbox, its counters and its events, as behaviours fill them."""

from __future__ import annotations

from typing import Any

import msgspec

from grapevine.wire.messages import Message
from overlay.events import Events
from overlay.links.session import Link, Session
from overlay.outbox import Event, Outbox, Record


class Outputs:
    def __init__(self) -> None:
        self.out = Outbox()
        self.events = Events()
        self.refused: dict[str, int] = {}  # counters of what was not taken, by reason

    def send(self, message: Message, *links: Link) -> None:
        """To those of the links whose other side knows such a message."""
        since = message.gate.since
        if numbers := tuple(link.number for link in links if since <= link.protocol):
            self.out.sends.append((message, numbers))

    def tell(self, message: Message, *sessions: Session) -> None:
        """Send to those of the sessions that have a link."""
        self.send(message, *[session.link for session in sessions if session.link is not None])

    def keep(self, table: str, key: str, value: object | None) -> None:
        """A row that outlives this process; None ends it."""
        row = None if value is None else msgspec.json.encode(value)
        self.out.journal.append(Record(table, key, row))

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def note(self, now: float, text: str) -> None:
        """A line for the broker's log."""
        self.out.logs.append(Event(now, "note", "", 0, "", (), 0, 0, False, text))

    def event(self, now: float, kind: str, text: str, level: str = "info", **fields: Any) -> None:
        """Something has changed that an operator would want to know of (overlay/events.py)."""
        self.events.add(now, kind, text, level, fields)
