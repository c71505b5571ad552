"""Links beside the overlay: to one broker that has a role, dialled by its address, never resumed.

They carry no publications. What was under way when one broke is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from grapevine.wire.messages import Hello, Refuse
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.dialling import Dial
from overlay.links.handshake import Handshake
from overlay.links.session import Kind, Link, Remote, Session


class BesideSession(Remote):
    __slots__ = ()

    def __init__(self, core: Core, broker: int, name: str) -> None:
        super().__init__(core, Kind.BESIDE, broker, name)


S = TypeVar("S", bound=BesideSession)


class BesideSessions(Quiet, Generic[S]):
    """A purpose of links; `serves`: this broker is `what` others dial it for."""

    def __init__(self, handshake: Handshake, number: int, made: type[S], serves: bool, what: str) -> None:
        self.handshake = handshake
        self.number = number
        self.made = made
        self.serves = serves
        self.what = what
        self.sessions: dict[tuple[int, bool], S] = {}  # (broker, dialled by us)
        handshake.register(self)

    def attach(self, core: Core) -> None:
        self.core = core

    def offered(self, dial: Dial) -> None:
        return None

    def refusal(self, link: Link, hello: Hello, now: float) -> Refuse | None:
        return None if self.serves else Refuse("purpose", f"{self.core.name} is no {self.what}")

    def accept(self, link: Link, hello: Hello, now: float) -> None:
        self.core.send(self.handshake.hello(hello.epoch, True, None, self.number), link)
        self._establish(link, hello, dialled=False, now=now)

    def objection(self, hello: Hello) -> None:
        return None

    def answered(self, link: Link, hello: Hello, greeted: Callable[[Any, float], None], now: float) -> None:
        greeted(self._establish(link, hello, dialled=True, now=now), now)

    def _establish(self, link: Link, hello: Hello, *, dialled: bool, now: float) -> S:
        """Always a new session; an older one to the same broker ends here."""
        key = (hello.broker, dialled)
        if (old := self.sessions.get(key)) is not None:
            self.core.lose(old, now)
        session = self.sessions[key] = self.made(self.core, hello.broker, hello.name)
        self.handshake.establish(session, link, hello, dialled, now)
        session.begin_epoch(hello.epoch)
        self.handshake.liveness.watch(session, link, now)
        self.handshake.announce(session, now)
        return session

    def link_lost(self, session: Session, now: float) -> None:
        for key, known in list(self.sessions.items()):
            if known is session:
                del self.sessions[key]
