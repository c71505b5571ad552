"""A client's host: the library's own session, driven by events instead of a socket.

It dials the brokers of its list in order, the last one first after a break, and goes on to the next when
nobody answers. What the session says about subscriptions, publications and deliveries is told to the `Record`
that judges the run; the application reads everything at once unless a fault makes it lazy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random

from grapevine.client.session import (
    AdvertisementState,
    Attachment,
    Away,
    Event,
    Session,
    SessionSettings,
    State,
    SubscriptionState,
)
from grapevine.client.session import Message as Delivery
from grapevine.client.session.durable import DurableReader
from grapevine.errors import NotAllowed
from grapevine.filters.normal import Filter, Value
from grapevine.wire.messages import CUT_NOT_ALLOWED, Deliver, Detach, Done, Dropped, Message, Publish
from grapevine.wire.relocation import RoundTripsAnswer
from tools.simulator.broker import took
from tools.simulator.digest import Digest
from tools.simulator.durable_reading import open_durable, read_durable
from tools.simulator.last_values import LastReader
from tools.simulator.members import Membership
from tools.simulator.network import End, Host, Network
from tools.simulator.record import Announced, Record
from tools.simulator.world import World

REDIAL_S = 0.3


class ClientHost(Host):
    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        brokers: tuple[str, ...],
        record: Record,
        *,
        random: Random,
        digest: Digest,
        settings: SessionSettings | None = None,
    ) -> None:
        super().__init__(world, network, name)
        self.brokers = brokers
        self.record = record
        self.random = random
        self.digest = digest
        self.settings = settings or SessionSettings()
        self.life = 0
        self.incarnation = 0
        self.session: Session | None = None
        self.end: End | None = None
        self.inbox: deque[tuple[End, Message | None]] = deque()
        self.paused_until = 0.0
        self.lazy_until = 0.0
        self.waiting: deque[tuple[Mapping[str, Value], bytes]] = deque()  # the window was full
        self.durable_filter: Filter | None = None  # of the durable subscription that it reads
        self.reader: DurableReader | None = None
        self.member: Membership | LastReader | None = None  # of a group; it reads nothing else
        self.asks = False  # whether what it publishes are requests
        self.durable = False  # whether it asks for what it publishes to be kept
        self.refusals = 0
        self._unread = 0
        self._choice = 0
        self._named: tuple[str, ...] = ()  # by the broker it had: as the client's engine it tries them, too
        self._tries = 0
        self._redialling = False
        self._detached_at = 0.0
        self._settled_up_to = self._persisted_up_to = 0
        self._tick_at: float | None = None
        self._confirmed: set[int] = set()
        self.aways: dict[Attachment, End] = {}  # beside the main link
        self._away_waits: set[Attachment] = set()
        self._publishes_at = ""

    # --- life -------------------------------------------------------------------------------------

    def start(self, incarnation: int | None = None) -> None:
        """A new process under the old name; its incarnation is drawn unless given."""
        self.life += 1
        self.up = True
        self.incarnation = self.random.getrandbits(63) if incarnation is None else incarnation
        self.session = Session(self.name, self.incarnation, self.settings, self._deliver)
        self.inbox.clear()
        self.waiting.clear()
        self._confirmed.clear()
        self.aways.clear()
        self._away_waits.clear()
        self._publishes_at = ""
        self._named = ()
        self._unread = self._settled_up_to = self._persisted_up_to = self._tries = 0
        self._tick_at = None
        self._redialling = False
        self.paused_until = self.lazy_until = 0.0
        self._detached_at = self.world.now
        self.reader = None
        if self.durable_filter is not None:
            self.reader = open_durable(self.session, self.name, self.durable_filter)
        if self.member is not None:
            self.reader = self.member.open(self.session)
        self._dial()

    def stop(self) -> None:
        """Says good-bye in good order."""
        if self.session is not None:
            self.session.close()
            self._send()
            if self.end is not None:
                self.network.close(self.end)
            self._gone()

    def crash(self) -> None:
        if self.session is not None:
            self.network.host_gone(self)
            self._gone()

    def _gone(self) -> None:
        self.record.ended(self)
        self.life += 1
        self.session = self.end = None
        self.up = False

    # --- what the application does ------------------------------------------------------------------

    def subscribe(self, filter: Filter, timeout_s: float | None = None) -> SubscriptionState:
        assert self.session is not None
        subscription = self.session.subscribe(filter, self.clock(), timeout_s)
        self.record.announced(self, subscription)
        self.pump()
        return subscription

    def unsubscribe(self, subscription: SubscriptionState) -> None:
        assert self.session is not None
        self.record.withdrawn(self, subscription)
        self._confirmed.discard(subscription.number)
        self.session.unsubscribe(subscription, self.clock())
        self.pump()

    def advertise(self, filter: Filter) -> AdvertisementState:
        assert self.session is not None
        advertisement = self.session.advertise(filter, self.clock())
        self.record.announced(self, advertisement)
        self.pump()
        return advertisement

    def unadvertise(self, advertisement: AdvertisementState) -> None:
        assert self.session is not None
        self.record.withdrawn(self, advertisement)
        self._confirmed.discard(advertisement.number)
        self.session.unadvertise(advertisement, self.clock())
        self.pump()

    def publish(self, *publications: Mapping[str, Value]) -> None:
        """A burst; what does not fit into the window waits for it."""
        self.waiting.extend((attributes, b"") for attributes in publications)
        self.pump()

    def _publish_waiting(self, session: Session) -> None:
        waiting = self.waiting
        while waiting and session.can_publish:
            attributes, _ = waiting.popleft()
            sequence = session.next_sequence
            payload = self.record.published(self, sequence, attributes)
            try:
                session.publish(attributes, payload, self.durable, asks=self.asks)
            except NotAllowed:
                self.refusals += 1
                self.record.cut(self, sequence, sequence, CUT_NOT_ALLOWED)

    @property
    def idle(self) -> bool:
        """Attached, nothing asked and unanswered, nothing published and unsettled."""
        session = self.session
        if session is None:
            return True
        other = self.end.other if self.end is not None else None
        return (
            session.state == State.ATTACHED
            and other is not None
            and other.open  # a link that the other side has ended is not rest, even if nobody told us
            and not self.waiting
            and not session.outgoing.unsettled
            and not session.requests.asked
            and session.moving.move is None
            and session.handover.target is None
            and all(away.state == State.ATTACHED for away in session.moving.attachments)
            and not self.inbox
        )

    # --- the link ---------------------------------------------------------------------------------

    @property
    def _candidates(self) -> list[str]:
        return list(dict.fromkeys((*self.brokers, *self._named)))

    def _dial(self) -> None:
        assert self.session is not None
        if self.end is not None:
            self.network.close(self.end)
        candidates = self._candidates
        self.end = self.network.dial(self, (candidates[self._choice % len(candidates)],))
        self.session.link_up(self.clock())
        self.pump()

    def _redial(self, life: int) -> None:
        if life != self.life:
            return
        self._redialling = False
        if self.session is not None and self.session.state != State.ATTACHED:
            self._tries += 1
            if self._tries > 1:
                self._choice = (self._choice + 1) % len(self._candidates)
            self._dial()

    def _lose_link(self) -> None:
        assert self.session is not None
        if self.session.state == State.ATTACHED:
            self._detached_at = self.world.now
        if self.end is not None:
            self.network.close(self.end)
            self.end = None
        self.session.link_down(self.clock())
        self._later()

    def _later(self) -> None:
        if not self._redialling:
            self._redialling = True
            self.world.after(REDIAL_S * self.random.uniform(0.5, 1.5), self._redial, self.life)

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.world.now + seconds)
        self.world.at(self.paused_until, self._resume, self.life)

    def be_lazy(self, seconds: float) -> None:
        """The application stops reading; its session goes on."""
        self.lazy_until = max(self.lazy_until, self.world.now + seconds)
        self.world.at(self.lazy_until, self._read_on, self.life)

    def _resume(self, life: int) -> None:
        if life == self.life and self.world.now >= self.paused_until:
            while self.inbox and self.session is not None:
                self._take(*self.inbox.popleft())
            self.pump()

    def _read_on(self, life: int) -> None:
        if life == self.life and self.session is not None and self.world.now >= self.lazy_until:
            self.session.consumed(self._unread)
            self._unread = 0
            self.pump()

    # --- the loop -----------------------------------------------------------------------------------

    def arrive(self, end: End, message: Message | None) -> None:
        if self.session is None:
            return
        if self.world.now < self.paused_until:
            self.inbox.append((end, message))
            return
        self._take(end, message)
        self.pump()

    def _take(self, end: End, message: Message | None) -> None:
        session = self.session
        away = next((away for away, other in self.aways.items() if other is end), None)
        if away is not None and session is not None:
            self._take_away(session, away, message)
        if end is not self.end or session is None:
            return
        if message is None:
            self._lose_link()
            return
        session.receive(message, self.clock())
        self._change_links(session)
        if message.kind == Deliver.kind:
            took(end, len(message.publications))  # type: ignore[union-attr]
        if message.kind == Done.kind:
            self._look_at_confirmations(session)
        elif message.kind == Dropped.kind:
            self.record.dropped(self)

    def _take_away(self, session: Session, away: Attachment, message: Message | None) -> None:
        if message is None:
            self._lose_away(away)
            return
        self.aways[away].queued = 0
        away.receive(message, self.clock())
        self._change_links(session)
        if message.kind == Done.kind:
            self._look_at_confirmations(session)

    def _look_at_confirmations(self, session: Session) -> None:
        announced: tuple[Mapping[int, Announced], ...] = (
            session.incoming.subscriptions,
            session.advertised.by_number,
        )
        for states in announced:
            for number, state in states.items():
                if state.confirmed and number not in self._confirmed:
                    self._confirmed.add(number)
                    self.record.confirmed(self, state)
                elif not state.confirmed and number in self._confirmed:
                    self._confirmed.discard(number)
                    self.record.unconfirmed(self, state)

    def pump(self) -> None:
        """End a burst: settle accounts with the record, send, set the timer."""
        session = self.session
        if session is None or self.world.now < self.paused_until:
            return
        if session.events:
            self._act(session)
        if session.cuts:
            for cut in session.cuts:
                self.record.cut(self, cut.first, cut.last, cut.reason)
            session.cuts.clear()
        for cut in session.cuts.unanswerable:
            self.record.unanswerable(self, cut.first, cut.last)
        session.cuts.unanswerable.clear()
        settled = session.outgoing.settled_up_to
        if settled > self._settled_up_to:
            self.record.settled(self, self._settled_up_to + 1, settled)
            self._settled_up_to = settled
        if self.reader is not None:
            read = read_durable if self.member is None else self.member.read
            read(self, self.reader)
        persisted = session.outgoing.persisted_up_to
        if self.durable and persisted > self._persisted_up_to:
            self.record.persisted(self, self._persisted_up_to + 1, persisted)
            self._persisted_up_to = persisted
        if self.waiting:
            self._publish_waiting(session)
        self._tend_aways(session)
        self._send()
        self._plan(session)

    def _act(self, session: Session) -> None:
        events, session.events = session.events, []
        for event in events:
            self._on_event(session, event)

    def _on_event(self, session: Session, event: Event) -> None:
        if event.what in ("resumed", "attached"):
            self._tries = 0
            self._named = session.addresses
        if event.what == "attached":
            self._confirmed -= session.incoming.subscriptions.keys()
            if session.moving.here:
                self._confirmed.clear()
            self.record.session_lost(self, min(self._detached_at, self.world.now), session.moving.here)
        elif event.what == "gap" and event.subscription is not None:
            self.record.gap_told(self, event.subscription.number)
        elif event.what == "round-trips" and event.asked is not None:
            place, request = event.asked
            place.say(RoundTripsAnswer(request.number, self.network.round_trips(self, request)))
        elif event.what == "promoted":
            self._promote(session)
        elif event.what == "elsewhere":
            self.brokers = tuple(dict.fromkeys((*event.addresses, *self.brokers)))
            self._choice, self._tries = 0, 0
            self._lose_link()
        elif event.what in ("refused", "unanswered", "silent", "go-away"):
            self._tries += event.what != "silent"
            self._named = (*event.addresses, *self._named)
            if event.what == "go-away" and event.addresses:
                self._go(session, event.addresses[0])
            self._lose_link()

    def _go(self, session: Session, address: str) -> None:
        """As the client's engine: to the first that was named, with a good-bye if nothing depends on it."""
        if session.channels.alone and self.end is not None:
            self.network.send(self.end, Detach())
        self.brokers = (address, *(each for each in self.brokers if each != address))
        self._choice = self._tries = 0

    # --- the second attachment --------------------------------------------------------------------

    def _change_links(self, session: Session) -> None:
        """At once: what comes next by the old main link is of no use."""
        if session.moving.promoted is not None:
            self._act(session)

    def _tend_aways(self, session: Session) -> None:
        """One link for each attachment that wants one."""
        moving = session.moving
        closing, moving.closing = moving.closing, []
        for away in closing:
            self._send_away(away)
            if (end := self.aways.pop(away, None)) is not None:
                self.network.close(end)
        for away in list(self.aways):
            if away.hang_up:
                self._lose_away(away)
        for away in moving.attachments:
            if away not in self.aways and away not in self._away_waits:
                self.aways[away] = self.network.dial(self, away.addresses)
                away.link_up(self.clock())
        place = moving.place
        name = place.name if isinstance(place, Away) else session.broker_name
        if name != self._publishes_at:
            self._publishes_at = name
            self.record.moved(self, name)

    def _lose_away(self, away: Attachment) -> None:
        self.network.close(self.aways.pop(away))
        away.link_down(self.clock())
        self._away_waits.add(away)
        self.world.after(REDIAL_S * self.random.uniform(0.5, 1.5), self._redial_away, (self.life, away))

    def _redial_away(self, waiting: tuple[int, Attachment]) -> None:
        life, away = waiting
        if life == self.life:
            self._away_waits.discard(away)
            self.pump()

    def _promote(self, session: Session) -> None:
        moving = session.moving
        away = moving.promoted
        assert away is not None
        if self.end is not None:
            for message in moving.farewell:
                self.network.send(self.end, message)
            self.network.close(self.end)
        self.end = self.aways.pop(away, None)
        if self.end is None:  # it has broken meanwhile
            session.link_down(self.clock())
            self._later()
        moving.promoted, moving.farewell = None, []
        if session.incoming.subscriptions:
            self.record.taken_over(self, session.broker_name)
            self._look_at_confirmations(session)
        self.brokers = (away.addresses[0], *(b for b in self.brokers if b != away.addresses[0]))
        self._choice = 0

    def _send_away(self, away: Attachment) -> None:
        if (end := self.aways.get(away)) is not None:
            for message in away.out:
                count = len(message.publications) if isinstance(message, Publish) else 0
                self.network.send(end, message, count)
        away.out.clear()

    def _send(self) -> None:
        session = self.session
        assert session is not None
        session.flush_out(self.clock())
        for away in self.aways:
            self._send_away(away)
        if not session.out:
            return
        if self.end is not None:
            for message in session.out:
                count = len(message.publications) if isinstance(message, Publish) else 0
                self.network.send(self.end, message, count)
        session.out.clear()

    def _plan(self, session: Session) -> None:
        deadline = session.next_deadline()
        if deadline is None:
            return
        at = max(self.world.now, self.world.now + (deadline - self.clock())) + 1e-6
        if self._tick_at is None or at < self._tick_at or self._tick_at < self.world.now:
            self._tick_at = at
            self.world.at(at, self._tick, (self.life, at))

    def _tick(self, planned: tuple[int, float]) -> None:
        life, at = planned
        if life != self.life or at != self._tick_at or self.session is None:
            return
        self._tick_at = None
        if self.world.now < self.paused_until:
            self._tick_at = self.paused_until
            self.world.at(self.paused_until, self._tick, (life, self.paused_until))
            return
        self.session.tick(self.clock())
        self.pump()

    def _deliver(self, deliveries: list[Delivery]) -> None:
        session = self.session
        assert session is not None
        if self.world.now < self.lazy_until:
            self._unread += len(deliveries)
            session.incoming.queued += len(deliveries)
        now, index = self.world.now, self.index
        for delivery in deliveries:
            p = delivery.publication
            self.digest.delivery(now, index, p.publisher, p.incarnation, p.sequence)
        self.record.delivered(self, deliveries)
