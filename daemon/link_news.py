"""What happens to links, told in the log by the names of who is at their other end."""

from __future__ import annotations

from daemon.logs import log
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Kind, Session


class LinkNews(Quiet):
    name = ""

    def attach(self, core: Core) -> None:
        self.core = core

    def link_up(self, session: Session, now: float) -> None:
        level = log.debug if session.kind is Kind.SOFT else log.info
        level("%s is connected", _called(session))

    def link_down(self, session: Session, now: float) -> None:
        kept_s = self.core.settings.links.lost_after_s
        level = log.info if session.kind is Kind.PEER else log.debug
        level("%s is disconnected; what is for it is kept for %g s", _called(session), kept_s)

    def link_lost(self, session: Session, now: float) -> None:
        level = log.warning if session.kind is Kind.PEER else log.debug
        level("%s is given up", _called(session))


KINDS = {Kind.PEER: "neighbour", Kind.SOFT: "soft link to or from"}


def _called(session: Session) -> str:
    return f"{KINDS.get(session.kind, 'client')} {session.name}"
