"""The links beside the main one: where a relocated client publishes while its subscriptions stay, and to a
broker that takes a client over.

There are none for most clients, and at most two while a publisher moves. Each belongs to an attachment of
the session's `moving`; it is dialled when the attachment is listed there, again when it breaks, and closed
when it is listed no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import zmq

from grapevine.client.link import DOWN, UP, Link
from grapevine.client.session import Attachment, Session, State
from grapevine.errors import Error
from grapevine.wire.codec import decode, encode
from grapevine.wire.errors import WireError

FRAMES = 32
DIAL_S = 3.0
REDIAL_S = 0.2
LAST_WORDS_MS = 1_000


class Branch:
    """The link of one attachment, or the time to dial it."""

    def __init__(self, away: Attachment) -> None:
        self.away = away
        self.link: Link | None = None
        self.up = False
        self.at = 0.0  # to dial, or to give up dialling
        self.unsent: deque[bytes] = deque()
        self._choice = 0

    def dial(self, keys: Path | None, now: float) -> None:
        addresses = self.away.addresses
        address = addresses[self._choice % len(addresses)] if addresses else ""
        self._choice += 1
        self.at = now + DIAL_S
        try:
            self.link = Link(address, keys)
        except Error:
            self.at = now + REDIAL_S

    def hang_up(self, now: float, linger_ms: int = 0) -> None:
        if self.link is not None:
            self.link.close(linger_ms)
        self.link, self.up = None, False
        self.at = now + REDIAL_S
        self.unsent.clear()

    def send(self) -> None:
        self.unsent.extend(map(encode, self.away.out))
        self.away.out.clear()
        assert self.link is not None
        while self.unsent:
            try:
                self.link.socket.send(self.unsent[0], zmq.NOBLOCK)
            except zmq.Again:
                return
            self.unsent.popleft()


class Branches:
    def __init__(self, session: Session, keys: Path | None) -> None:
        self.session = session
        self.open: dict[Attachment, Branch] = {}
        self.relinked: Callable[[], None] = lambda: None
        self._keys = keys

    @property
    def needed(self) -> bool:
        return bool(self.open or self.session.moving.attachments or self.session.moving.closing)

    def links(self) -> list[Link]:
        return [branch.link for branch in self.open.values() if branch.link is not None]

    def turn(self, now: float) -> bool:
        """Dial, read, close; True if there is more to read."""
        self._close(now)
        for away in self.session.moving.attachments:
            if away not in self.open:
                self.open[away] = Branch(away)
        more = False
        for branch in list(self.open.values()):
            if branch.link is None:
                if now >= branch.at:
                    branch.dial(self._keys, now)
                    self.relinked()
            else:
                more |= self._hear(branch, branch.link, now)
        return more

    def _close(self, now: float) -> None:
        moving = self.session.moving
        closing, moving.closing = moving.closing, []
        for away in closing:
            if (branch := self.open.pop(away, None)) is not None:
                if branch.up:
                    branch.send()
                branch.hang_up(now, LAST_WORDS_MS)
                self.relinked()

    def _hear(self, branch: Branch, link: Link, now: float) -> bool:
        news = link.news()
        if news == UP:
            branch.up = True
            branch.away.link_up(now)
        if news == DOWN or branch.away.hang_up or (not branch.up and now >= branch.at):
            self._lose(branch, now)
            return False
        return branch.up and self._drain(branch, link, now)

    def _drain(self, branch: Branch, link: Link, now: float) -> bool:
        for _ in range(FRAMES):
            try:
                frame = link.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return False
            try:
                branch.away.receive(decode(frame), now)
            except WireError:
                self._lose(branch, now)
                return False
        return True

    def _lose(self, branch: Branch, now: float) -> None:
        branch.hang_up(now)
        branch.away.link_down(now)
        self.relinked()

    def flush(self) -> None:
        self.session.moving.flush()
        for branch in self.open.values():
            if branch.up:
                branch.send()
            else:
                branch.away.out.clear()

    def next_deadline(self) -> float | None:
        waiting = [branch.at for branch in self.open.values() if not branch.up]
        return min(waiting, default=None)

    def take(self, away: Attachment) -> Branch | None:
        """Its link becomes the main one."""
        return self.open.pop(away, None)

    def close(self, now: float) -> None:
        for branch in self.open.values():
            if branch.up:
                branch.send()
            branch.hang_up(now, LAST_WORDS_MS)
            branch.away.state = State.CLOSED
        self.open.clear()
