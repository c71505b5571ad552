"""What must arrive, what may, and what must not (DECISIONS 20): README's sentence, judged.

* A publication that its publisher knows to be settled is owed to every subscription that counted when it was
  first accepted. Owed is delivered exactly once.
* Everything else is delivered at most once; nothing is delivered to a client without a matching subscription;
  the order of one publisher's incarnation is kept at every client.
* A subscription counts from its confirmation to unsubscribe or loss of its session, at every broker that
  neither side has given up for lost: a confirmation speaks for whoever could not be asked just then.
* What is owed and missing is excused only if somebody was told: the publisher that it was cut, or the
  subscriber of a gap or of dropped deliveries. Every excuse is counted by its reason; a publication that was
  named as cut although everybody owed has it is counted as crying wolf.

A publication is known by a number in its payload, so that a publisher that counts its messages wrongly cannot
deceive the oracle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from math import inf
from struct import Struct

from grapevine.client.session import AdvertisementState, Away, SubscriptionState
from grapevine.client.session import Message as Delivery
from grapevine.client.session.durable import DurableMessage, DurableReader, Gap
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter, Value
from grapevine.wire.messages import CUT_NOT_ALLOWED, Publication
from tools.simulator.clients import ClientHost
from tools.simulator.custody import CustodyWatch
from tools.simulator.last_values import ALL_KEPT
from tools.simulator.owed import Announced, Counted, Life, Published
from tools.simulator.reach import Edge, Reach
from tools.simulator.stream_watch import NUMBER, StreamWatch
from tools.simulator.world import World

KEPT = 20  # violations told in full
_NUMBER = Struct("<Q")
_number = _NUMBER.unpack


def number_of(what: Publication | bytes) -> int:
    """Which publication this, or one with this payload, is."""
    payload = what if isinstance(what, bytes) else what.payload
    return int(_number(payload)[0])


class Oracle:
    by_links = True  # whether what is owed depends on who is connected with whom

    def __init__(self, world: World, broker_index: Mapping[str, int], judge_every: int = 1) -> None:
        self.world = world
        self.judge_every = judge_every  # of so many publications one is followed to all its subscribers
        self.reach = Reach()
        self.flooding = False  # subscriptions go everywhere, whoever advertises
        self.serves: Callable[[int, ClientHost], bool] = lambda home, client: True
        self.ordered = True
        self.violations: list[str] = []
        self.violation_count = 0
        self.deliveries = self.owed_checked = 0
        self.excused: Counter[str] = Counter()  # by reason
        self.cut_count = self.crying_wolf = 0
        self.cut_connected = 0  # of these: nobody misses it who was not connected yet
        self.publications: list[Published] = []
        self.stream_told: Callable[[int], bool] = lambda broker: False  # or had no room for its streams
        self.disk_told: Callable[[int], bool] = lambda broker: False  # it has reported a loss, or has lied
        self.streams = StreamWatch(self, self._announce_stream)
        self.custody = CustodyWatch(self._freed, self._lost)
        self.told_lost = 0  # durable ones that a disk has lost and reported
        self._broker_index = broker_index
        self._met: dict[int, int] = defaultdict(int)  # by broker, in its life: those it was connected with
        self._announced: dict[Life, dict[int, Announced]] = defaultdict(dict)
        self._counting: dict[Counted, None] = {}
        self._by_sequence: dict[Life, dict[int, int]] = defaultdict(dict)
        self._numbers: dict[Life, dict[int, int]] = defaultdict(dict)  # of the durable ones, not persisted
        self._had: dict[Life, dict[int, frozenset[int]]] = defaultdict(dict)
        self._order: dict[Life, dict[Hashable, int]] = defaultdict(dict)
        self._behind: dict[Life, list[tuple[float, float]]] = defaultdict(list)
        self._dropped: set[Life] = set()
        self._ended: set[Life] = set()
        self._gaps: dict[tuple[Life, int], list[float]] = defaultdict(list)  # of a subscription: told when

    def violation(self, text: str) -> None:
        self.violation_count += 1
        if len(self.violations) < KEPT:
            self.violations.append(f"t={self.world.now:.4f} {text}")

    # --- subscriptions and advertisements -------------------------------------------------------------

    def announced(self, client: ClientHost, state: SubscriptionState | AdvertisementState) -> None:
        life = (client.index, client.life)
        subscribes = isinstance(state, SubscriptionState)
        self._announced[life][state.number] = Announced(life, state.number, state.filter, subscribes)

    def confirmed(self, client: ClientHost, state: SubscriptionState | AdvertisementState) -> None:
        known = self._announced[client.index, client.life][state.number]
        if known.withdrawn or known.counted is not None:
            return
        assert client.session is not None
        place = client.session.moving.place
        away = isinstance(place, Away) and isinstance(state, AdvertisementState)
        home = self._broker_index[place.name if away else client.session.broker_name]
        if not self.serves(home, client):
            return  # the broker crashed while its word was on the way: the session is lost already
        known.counted = Counted(known, self.world.now, home, self.confirmed_reach(home))
        self._counting[known.counted] = None

    def confirmed_reach(self, home: int) -> int:
        """The brokers at which what is confirmed here now counts."""
        return self.reach.held_with(home)

    def _announce_stream(self, broker: int, reader: DurableReader, number: int) -> Announced:
        assert reader.wanted.filter is not None
        filter = (
            ALL_KEPT if reader.wanted.last else reader.wanted.filter
        )  # who reads last values makes no stream
        return self.announce_kept(broker, filter, number)

    def announce_kept(self, broker: int, filter: Filter, number: int) -> Announced:
        """What a broker keeps itself, a stream or a dataset, counts like a subscription of nobody's there;
        its number is below 0."""
        known = Announced((number, 0), NUMBER, filter, True)
        known.counted = Counted(known, self.world.now, broker, self.reach.connected_to(broker))
        self._counting[known.counted] = None
        return known

    def stream_opened(self, client: ClientHost, reader: DurableReader) -> None:
        self.streams.opened(self._broker_index[reader.home], reader)

    def stream_given(
        self, client: ClientHost, reader: DurableReader, items: list[DurableMessage | Gap]
    ) -> None:
        self.streams.given(self._broker_index[reader.home], reader, items)

    def in_stream(self, stream: Announced, number: int) -> None:
        """It is in the stream's log."""
        self._had[stream.life][number] = frozenset((NUMBER,))

    def withdrawn(self, client: ClientHost, state: SubscriptionState | AdvertisementState) -> None:
        known = self._announced[client.index, client.life][state.number]
        known.withdrawn = True
        if known.counted is not None:
            known.counted.withdrawn = True
        self.stop_counting(known, self.world.now)

    def unconfirmed(self, client: ClientHost, state: SubscriptionState | AdvertisementState) -> None:
        """It is being announced anew."""
        self.stop_counting(self._announced[client.index, client.life][state.number], self.world.now)

    def moved(self, client: ClientHost, broker_name: str) -> None:
        """It publishes at another broker now, with the same advertisements."""
        for known in self._announced[client.index, client.life].values():
            if known.counted is not None and not known.subscribes and broker_name:
                known.counted.home = self._broker_index[broker_name]
                known.counted.met |= self.reach.connected_to(known.counted.home)

    def taken_over(self, client: ClientHost, broker_name: str) -> None:
        """It is another broker's client now. Its subscriptions go on counting: nothing may be missing of what
        was accepted before, either."""
        home = self._broker_index[broker_name]
        for known in self._announced[client.index, client.life].values():
            if (counted := known.counted) is not None and known.subscribes:
                if self.serves(home, client):
                    counted.home = home
                    counted.reach = self.reach.held_with(home)
                    counted.met |= counted.reach
                else:  # it has crashed while its word was on the way
                    self.stop_counting(known, self.world.now)

    def session_lost(self, client: ClientHost, since: float, publishes: bool) -> None:
        """The client is attached afresh: its subscriptions have not counted since it lost its link, nor what
        it advertises if it `publishes` there."""
        for known in self._announced[client.index, client.life].values():
            if publishes or known.subscribes:
                self.stop_counting(known, since)

    def ended(self, client: ClientHost) -> None:
        life = (client.index, client.life)
        self._ended.add(life)
        for known in self._announced[life].values():
            self.stop_counting(known, self.world.now)

    def stop_counting(self, known: Announced, at: float) -> None:
        if known.counted is not None:
            known.counted.end = at
            self._counting.pop(known.counted, None)
            known.counted = None

    # --- brokers ------------------------------------------------------------------------------------

    def links_seen(self, broker: int, synced: frozenset[int]) -> None:
        for one, other in self.reach.observe(broker, synced):
            together = 1 << one | 1 << other if self.reach.direct else self.reach.connected_to(one)
            for each in range(together.bit_length()):
                if together >> each & 1:
                    self._met[each] |= together
            for counted in self._counting:
                if not self.reach.direct or together >> counted.home & 1:
                    counted.connect(together)

    def link_lost(self, one: int, other: int) -> None:
        self.reach.lose(self.world.now, one, other)
        for counted in self._counting:
            counted.reach &= self.reach.held_with(counted.home)

    def broker_crashed(self, broker: int) -> None:
        self._met[broker] = 0
        self.custody.crashed(broker, self.world.now)
        self.reach.observe(broker, frozenset())
        for counted in list(self._counting):
            counted.reach &= ~(1 << broker)
            if counted.home == broker and counted.announced.life[0] >= 0:  # a stream goes on
                self.stop_counting(counted.announced, self.world.now)

    def broker_left(self, broker: int) -> None:  # what was known behind it stays known
        self.reach.observe(broker, frozenset())

    def session_ended(self, life: Life, broker: int) -> None:
        """This broker has given the client up."""
        for known in self._announced[life].values():
            if known.counted is not None and known.counted.home == broker:
                self.stop_counting(known, self.world.now)

    def client_behind(self, life: Life, behind: bool) -> None:
        """From now on the broker holds deliveries for this client that hold nobody's settling, or no more."""
        spans = self._behind[life]
        if behind:
            spans.append((self.world.now, inf))
        else:
            spans[-1] = (spans[-1][0], self.world.now)

    def gap_told(self, client: ClientHost, subscription: int) -> None:
        """The library has told the application that this subscription may have missed something."""
        self._gaps[(client.index, client.life), subscription].append(self.world.now)

    def dropped(self, client: ClientHost) -> None:
        """The broker has dropped deliveries because this client did not keep up."""
        self._dropped.add((client.index, client.life))

    # --- publications -------------------------------------------------------------------------------

    def published(self, client: ClientHost, sequence: int, attributes: Mapping[str, Value]) -> bytes:
        life = (client.index, client.life)
        self.publications.append(Published(life, sequence, attributes))
        number = len(self.publications) - 1
        self._by_sequence[life][sequence] = number
        if client.durable:
            self._numbers[life][sequence] = number
        return _NUMBER.pack(number)

    def accepted(self, broker: int, publications: list[Publication]) -> None:
        """The first broker takes these now; a later one takes them again if that one is gone. Who came in
        between may have had later ones already, and order comes first: it is owed to those of the first time.
        """
        for publication in publications:
            number = _number(publication.payload)[0]
            if number % self.judge_every:
                continue
            record = self.publications[number]
            record.brokers.add(broker)
            if record.accepted_at is None:
                record.accepted_at = self.world.now
                record.owed = self.owed_from(broker, record)
            else:
                self.accepted_again(broker, record)

    def accepted_again(self, broker: int, record: Published) -> None: ...  # owed to the same

    def owed_from(self, broker: int, record: Published) -> list[tuple[Counted, tuple[Edge, ...]]]:
        invited = self._invited(record)
        owed = []
        for counted in self._counting:
            if not counted.announced.subscribes or not matches(counted.announced.filter, record.attributes):
                continue
            path = self.reach.path(broker, counted.home)
            if path is not None and counted.reach >> broker & invited >> counted.home & 1:
                owed.append((counted, path))
            else:
                record.apart.append(counted)
                if self._met[broker] >> counted.home & 1:
                    record.cut_off.append(counted)
        return owed

    def _invited(self, record: Published) -> int:
        """The brokers that know of an advertisement for this, and from which subscriptions had a way to its
        publisher since: it was told them."""
        if self.flooding:
            return -1
        invited = 0
        for known in self._announced[record.life].values():
            if (
                known.counted is not None
                and not known.subscribes
                and matches(known.filter, record.attributes)
            ):
                invited |= known.counted.reach & known.counted.met
        return invited

    def settled(self, client: ClientHost, first: int, last: int) -> None:
        numbers = self._by_sequence[client.index, client.life]
        for sequence in range(first, last + 1):
            if (number := numbers.pop(sequence, None)) is not None:
                self.publications[number].settled_at = self.world.now

    def persisted(self, client: ClientHost, first: int, last: int) -> None:
        numbers = self._numbers[client.index, client.life]
        for sequence in range(first, last + 1):
            if (number := numbers.pop(sequence, None)) is not None:
                self.publications[number].persisted_at = self.world.now
                assert client.session is not None
                source = client.session.id, client.session.incarnation
                broker = self._broker_index[client.session.broker_name]
                self.custody.persisted(broker, source, sequence, number)

    def _freed(self, number: int) -> None:
        record = self.publications[number]
        if record.settled_at is None:
            record.settled_at = self.world.now

    def _lost(self, number: int, broker: int, told: bool) -> None:
        """Its first broker has come back without it."""
        record = self.publications[number]
        if told or self.disk_told(broker):
            self.told_lost += 1
            record.cut = True
        elif not record.cut and record.settled_at is None:
            self.violation(f"broker {broker} has lost publication {number} in silence")

    def unanswerable(self, client: ClientHost, first: int, last: int) -> None:
        """Its publisher was told that nobody has subscribed to these requests: nobody, also at brokers that
        cannot be reached, if the first one has met them since its start."""
        numbers = self._by_sequence[client.index, client.life]
        for sequence in range(first, last + 1):
            if sequence in numbers:
                record = self.publications[numbers[sequence]]
                counted = [counted for counted, _ in record.owed] + record.cut_off
                if counted:
                    there = [each.announced.life for each in counted]
                    self.violation(f"{client.name} hears of no responders for #{sequence}: {there} are there")

    def settled_for(self, number: int, life: Life) -> bool:
        """Whether its publisher knows that this client, which is there, has it; held for a client that does
        not keep up it settles before."""
        record = self.publications[number]
        if record.settled_at is None or record.cut or any(end == inf for _, end in self._behind[life]):
            return False
        return any(counted.announced.life == life and counted.end is None for counted, _ in record.owed)

    def cut(self, client: ClientHost, first: int, last: int, reason: int) -> None:
        numbers = self._by_sequence[client.index, client.life]
        for sequence in range(first, last + 1):
            if sequence in numbers:
                record = self.publications[numbers[sequence]]
                record.cut = True
                record.refused = reason == CUT_NOT_ALLOWED

    def delivered(self, client: ClientHost, deliveries: list[Delivery]) -> None:
        """Order, and so that nothing comes twice, is checked always; the rest of those that are judged."""
        life = (client.index, client.life)
        order = self._order[life]
        self.deliveries += len(deliveries)
        for delivery in deliveries:
            publication = delivery.publication
            number = _number(publication.payload)[0]
            record = self.publications[number]
            source = self.order_of(record)
            if self.ordered and record.sequence <= order.get(source, 0):
                self.violation(f"{client.name} got publication {number} twice or out of order")
            order[source] = record.sequence
            if not number % self.judge_every:
                if number in self._had[life]:
                    self.violation(f"{client.name} got publication {number} twice")
                self._had[life][number] = frozenset(delivery.subscriptions)
                self._check_match(client, number, record, delivery, self._announced[life])

    def order_of(self, record: Published) -> Hashable:
        """What an order is promised for: a publisher's incarnation."""
        return record.life

    def _check_match(
        self,
        client: ClientHost,
        number: int,
        record: Published,
        delivery: Delivery,
        known: dict[int, Announced],
    ) -> None:
        if not delivery.subscriptions:
            self.violation(f"{client.name} got publication {number} for no subscription")
        if delivery.attributes != record.attributes:
            self.violation(f"{client.name} got publication {number} with other attributes")
        for subscription in delivery.subscriptions:
            one = known.get(subscription)
            if one is None or not matches(one.filter, record.attributes):
                self.violation(f"{client.name} got publication {number} for subscription {subscription}")

    # --- judgement ----------------------------------------------------------------------------------

    def judge(self) -> None:
        """Everything owed must have arrived; call when the world is quiet."""
        for number in self.custody.orphans():
            self.publications[number].settled_at = inf
        for number, record in enumerate(self.publications):
            if record.settled_at is None or record.refused:
                continue
            for counted, path in record.owed:
                self._judge(number, record, record.settled_at, counted, path)
            apart = sum(not self._has(number, counted) for counted in record.apart)
            self.excused["apart"] += apart
            if record.cut:
                self.cut_count += 1
                self.cut_connected += not apart
                self.crying_wolf += all(
                    self._has(number, counted) or (counted.end is not None and counted.withdrawn)
                    for counted, _ in record.owed
                )

    def _has(self, number: int, counted: Counted) -> bool:
        subscription = counted.announced
        return subscription.number in self._had[subscription.life].get(number, ())

    def judge_exact(self, first: int, whole: bool = True) -> None:
        """Publications from this number on were sent in peace: exactly their subscribers have them, or, if
        the overlay is not `whole` any more, those of them that can be reached."""
        live = [counted for counted in self._counting if counted.announced.subscribes]
        for number in range(first, len(self.publications)):
            record = self.publications[number]
            if number % self.judge_every:
                continue
            if record.cut and not record.owed:
                continue  # refused: outside what its publisher advertised
            if record.settled_at is None or record.cut:
                self.violation(f"fresh publication {number} was {'cut' if record.cut else 'not settled'}")
            wanted = _pairs(record, live)
            owed = wanted if whole else _pairs(record, [counted for counted, _ in record.owed])
            had = {(life, n) for life, all_had in self._had.items() for n in all_had.get(number, ())}
            if owed - had or had - wanted:
                self.violation(f"fresh publication {number}: missing {owed - had}, surplus {had - wanted}")

    def _judge(
        self,
        number: int,
        record: Published,
        settled_at: float,
        counted: Counted,
        path: tuple[Edge, ...],
    ) -> None:
        subscription = counted.announced
        over = counted.end is not None and counted.end <= settled_at
        if over and self.nobody_to_tell(counted):
            return
        self.owed_checked += 1
        if self._has(number, counted):
            return
        reason = self.excuse(record, settled_at, counted, path, over)
        if reason:
            self.excused[reason] += 1
            return
        self.violation(
            f"publication {number} ({record.life} #{record.sequence}, accepted {record.accepted_at:.4f},"
            f" settled {settled_at:.4f}) never reached client {subscription.life} subscription"
            f" {subscription.number} at broker {counted.home}"
        )

    def nobody_to_tell(self, counted: Counted) -> bool:
        """Whoever has withdrawn a subscription meanwhile is not told what it missed."""
        return counted.withdrawn or counted.announced.withdrawn

    def excuse(
        self, record: Published, settled_at: float, counted: Counted, path: tuple[Edge, ...], over: bool
    ) -> str:
        """Why this may be missing; empty if nothing excuses it."""
        assert record.accepted_at is not None
        life = counted.announced.life
        if record.cut:
            return "cut"
        if record.persisted_at is not None and any(map(self.disk_told, record.brokers)):
            return "disk"
        if self.custody.forgot(path, settled_at):
            return "neighbours forgotten"
        if life[0] < 0 and self.stream_told(counted.home):
            return "disk"
        lagged = any(begin <= settled_at and end >= record.accepted_at for begin, end in self._behind[life])
        if lagged and life in self._dropped:
            return "dropped"
        if counted.end is None or not (over or lagged):
            return ""
        if life in self._ended:
            return "ended"
        if self.nobody_to_tell(counted):  # withdrawn before its session was back
            return "withdrawn"
        told = any(at >= counted.end for at in self._gaps[life, counted.announced.number])
        return "gap" if told else ""


def _pairs(record: Published, counted: list[Counted]) -> set[tuple[Life, int]]:
    """The subscriptions among these that want it."""
    wanting = (one.announced for one in counted if matches(one.announced.filter, record.attributes))
    return {(subscription.life, subscription.number) for subscription in wanting}
