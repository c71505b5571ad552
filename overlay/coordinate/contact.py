"""How a broker reaches the coordinator: at the address that it was given, else by asking the whole overlay.

The address is dialled for each question, which are few; who answers there and is no coordinator refuses, as
does who is too old to know such links. A coordinator that has heard a question is not asked a second time: it
would count for another.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.beside import BesideSession, BesideSessions
from overlay.links.handshake import COORDINATOR, Handshake
from overlay.links.session import Session

ASK_S = 3.0
Answered = Callable[[list[Report], float], None]


class CoordinatorSession(BesideSession):
    __slots__ = ()


class Contact(Quiet):
    """`hosts`: this broker is the coordinator."""

    def __init__(self, handshake: Handshake, census: Census, hosts: bool, address: str) -> None:
        self.census = census
        self.hosts = hosts
        self.address = address
        self.sessions = BesideSessions(handshake, COORDINATOR, CoordinatorSession, hosts, "coordinator")

    def attach(self, core: Core) -> None:
        self.core = core

    def ask(self, question: str, argument: bytes, done: Answered, now: float) -> None:
        def everybody(later: float) -> None:
            self.census.ask(question, None, later, done, argument, ASK_S)

        def greeted(session: CoordinatorSession, later: float) -> None:
            def answered(reports: list[Report], later: float) -> None:
                self._close(session, later)
                done(reports, later)

            self.census.ask(question, session, later, answered, argument, ASK_S)

        def failed(reason: str, text: str, later: float) -> None:
            self.core.note(later, f"no coordinator at {self.address}: {text}")
            everybody(later)

        if self.hosts or not self.address:
            everybody(now)
        else:
            self.sessions.handshake.dial((self.address,), greeted, failed, now, COORDINATOR)

    def _close(self, session: CoordinatorSession, now: float) -> None:
        """Not from inside what its link has brought."""
        self.core.timers.at(now, lambda later: self.core.lose(session, later))

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, CoordinatorSession):
            self._close(session, now)
