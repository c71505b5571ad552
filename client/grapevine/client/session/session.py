"""A client's session without any input or output: attach, publish, subscribe, acknowledge.

The driver tells it what happens (`link_up`, `receive`, `link_down`, `tick`), calls `flush_out` once when
it has drained its input, sends what is in `out`, and clears it. Time is a parameter. A session survives
its links: with the same broker the epoch goes on and both sides send again what the other has not taken;
with another, or with one that forgot, subscriptions and advertisements are made again and everything
unsettled is sent again before anything new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grapevine.client.session.advertised import IMPLICIT, Advertised, AdvertisementState
from grapevine.client.session.attachment import Attachment
from grapevine.client.session.channels import Channels
from grapevine.client.session.cuts import Cuts
from grapevine.client.session.durable import DurableReaders
from grapevine.client.session.event import Event
from grapevine.client.session.greeting import greeting
from grapevine.client.session.handover import Handover
from grapevine.client.session.incoming import AttachmentGap, Incoming, SubscriptionState
from grapevine.client.session.message import Message
from grapevine.client.session.moving import ADVERTISING, Moving
from grapevine.client.session.outgoing import SMALL, Outgoing
from grapevine.client.session.requests import Asked, Request, Requests, deadline
from grapevine.client.session.settings import SessionSettings
from grapevine.client.session.silence import Silence
from grapevine.client.session.state import State
from grapevine.errors import Closed, Error, Invalid, NotAllowed
from grapevine.filters.normal import EVERYTHING, Filter, Value
from grapevine.wire import messages as wire
from grapevine.wire.codec import BAD_ATTRIBUTES, check_attributes, check_payload, pack, unpackable
from grapevine.wire.drafts import Draft
from grapevine.wire.identity import identify
from grapevine.wire.limits import PAYLOAD_BYTES
from grapevine.wire.messages import ASKS, DURABLE, TRACED, ExtendedPublish
from grapevine.wire.streams import Acknowledged, Fetched, StreamState


class Session:
    HANDLERS: list[Callable[[Any, Any, float], None] | None] = [None] * 256  # filled by `handlers`

    def __init__(
        self,
        name: str,
        incarnation: int,
        settings: SessionSettings | None = None,
        deliver: Callable[[list[Message]], None] | None = None,
    ) -> None:
        """`deliver` takes every batch at once, in place of the subscriptions' queues."""
        self.name = name
        self.id = identify(name)
        self.incarnation = incarnation
        self.settings = settings or SessionSettings()
        self.out: list[wire.Message] = []
        self.events: list[Event] = []
        self.state = State.DOWN
        self.outgoing = Outgoing(self.settings.publish_window)
        self.incoming = Incoming(self.settings.receive_window, deliver)
        self.advertised = Advertised()
        self.durables = DurableReaders(self.incoming.names)
        self.requests = Requests()
        self.broker, self.broker_name = 0, ""
        self.addresses: tuple[str, ...] = ()  # other brokers to try
        self.journal = False  # the broker's: without one nothing is ever persisted
        self.cuts = Cuts(self.outgoing)
        self.dropped = 0  # deliveries lost to this client's slowness, all epochs
        self._dropped_before = 0
        self.partial: tuple[str, ...] = ()  # brokers that ours cannot reach
        self._epoch: int | None = None  # in force
        self._proposed = 0
        self.stream = (0, 0)  # see Away
        self.moving = Moving(self)
        self.handover = Handover(self)
        self.channels = Channels(self)
        self._timed = (self.requests, self.moving, self.handover, self.channels)
        self._number = 0  # of subscriptions and advertisements
        self._sequence = 0
        self._draining = False  # the broker asked us to go: nothing new to it
        self._silence = Silence(self.settings.silent_s)
        self._attach_at = 0.0  # when the last Attach left

    # --- the link ---------------------------------------------------------------------------------

    def link_up(self, now: float) -> None:
        """The transport reaches a broker, known or not."""
        if self.state != State.CLOSED:
            self._draining = False
            self._attach(now)

    def link_down(self, now: float) -> None:
        if self.state != State.CLOSED:
            self.state = State.DOWN
            self.out.clear()

    def _attach(self, now: float) -> None:
        self.state = State.ATTACHING
        self.out.clear()
        self._proposed = self.moving.propose()
        self._attach_at = now
        self._silence.heard(now)
        taken = self.incoming.taken
        resume = None if self._epoch is None else wire.Resume(self._epoch, taken, taken)
        self.out.append(greeting(self, self._proposed, max(self.incoming.free, 1), resume, main=True))

    def say(self, message: wire.Message) -> None:
        if self.state == State.ATTACHED:
            self.out.append(message)

    def receive(self, message: wire.Message, now: float) -> None:
        self._silence.heard(now)
        handler = self.HANDLERS[message.kind]
        if handler is not None and self.state != State.CLOSED:
            handler(self, message, now)

    def on_attached(self, attached: wire.Attached, now: float) -> None:
        # An answer to an Attach before the last one names neither of its epochs.
        wanted = self._epoch if attached.resumed else self._proposed
        if self.state != State.ATTACHING or attached.epoch != wanted:
            return
        self.state = State.ATTACHED
        left = self.broker_name
        self.greeted(attached)
        if attached.resumed:
            self._resume(attached)
        else:
            self.handover.made_anew(left)
            self._restart(attached, now)
            missed = self.incoming.made_anew(AttachmentGap(left, attached.broker_name))
            self.events += [Event("gap", subscription=state) for state in missed]
        self.out += self.durables.attached(attached.broker_name)
        self.channels.attached()
        self.events.append(Event("resumed" if attached.resumed else "attached"))

    def greeted(self, attached: wire.Attached) -> None:
        self.broker, self.broker_name = attached.broker, attached.broker_name
        self.addresses = attached.addresses
        self.partial = ()  # or it will say
        self.journal = attached.journal
        self.cuts.agree(attached)
        self.outgoing.extends = attached.protocol >= ExtendedPublish.gate.since
        self.incoming.duplicates.agree(attached)

    def _resume(self, attached: wire.Attached) -> None:
        self.incoming.acknowledged = -1  # marks on their way were lost with the link
        self.out += (asked for asked in self.requests.asked.values() if not isinstance(asked, ADVERTISING))
        self.moving.resumed(self, attached)
        self.handover.resumed()

    def _restart(self, attached: wire.Attached, now: float) -> None:
        self._epoch = attached.epoch
        self._dropped_before = self.dropped
        self.incoming.restart()
        self.made_at_another(attached, self.moving.main_restarted(attached, now))
        for subscription in self.incoming.subscriptions.values():
            self._ask_subscribe(subscription, self.requests.again(subscription.request))

    def made_at_another(self, attached: wire.Attached, publishes: bool) -> None:
        """What we had asked or advertised is not known here, nor what we sent if we publish here."""
        waited_for = {s.request.number for s in self.incoming.subscriptions.values()}
        waited_for |= {a.request.number for a in self.advertised.by_number.values()}
        self.requests.restart(waited_for, publishes)
        if publishes:
            self.cuts.restart()
            self.outgoing.restart(attached.credit)
            self.readvertise()

    def readvertise(self) -> None:
        """The broker where we publish knows of no advertisement: announce them before anything leaves."""
        self.requests.forget_repeated({a.request.number for a in self.advertised.by_number.values()})
        for advertisement in self.advertised.restart(self.outgoing.settled):
            self._ask_advertise(advertisement, self.requests.again(advertisement.request))

    def take_place(self, away: Attachment, now: float) -> None:
        """Nothing keeps us at the old broker: the new attachment is the main one from now on."""
        self.state, self._epoch, self.out = State.ATTACHED, away.epoch, away.out
        self.broker, self.broker_name, self.addresses = away.broker, away.name, away.others
        self._silence.heard(now)
        self._dropped_before = self.dropped
        self._draining = False
        self.incoming.restart()
        self.events.append(Event("promoted"))

    def on_refuse(self, refuse: wire.Refuse, now: float) -> None:
        self.state = State.DOWN
        self.events.append(Event("refused", refuse.reason, refuse.text))

    def on_reset(self, reset: wire.Reset, now: float) -> None:
        if self.state == State.ATTACHED:
            self._attach(now)

    def on_go_away(self, go_away: wire.GoAway, now: float) -> None:
        self._draining = True
        self.events.append(Event("go-away", addresses=go_away.addresses))

    def on_ping(self, ping: wire.Ping, now: float) -> None:
        self.out.append(wire.Pong(ping.sent_at))

    # --- acknowledgements -------------------------------------------------------------------------

    def on_marks(self, marks: wire.Marks, now: float) -> None:
        if marks.epoch != self._epoch or self.state != State.ATTACHED:
            return
        if not self.moving.here:
            self.stream = (self.stream[0], max(self.stream[1], marks.credit))
            return
        self.cuts.take(marks.cuts, marks.cuts_first)
        self.marked(marks.received, marks.settled, marks.credit, marks.persisted)
        self.handover.look(now)

    def marked(self, received: int, settled: int, credit: int, persisted: int = 0) -> None:
        if self.outgoing.marked(received, settled, credit, persisted):
            self._release_withdrawn()

    def _release_withdrawn(self) -> None:
        for advertisement in self.advertised.settled(self.outgoing.settled):
            self._ask_unadvertise(advertisement)

    def undelivered(self, up_to: int | None = None) -> Error | None:
        """The error for everything cut so far (up to a sequence number); it is told once."""
        return self.cuts.error(up_to)

    # --- publishing -------------------------------------------------------------------------------

    @property
    def can_publish(self) -> bool:
        return not self.outgoing.full

    @property
    def next_sequence(self) -> int:
        """The number that the next publication gets unless it brings its own."""
        return self._sequence + 1

    def publish(
        self,
        attributes: Mapping[str, Value],
        payload: bytes = b"",
        durable: bool = False,
        sequence: int | None = None,
        traced: bool = False,
        asks: bool = False,
    ) -> int:
        """Appends a publication; its sequence number. Only while `can_publish`."""
        try:  # here and not in a function of its own: this is paid per publication
            packed, size = pack(attributes), len(payload)
        except BAD_ATTRIBUTES as error:
            raise unpackable(attributes, payload, error) from None
        # A hit says that they are well-formed.
        advertisement = self.advertised.known.get(packed) or self._allowed(packed, attributes, payload)
        if sequence is None:
            sequence = self._sequence + 1
        elif sequence <= self._sequence:
            raise Invalid(f"sequence {sequence} does not rise: the last one was {self._sequence}")
        flags = durable * DURABLE | traced * TRACED | asks * ASKS if durable or traced or asks else 0
        outgoing = self.outgoing
        if size <= SMALL:
            outgoing.buffer.append(Draft(packed, payload, sequence, flags))
            outgoing.appended += 1
        elif size <= PAYLOAD_BYTES:
            outgoing.append_large(Draft(packed, payload, sequence, flags))
        else:
            raise Invalid(f"a payload of {size} bytes is over the limit of {PAYLOAD_BYTES}")
        self._sequence = sequence
        if not advertisement.usable:
            self.advertised.use(advertisement, outgoing.appended)
        return sequence

    def went_up_to(self, sequence: int) -> None:
        self._sequence = sequence

    def _allowed(self, packed: bytes, attributes: Mapping[str, Value], payload: bytes) -> AdvertisementState:
        self._check_open()
        check_payload(payload)
        check_attributes(packed, attributes)
        advertisement = self.advertised.find(packed)
        if advertisement is None and not self.advertised.explicit:
            advertisement = self._advertise(IMPLICIT, EVERYTHING, self.requests.new())
        if advertisement is None:
            limit = str(self.advertised) or "nothing, any more"
            raise NotAllowed(f"{dict(attributes)} is outside what this client has advertised: {limit}")
        return advertisement

    def flush_out(self, now: float = 0.0) -> None:
        """What has gathered leaves: publications, for which somebody may wait, then acknowledgements."""
        here = self.moving.here
        self.moving.flush()
        if self.state != State.ATTACHED:
            return
        self.out += self.durables.outgoing(now)
        assert self._epoch is not None
        sent = self.outgoing.sent
        if here and not (self._draining or self.moving.paused or self.handover.publishing_paused):
            self.out += self.outgoing.batches(self._epoch, self.advertised.held_from())
        incoming, cuts = self.incoming, here and self.cuts.seen != self.cuts.acknowledged
        if cuts or (incoming.owes_marks() and not incoming.marks_wait(now, self.outgoing.sent > sent)):
            self._send_marks(here)

    def _send_marks(self, here: bool) -> None:
        self.out.append(self.incoming.marks(self._epoch or 0, self.cuts.acknowledge() if here else 0))

    # --- advertisements and subscriptions ---------------------------------------------------------

    def advertise(
        self, filter: Filter, now: float, timeout_s: float | None = None, confirm: str = "confirmed"
    ) -> AdvertisementState:
        self._check_open()
        if not self.advertised.explicit:
            self.advertised.explicit = True
            implicit = self.advertised.by_number.get(IMPLICIT)
            if implicit is not None:
                self.unadvertise(implicit, now)
        self._number += 1
        return self._advertise(self._number, filter, self.requests.new(confirm, deadline(now, timeout_s)))

    def advertise_also(self, filter: Filter) -> AdvertisementState:
        """What the library itself publishes for the application, whatever that has advertised."""
        self._number += 1
        return self._advertise(self._number, filter, self.requests.new())

    def _advertise(self, number: int, filter: Filter, request: Request) -> AdvertisementState:
        advertisement = AdvertisementState(number, filter, request)
        self.advertised.add(advertisement)
        self._ask_advertise(advertisement, request)
        return advertisement

    def unadvertise(
        self, advertisement: AdvertisementState, now: float, timeout_s: float | None = None
    ) -> Request:
        """Ends it when everything published so far is settled."""
        request = self.requests.new("confirmed", deadline(now, timeout_s))
        if advertisement.number not in self.advertised.by_number or advertisement.withdrawn_at is not None:
            request.answer("confirmed")
            self.requests.forget(request)
            return request
        self.advertised.withdraw(advertisement, self.outgoing.appended, request)
        if not self.outgoing.unsettled:
            self._ask_unadvertise(advertisement)
        return request

    def subscribe(
        self,
        filter: Filter,
        now: float,
        timeout_s: float | None = None,
        confirm: str = "confirmed",
        into: SubscriptionState | None = None,
    ) -> SubscriptionState:
        """With `into`, both are read from one queue."""
        self._check_open()
        if into is not None and self.incoming.subscriptions.get(into.number) is not into:
            raise Invalid("`into` is no subscription of this client, or it has ended")
        self._number += 1
        request = self.requests.new(confirm, deadline(now, timeout_s))
        subscription = SubscriptionState(self._number, filter, request, None if into is None else into.queue)
        self.incoming.add(subscription)
        self._ask_subscribe(subscription, request)
        self.handover.subscribing()
        return subscription

    def unsubscribe(
        self, subscription: SubscriptionState, now: float, timeout_s: float | None = None
    ) -> Request:
        request = self.requests.new("confirmed", deadline(now, timeout_s))
        if subscription.withdrawn:
            request.answer("confirmed")
            self.requests.forget(request)
            return request
        subscription.request.fail(Closed("unsubscribed"))
        self.requests.take_back(wire.ClientSubscribe, subscription.number)
        self.incoming.remove(subscription)
        self.ask(wire.ClientUnsubscribe(request.number, subscription.number))
        self.handover.unsubscribed(subscription.number)
        return request

    def _ask_subscribe(self, subscription: SubscriptionState, request: Request) -> None:
        self.ask(wire.ClientSubscribe(request.number, subscription.number, subscription.filter))

    def _ask_advertise(self, advertisement: AdvertisementState, request: Request) -> None:
        self.ask(wire.ClientAdvertise(request.number, advertisement.number, advertisement.filter))

    def _ask_unadvertise(self, advertisement: AdvertisementState) -> None:
        assert advertisement.withdrawing is not None
        self.advertised.remove(advertisement)
        self.requests.take_back(wire.ClientAdvertise, advertisement.number)
        self.ask(wire.ClientUnadvertise(advertisement.withdrawing.number, advertisement.number))

    def ask(self, asked: Asked) -> None:
        self.requests.asked[asked.request] = asked
        if not isinstance(asked, ADVERTISING):
            self.say(asked)
        elif not self.moving.paused:
            self.moving.place.say(asked)

    def on_done(self, done: wire.Done, now: float) -> None:
        answered = self.requests.on_done(done)
        if answered is None or done.outcome == "local":
            return
        _, asked = answered
        confirmed = done.outcome == "confirmed"
        if isinstance(asked, wire.ClientSubscribe):
            self._subscribed(self.incoming.subscriptions.get(asked.number), confirmed)
        elif isinstance(asked, wire.ClientAdvertise):
            self._advertised(self.advertised.by_number.get(asked.number), confirmed)

    def _subscribed(self, subscription: SubscriptionState | None, confirmed: bool) -> None:
        if subscription is None:
            return
        subscription.confirmed = confirmed
        if confirmed:
            self.handover.subscribed(subscription)
        else:
            self.incoming.remove(subscription)

    def _advertised(self, advertisement: AdvertisementState | None, confirmed: bool) -> None:
        if advertisement is None:
            return
        if confirmed:
            self.advertised.confirm(advertisement)
            return
        self.advertised.remove(advertisement)
        for sequence in self.outgoing.withdraw(self.advertised.allows):
            self.cuts.add(wire.Cut(self.id, self.incarnation, sequence, sequence, wire.CUT_NOT_ALLOWED))
        self.advertised.shrink(self.outgoing.sent, self.outgoing.appended)
        self._release_withdrawn()

    # --- deliveries -------------------------------------------------------------------------------

    def on_deliver(self, deliver: wire.Deliver, now: float) -> None:
        if deliver.epoch != self._epoch or self.state != State.ATTACHED:
            return
        if self.moving.here:
            self.marked(deliver.received, deliver.settled, deliver.credit)
        if not self.incoming.take(deliver):
            self._attach(now)
        elif self.handover.position is not None:
            self.handover.look(now)

    def consumed(self, entries: int) -> None:
        """The application has read so many entries of the queues."""
        self.incoming.consumed += entries

    @property
    def owes_credit(self) -> bool:
        """The broker should hear that there is room again."""
        return self.state == State.ATTACHED and self.incoming.owes_marks()

    def on_names(self, names: wire.Names, now: float) -> None:
        self.incoming.name(names.publisher, names.name, names.broker_name)

    def on_dropped(self, dropped: wire.Dropped, now: float) -> None:
        self.dropped = max(self.dropped, self._dropped_before + dropped.total)

    def on_partial(self, partial: wire.Partial, now: float) -> None:
        self.partial = partial.brokers

    def on_stream(self, message: StreamState | Fetched | Acknowledged, now: float) -> None:
        if elsewhere := self.durables.receive(message, self.broker_name, now):
            self.events.append(Event("elsewhere", addresses=elsewhere))

    # --- time and end -----------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        deadlines = [part.next_deadline() for part in self._timed]
        if self.state == State.ATTACHING:
            deadlines.append(self._attach_at + self.settings.attach_s)
        elif self.state == State.ATTACHED:
            deadlines += [self._silence.deadline(), self.durables.deadline(), self.incoming.marks_at]
        return min((each for each in deadlines if each is not None), default=None)

    def tick(self, now: float) -> None:
        for part in self._timed:
            part.tick(now)
        if self.state == State.ATTACHING and now >= self._attach_at + self.settings.attach_s:
            self.events.append(Event("unanswered"))
            self._attach(now)
        elif self.state == State.ATTACHED:
            due = self._silence.due(now)
            if due == "ask":
                self.out.append(wire.Ping(now))
            elif due == "give up":
                self.events.append(Event("silent"))

    def close(self) -> None:
        """Says good-bye. Nothing more is taken or sent."""
        if self.state == State.ATTACHED:
            if self.incoming.marks_at is not None:
                self._send_marks(self.moving.here)
            self.out.append(wire.Detach())
        self.moving.close()
        self.channels.close()
        self.state = State.CLOSED
        self.advertised.close()
        for request in list(self.requests.open.values()):
            request.fail(Closed("the client is closed"))

    def _check_open(self) -> None:
        if self.state == State.CLOSED:
            raise Closed("the client is closed")
