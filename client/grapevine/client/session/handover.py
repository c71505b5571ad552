"""The client's part of a handover: attach elsewhere as well, hold what comes from there, go over.

Our broker offers another one. We attach there, make every subscription there too, and hold what that broker
delivers; ours goes on delivering. When all are confirmed there we say so (a *round*). Our broker's answer
says up to which of its deliveries we must go on here: everything that was accepted before the round is among
them, everything later is among those held. So what is held comes after, and what came by both ways is dropped
by its number. Until then we are our old broker's client, and if anything goes wrong we stay it: it has
delivered everything all the time.

A client that also publishes here first waits, without sending more, until what it has sent is settled; its
advertisements and what is left then go to the new broker as after a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grapevine.client.session.attachment import Attachment
from grapevine.client.session.incoming import SubscriptionState
from grapevine.client.session.moving import ADVERTISING
from grapevine.client.session.state import State
from grapevine.wire import messages as wire
from grapevine.wire.handover import MOVED, STAYS, HandoverDone, HandoverEnd, HandoverOffer, HandoverReady

if TYPE_CHECKING:
    from grapevine.client.session.session import Session

WAIT_S = 60.0  # from the offer to the end
SETTLE_S = 15.0  # of it, for what we have published
HELD_MOST = 262_144  # deliveries; beyond them the new broker gets no credit


class Target(Attachment):
    """The attachment to the broker that takes us over."""

    def __init__(self, handover: Handover, offer: HandoverOffer, now: float) -> None:
        super().__init__(handover.session, offer.broker, offer.broker_name, offer.addresses, now)
        self.handover = handover
        self.greeting: wire.Attached | None = None
        self.asked: dict[int, int] = {}  # number of a subscription by that of the request
        self.confirmed: set[int] = set()
        self.withdrawn: dict[int, int] = {}  # the same of those that are to end there
        self.held: list[wire.Deliver] = []
        self.held_count = 0
        self.received = self.acknowledged = 0  # deliveries of this epoch
        self.credit = self.credit_granted = 0
        self.merged = False  # it is the main attachment now; its link will be in a moment

    def receive(self, message: wire.Message, now: float) -> None:
        if self.merged:
            self.session.receive(message, now)
        else:
            super().receive(message, now)

    def taken(self) -> int:
        return self.received

    # --- its broker -----------------------------------------------------------------------------------

    def began(self, attached: wire.Attached, now: float) -> None:
        """What an earlier epoch had sent is not needed: our old broker has it."""
        self.greeting = attached
        self.asked.clear()
        self.withdrawn.clear()
        self.confirmed.clear()
        self.held.clear()
        self.held_count = self.received = self.acknowledged = 0
        self.credit = self.credit_granted = self.window
        for subscription in self.session.incoming.subscriptions.values():
            if subscription.confirmed:
                self.subscribe(subscription)
        self.handover.began(now)

    def resumed(self, attached: wire.Attached, now: float) -> None:
        self.acknowledged = -1
        subscriptions = self.session.incoming.subscriptions
        for request, number in self.asked.items():
            if (subscription := subscriptions.get(number)) is not None:
                self.out.append(wire.ClientSubscribe(request, number, subscription.filter))
        self.out += [wire.ClientUnsubscribe(request, number) for request, number in self.withdrawn.items()]

    def gone(self, now: float, text: str) -> None:
        self.handover.stay(text)

    def take(self, message: wire.Message, now: float) -> None:
        if isinstance(message, wire.Deliver):
            self._hold(message, now)
        elif isinstance(message, wire.Done):
            self._done(message, now)
        elif isinstance(message, wire.Names):
            self.session.on_names(message, now)
        elif isinstance(message, wire.Dropped) and message.total:
            self.handover.stay(f"{self.name} has dropped deliveries meanwhile")

    def _hold(self, deliver: wire.Deliver, now: float) -> None:
        if deliver.epoch != self.epoch or self.state != State.ATTACHED:
            return
        skip = self.received + 1 - deliver.first
        if skip < 0:
            self.attach(now)
            return
        fresh = len(deliver.publications) - skip
        if fresh > 0:
            if skip:
                deliver.publications = deliver.publications[skip:]
                deliver.subscriptions = deliver.subscriptions[skip:]
            self.held.append(deliver)
            self.held_count += fresh
            self.received += fresh

    def _done(self, done: wire.Done, now: float) -> None:
        if done.outcome == "local":
            return
        self.withdrawn.pop(done.request, None)
        if (number := self.asked.pop(done.request, None)) is None:
            return
        if done.outcome == "confirmed":
            self.confirmed.add(number)
            self.handover.look(now)
        else:
            self.handover.stay(f"{self.name} refuses a subscription: {done.text or done.outcome}")

    # --- our subscriptions ----------------------------------------------------------------------------

    def subscribe(self, subscription: SubscriptionState) -> None:
        """After it was confirmed by our old broker: so whatever comes by the new one comes by the old one,
        too, and nothing that is held is older than what we have had."""
        if self.epoch is None or subscription.number in (*self.confirmed, *self.asked.values()):
            return  # or it will be when this broker knows us
        request = self.session.requests.number()
        self.asked[request] = subscription.number
        self.say(wire.ClientSubscribe(request, subscription.number, subscription.filter))

    def unsubscribe(self, number: int) -> None:
        self.confirmed.discard(number)
        self.asked = {request: asked for request, asked in self.asked.items() if asked != number}
        if self.epoch is not None:
            request = self.session.requests.number()
            self.withdrawn[request] = number
            self.say(wire.ClientUnsubscribe(request, number))

    @property
    def complete(self) -> bool:
        return self.state == State.ATTACHED and self.session.incoming.subscriptions.keys() <= self.confirmed

    def flush(self) -> None:
        """What is held is acknowledged: it will not be lost, whoever gets it in the end."""
        if self.state != State.ATTACHED or self.epoch is None:
            return
        self.credit = max(self.credit, self.received + min(self.window, HELD_MOST - self.held_count))
        if self.received != self.acknowledged or (self.credit - self.credit_granted) * 4 >= self.window:
            self.acknowledged, self.credit_granted = self.received, self.credit
            self.out.append(wire.Marks(self.epoch, self.received, self.received, self.credit))


class Handover:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.target: Target | None = None
        self.number = 0  # the broker's, of the one under way
        self.round = 0
        self.asked_round = 0  # the last that we have said to be ready for
        self.position: int | None = None  # of the old broker's last delivery, once it has said so
        self.moved = self.stayed = 0
        self._deadline = 0.0
        self._settle_by: float | None = None
        self._ended: HandoverEnd | None = None

    @property
    def publishing_paused(self) -> bool:
        return self._settle_by is not None

    # --- our broker ---------------------------------------------------------------------------------

    def on_offer(self, offer: HandoverOffer, now: float) -> None:
        if self.target is not None and offer.number == self.number:
            self._say_ready()
        elif self._ended is not None and self._ended.number == offer.number:
            self.session.say(self._ended)
        elif why := self._unwilling(offer):
            self.session.say(HandoverEnd(offer.number, STAYS, why))
        else:
            self.number = offer.number
            self.round = self.asked_round = 0
            self.position = self._settle_by = None
            self._deadline = now + WAIT_S
            self.target = Target(self, offer, now)

    def _unwilling(self, offer: HandoverOffer) -> str:
        moving = self.session.moving
        if self.target is not None or moving.move is not None:
            return "it is moving already"
        if offer.broker == self.session.broker:
            return "it is there already"
        if not moving.here and moving.place.broker == offer.broker:
            return "it publishes there: its two attachments cannot be one yet"
        if any(not reader.ended for reader in self.session.durables.all):
            return f"its durable subscriptions are kept by {self.session.broker_name}"
        return ""

    def on_done(self, done: HandoverDone, now: float) -> None:
        if self.target is not None and (done.number, done.round) == (self.number, self.round):
            self.position = done.position
            self.look(now)

    def on_end(self, end: HandoverEnd, now: float) -> None:
        if self.target is not None and end.number == self.number:
            self.stay(end.text or "its broker knows of no handover")

    def began(self, now: float) -> None:
        """The other broker knows us anew: what it confirms from now on counts."""
        self.round += 1
        self.position = None
        self.look(now)

    def look(self, now: float) -> None:
        """Whether it is time for the next step."""
        target = self.target
        if target is None or not target.complete:
            return
        if self.position is None:
            if self.asked_round != self.round:
                self.asked_round = self.round
                self._say_ready()
        elif self.session.incoming.taken >= self.position and self._settled(now):
            self._go_over(target, now)

    def _say_ready(self) -> None:
        if self.asked_round == self.round and self.round:
            self.session.say(HandoverReady(self.number, self.round))

    def _settled(self, now: float) -> bool:
        """Whether nothing of ours is under way at the broker that we leave."""
        session = self.session
        if session.moving.move is not None:
            return False
        if not session.moving.here:
            return True
        if self._settle_by is None:
            self._settle_by = min(now + SETTLE_S, self._deadline)
        asked = any(isinstance(one, ADVERTISING) for one in session.requests.asked.values())
        under_way = asked or session.outgoing.sent > session.outgoing.settled
        return not under_way or now >= self._settle_by

    def _go_over(self, target: Target, now: float) -> None:
        """What was held comes now. What we had asked the old broker is answered: the new one has confirmed
        every subscription, and what was to be withdrawn is not there."""
        session, moving = self.session, self.session.moving
        self.target = self._settle_by = None
        target.merged = True
        self.moved += 1
        self._ended = HandoverEnd(self.number, MOVED)
        moving.promoted, moving.farewell = target, [*session.out, self._ended, wire.Detach()]
        assert target.greeting is not None
        session.take_place(target, now)
        session.greeted(target.greeting)
        session.incoming.take_over(target.received, target.credit_granted, target.held)
        for subscription in session.incoming.subscriptions.values():
            subscription.confirmed = True
            subscription.request.answer("confirmed")
        session.made_at_another(target.greeting, moving.here)
        for number in target.withdrawn.values():
            session.ask(wire.ClientUnsubscribe(session.requests.new().number, number))
        session.channels.attached()

    def stay(self, text: str) -> None:
        """Our old broker keeps us; whatever the other one has sent is of no use."""
        target, self.target = self.target, None
        if target is None:
            return
        self._settle_by = None
        self.stayed += 1
        self._ended = HandoverEnd(self.number, STAYS, text)
        self.session.say(self._ended)
        target.say(wire.Detach())
        self.session.moving.closing.append(target)

    # --- the session --------------------------------------------------------------------------------

    def subscribing(self) -> None:
        """One more: what was confirmed there before does not cover it."""
        self.round += 1
        self.position = None

    def subscribed(self, subscription: SubscriptionState) -> None:
        if self.target is not None:
            self.target.subscribe(subscription)

    def unsubscribed(self, number: int) -> None:
        """Whether those that are left are all confirmed is looked at with the next message or timer."""
        if self.target is not None:
            self.target.unsubscribe(number)

    def resumed(self) -> None:
        """The link to our broker was broken, and both know where they were: what was said may be lost."""
        if self.target is not None:
            self._say_ready()
        elif self._ended is not None:
            self.session.say(self._ended)

    def made_anew(self, left: str) -> None:
        """We have lost our broker, or it has forgotten us."""
        self.stay(f"its session with {left} was lost")

    def flush(self) -> None:
        if self.target is not None:
            self.target.flush()

    def next_deadline(self) -> float | None:
        if self.target is None:
            return None
        return self._deadline if self._settle_by is None else min(self._deadline, self._settle_by)

    def tick(self, now: float) -> None:
        if self.target is not None and now >= self._deadline:
            self.stay("it took too long")
        self.look(now)
