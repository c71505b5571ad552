"""An attachment to a second broker, where a relocated client publishes while its subscriptions stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grapevine.client.session.attachment import Attachment
from grapevine.client.session.state import State
from grapevine.wire import messages as wire
from grapevine.wire import relocation

if TYPE_CHECKING:
    from grapevine.client.session.session import Session


class Away(Attachment):
    """`stream` is what the broker has received of ours in this epoch, and up to where it takes more."""

    def __init__(self, session: Session, offer: relocation.Relocate, now: float) -> None:
        super().__init__(session, offer.path[-1], offer.name, offer.addresses, now)
        self.stream = (0, 0)

    def take(self, message: wire.Message, now: float) -> None:
        moving = self.session.moving
        if isinstance(message, wire.Done):
            self.session.on_done(message, now)
        elif isinstance(message, wire.Marks | wire.Deliver):
            self._marked(message)
        elif isinstance(message, relocation.Relocate):
            moving.on_relocate(self, message, now)
        elif isinstance(message, relocation.Relocated):
            moving.on_relocated(self, message, now)

    def began(self, attached: wire.Attached, now: float) -> None:
        self._extends(attached)
        self.stream = (0, attached.credit)
        self.session.moving.attached(self, now)

    def resumed(self, attached: wire.Attached, now: float) -> None:
        self._extends(attached)
        self.session.moving.resumed(self, attached)

    def _extends(self, attached: wire.Attached) -> None:
        outgoing = self.session.outgoing
        outgoing.extends = outgoing.extends and attached.protocol >= wire.ExtendedPublish.gate.since

    def gone(self, now: float, text: str) -> None:
        self.session.moving.gone(self, now)

    def _marked(self, marks: wire.Marks | wire.Deliver) -> None:
        if marks.epoch != self.epoch or self.state != State.ATTACHED:
            return
        if self.session.moving.place is self:
            if isinstance(marks, wire.Marks):
                self.session.cuts.take(marks.cuts, marks.cuts_first)
            self.session.marked(marks.received, marks.settled, marks.credit)
        else:
            self.stream = (self.stream[0], max(self.stream[1], marks.credit))
