"""What is said before the first publication on each link: who publishes, and where on the ring we are.

A receiver must know where its sender is to see whether the sender takes it for a topic's root; unless it is
told otherwise a broker is where its id is.
"""

from __future__ import annotations

from collections.abc import Iterable

from grapevine.wire.chord import PublisherIs
from grapevine.wire.messages import Publication
from grapevine.wire.reconfiguration import RingPlace
from overlay.chord.membership import Membership
from overlay.chord.router import ChordRouter
from overlay.core import Core
from overlay.links.session import Session

TOLD_MOST = 65_536  # publishers on one link; then all are named again when they next publish


class Introductions:
    def __init__(self, router: ChordRouter, membership: Membership) -> None:
        self.router, self.membership = router, membership
        self._told: dict[Session, set[int]] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(PublisherIs, self.on_publisher)

    def forget(self, session: Session) -> None:
        """What was on its way may be lost."""
        self._told.pop(session, None)

    def introduce(self, session: Session, run: Iterable[Publication]) -> None:
        if (told := self._told.get(session)) is None:
            told = self._told[session] = set()
            if self.membership.me.position != self.core.id:
                self.core.tell(RingPlace(self.membership.me.position), session)
        for publisher in {publication.publisher for publication in run} - told:
            if (known := self.router.introduction(publisher)) is not None:
                if len(told) >= TOLD_MOST:
                    told.clear()
                told.add(publisher)
                self.core.tell(PublisherIs(publisher, *known), session)

    def on_publisher(self, session: Session, message: PublisherIs, now: float) -> None:
        self.router.names.learn(message.publisher, message.name, message.home_name)
