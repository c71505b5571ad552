"""The link between a broker and the back end, beside the overlay: dialled by the broker, never resumed.

It carries no publications. What was under way when it broke is asked again by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grapevine.wire.messages import Hello, Message, Refuse
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.dialling import Dial
from overlay.links.handshake import BACKEND, Handshake
from overlay.links.session import Kind, Link, Remote, Session

Handlers = dict[type[Any], Callable[[Any, Any, float], None]]


class BackendSession(Remote):
    __slots__ = ()

    def __init__(self, core: Core, broker: int, name: str) -> None:
        super().__init__(core, Kind.BACKEND, broker, name)


class Inside(BackendSession):
    """A back end's own subscribers: the two behaviours hand each other messages, in their order, and never in
    the middle of what the other does."""

    __slots__ = ("_back", "_front")

    def __init__(self, core: Core) -> None:
        super().__init__(core, core.id, core.name)
        self._front: Handlers = {}
        self._back: Handlers = {}

    def join(self, front: Handlers, back: Handlers) -> None:
        self._front, self._back = front, back

    def to_front(self, message: Message) -> None:
        handler = self._front[type(message)]
        self.core.timers.at(self.core.now, lambda now: handler(self, message, now))

    def to_back(self, message: Message) -> None:
        handler = self._back[type(message)]
        self.core.timers.at(self.core.now, lambda now: handler(self, message, now))


class BackendSessions(Quiet):
    """A purpose of links; `serves`: this broker is a back end."""

    number = BACKEND

    def __init__(self, handshake: Handshake, serves: bool) -> None:
        self.handshake = handshake
        self.serves = serves
        self.sessions: dict[tuple[int, bool], BackendSession] = {}  # (broker, dialled by us)
        handshake.register(self)

    def attach(self, core: Core) -> None:
        self.core = core

    def offered(self, dial: Dial) -> None:
        return None

    def refusal(self, link: Link, hello: Hello, now: float) -> Refuse | None:
        return None if self.serves else Refuse("purpose", f"{self.core.name} is no back end")

    def accept(self, link: Link, hello: Hello, now: float) -> None:
        self.core.send(self.handshake.hello(hello.epoch, True, None, BACKEND), link)
        self._establish(link, hello, dialled=False, now=now)

    def objection(self, hello: Hello) -> None:
        return None

    def answered(self, link: Link, hello: Hello, greeted: Callable[[Any, float], None], now: float) -> None:
        greeted(self._establish(link, hello, dialled=True, now=now), now)

    def _establish(self, link: Link, hello: Hello, *, dialled: bool, now: float) -> BackendSession:
        """Always a new session; an older one to the same broker ends here."""
        key = (hello.broker, dialled)
        if (old := self.sessions.get(key)) is not None:
            self.core.lose(old, now)
        session = self.sessions[key] = BackendSession(self.core, hello.broker, hello.name)
        self.handshake.establish(session, link, hello, dialled, now)
        session.begin_epoch(hello.epoch)
        self.handshake.liveness.watch(session, link, now)
        self.handshake.announce(session, now)
        return session

    def link_lost(self, session: Session, now: float) -> None:
        for key, known in list(self.sessions.items()):
            if known is session:
                del self.sessions[key]
