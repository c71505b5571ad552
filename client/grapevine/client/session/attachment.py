"""An attachment beside the main one: its link, its greeting, its silence.

The driver opens a link to one of `addresses` for every attachment of `Session.moving.attachments`, tells
it `link_up`, `receive`, `link_down`, sends its `out`, and closes the link when the attachment is no longer
listed or says `hang_up`. What it is for is its subclass's business: `began` and `resumed` when the broker has
taken it, `take` what comes else, `gone` when the broker is not there any more or wants us no more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from grapevine.client.session.greeting import greeting
from grapevine.client.session.silence import Silence
from grapevine.client.session.state import State
from grapevine.wire import messages as wire
from grapevine.wire import relocation

if TYPE_CHECKING:
    from grapevine.client.session.session import Session

LOST_S = 10.0  # without a link for so long: the broker is taken for gone


class Attachment(ABC):
    def __init__(
        self, session: Session, broker: int, name: str, addresses: tuple[str, ...], now: float
    ) -> None:
        self.session = session
        self.broker = broker
        self.name = name
        self.addresses = addresses
        self.others: tuple[str, ...] = ()
        self.state = State.DOWN
        self.epoch: int | None = None
        self.out: list[wire.Message] = []
        self.window = 1
        self.hang_up = False  # the link is of no use any more
        self.lost_at = now + LOST_S
        self._silence = Silence(session.settings.silent_s)
        self._attach_at = now
        self._proposed = 0

    # --- for subclasses -----------------------------------------------------------------------------

    @abstractmethod
    def began(self, attached: wire.Attached, now: float) -> None:
        """Anew: the broker knows nothing of us."""

    @abstractmethod
    def resumed(self, attached: wire.Attached, now: float) -> None:
        """Both sides know where they were."""

    @abstractmethod
    def gone(self, now: float, text: str) -> None:
        """The broker is not there any more, or wants us no more."""

    @abstractmethod
    def take(self, message: wire.Message, now: float) -> None:
        """What else comes from it."""

    def taken(self) -> int:
        """Deliveries of the broker that are here."""
        return 0

    # --- the link -----------------------------------------------------------------------------------

    def link_up(self, now: float) -> None:
        self.hang_up = False
        self.attach(now)

    def link_down(self, now: float) -> None:
        if self.state == State.ATTACHED:
            self.lost_at = now + LOST_S
        self.state = State.DOWN
        self.hang_up = False
        self.out.clear()

    def attach(self, now: float) -> None:
        session = self.session
        self.state = State.ATTACHING
        self.out.clear()
        self._proposed = session.moving.propose()
        self._attach_at = now
        self._silence.heard(now)
        taken = self.taken()
        resume = None if self.epoch is None else wire.Resume(self.epoch, taken, taken)
        self.window = max(session.incoming.free, 1)
        self.out.append(greeting(session, self._proposed, self.window, resume, main=False))

    def receive(self, message: wire.Message, now: float) -> None:
        self._silence.heard(now)
        if isinstance(message, wire.Attached):
            self._attached(message, now)
        elif isinstance(message, wire.Refuse | wire.GoAway):
            self.hang_up = True
            self.gone(now, message.text if isinstance(message, wire.Refuse) else f"{self.name} stops")
        elif isinstance(message, wire.Reset):
            self.attach(now)
        elif isinstance(message, wire.Ping):
            self.out.append(wire.Pong(message.sent_at))
        elif isinstance(message, relocation.RoundTripsRequest):
            self.session.moving.asked(self, message)
        else:
            self.take(message, now)

    def _attached(self, attached: wire.Attached, now: float) -> None:
        wanted = self.epoch if attached.resumed else self._proposed
        if self.state != State.ATTACHING or attached.epoch != wanted:
            return
        self.state = State.ATTACHED
        self.epoch = attached.epoch
        self.others = attached.addresses
        if attached.resumed:
            self.resumed(attached, now)
        else:
            self.began(attached, now)

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
            self.gone(now, f"{self.name} cannot be reached")
        elif self.state == State.ATTACHING and now >= self._attach_at + self.session.settings.attach_s:
            self.hang_up = True
            self._attach_at = now
