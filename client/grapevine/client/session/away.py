"""An attachment to a second broker, where a relocated client publishes while its subscriptions stay.

The driver opens a link to one of `addresses` for every attachment of `Session.moving.attachments`, tells
it `link_up`, `receive`, `link_down`, sends its `out`, and closes the link when the attachment is no longer
listed or says `hang_up`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grapevine.client.session.greeting import greeting
from grapevine.client.session.silence import Silence
from grapevine.client.session.state import State
from grapevine.wire import messages as wire
from grapevine.wire import relocation

if TYPE_CHECKING:
    from grapevine.client.session.session import Session

LOST_S = 10.0  # without a link for so long: the broker is taken for gone


class Away:
    """`stream` is what the broker has received of ours in this epoch, and up to where it takes more."""

    def __init__(self, session: Session, offer: relocation.Relocate, now: float) -> None:
        self.session = session
        self.broker = offer.path[-1]
        self.name = offer.name
        self.addresses = offer.addresses
        self.others: tuple[str, ...] = ()
        self.state = State.DOWN
        self.epoch: int | None = None
        self.out: list[wire.Message] = []
        self.stream = (0, 0)
        self.window = 1
        self.hang_up = False  # the link is of no use any more
        self.lost_at = now + LOST_S
        self._silence = Silence(session.settings.silent_s)
        self._attach_at = now
        self._proposed = 0

    def link_up(self, now: float) -> None:
        self.hang_up = False
        self._attach(now)

    def link_down(self, now: float) -> None:
        if self.state == State.ATTACHED:
            self.lost_at = now + LOST_S
        self.state = State.DOWN
        self.hang_up = False
        self.out.clear()

    def _attach(self, now: float) -> None:
        session = self.session
        self.state = State.ATTACHING
        self.out.clear()
        self._proposed = session.moving.propose()
        self._attach_at = now
        self._silence.heard(now)
        resume = None if self.epoch is None else wire.Resume(self.epoch, 0, 0)
        self.window = max(session.incoming.free, 1)
        self.out.append(greeting(session, self._proposed, self.window, resume, main=False))

    def receive(self, message: wire.Message, now: float) -> None:
        self._silence.heard(now)
        moving = self.session.moving
        if isinstance(message, wire.Attached):
            self._attached(message, now)
        elif isinstance(message, wire.Refuse | wire.GoAway):
            self.hang_up = True
            moving.gone(self, now)
        elif isinstance(message, wire.Reset):
            self._attach(now)
        elif isinstance(message, wire.Ping):
            self.out.append(wire.Pong(message.sent_at))
        elif isinstance(message, wire.Done):
            self.session.on_done(message, now)
        elif isinstance(message, wire.Marks | wire.Deliver):
            self._marked(message)
        elif isinstance(message, relocation.RoundTripsRequest):
            self.session.moving.asked(self, message)
        elif isinstance(message, relocation.Relocate):
            moving.on_relocate(self, message, now)
        elif isinstance(message, relocation.Relocated):
            moving.on_relocated(self, message, now)

    def _attached(self, attached: wire.Attached, now: float) -> None:
        wanted = self.epoch if attached.resumed else self._proposed
        if self.state != State.ATTACHING or attached.epoch != wanted:
            return
        self.state = State.ATTACHED
        self.epoch = attached.epoch
        self.others = attached.addresses
        outgoing = self.session.outgoing
        outgoing.extends = outgoing.extends and attached.protocol >= wire.ExtendedPublish.gate.since
        if attached.resumed:
            self.session.moving.resumed(self, attached)
        else:
            self.stream = (0, attached.credit)
            self.session.moving.attached(self, now)

    def _marked(self, marks: wire.Marks | wire.Deliver) -> None:
        if marks.epoch != self.epoch or self.state != State.ATTACHED:
            return
        if self.session.moving.place is self:
            if isinstance(marks, wire.Marks):
                self.session.cuts.take(marks.cuts, marks.cuts_first)
            self.session.marked(marks.received, marks.settled, marks.credit)
        else:
            self.stream = (self.stream[0], max(self.stream[1], marks.credit))

    def say(self, message: wire.Message) -> None:
        """At once, or never: what must not be lost is said again when the attachment is resumed."""
        if self.state == State.ATTACHED:
            self.out.append(message)

    # --- time -------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        settings = self.session.settings
        if self.state == State.ATTACHED:
            return self._silence.deadline()
        if self.state == State.ATTACHING:
            return min(self.lost_at, self._attach_at + settings.attach_s)
        return self.lost_at

    def tick(self, now: float) -> None:
        if self.state == State.ATTACHED:
            due = self._silence.due(now)
            if due == "give up":
                self.hang_up = True
            elif due:
                self.out.append(wire.Ping(now))
        elif now >= self.lost_at:
            self.lost_at = now + LOST_S
            self.session.moving.gone(self, now)
        elif self.state == State.ATTACHING and now >= self._attach_at + self.session.settings.attach_s:
            self.hang_up = True
            self._attach_at = now
