"""What must arrive, what may, and what must not (DECISIONS 20).

* A publication that its publisher knows to be settled is owed to every subscription that counted, at the
  broker that accepted it, from acceptance to settling. Owed is delivered exactly once.
* Everything else is delivered at most once; nothing is delivered to a client without a matching subscription;
  the order of one publisher's incarnation is kept at every client.
* A subscription counts from its confirmation to unsubscribe or loss of its session. It is not owed what lay
  behind a link that was lost between acceptance and settling, nor what was settled while the client did not
  keep up and was then dropped or lost with the broker (DECISIONS 2).

A publication is known by a number in its payload, so that a publisher that counts its messages wrongly cannot
deceive the oracle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import inf
from struct import Struct

from grapevine.client.session import AdvertisementState, Away, SubscriptionState
from grapevine.client.session import Message as Delivery
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter, Value
from grapevine.wire.messages import Publication
from tools.simulator.clients import ClientHost
from tools.simulator.reach import Edge, Reach
from tools.simulator.world import World

Life = tuple[int, int]  # a client's host, and which of its processes
KEPT = 20  # violations told in full
_NUMBER = Struct("<Q")
_number = _NUMBER.unpack


class Counted:
    """One stretch of time in which a subscription, or an advertisement, counts. `met` are the brokers that
    were connected with its home since: a subscription that was confirmed before anybody called for it is
    known where it was made and nowhere else, and sets out when it hears of the advertisement."""

    __slots__ = ("announced", "begin", "end", "home", "met", "reach")

    def __init__(self, announced: Announced, begin: float, home: int, reach: int) -> None:
        self.announced = announced
        self.begin = begin
        self.end: float | None = None
        self.home = home
        self.reach = self.met = reach

    def connect(self, together: int) -> None:
        """These brokers are connected by now."""
        if self.reach & together:
            self.reach |= together
        if together >> self.home & 1:
            self.met |= together


class Announced:
    """A client's subscription or advertisement."""

    __slots__ = ("counted", "filter", "life", "number", "subscribes", "withdrawn")

    def __init__(self, life: Life, number: int, filter: Filter, subscribes: bool) -> None:
        self.life = life
        self.number = number
        self.filter = filter
        self.subscribes = subscribes
        self.counted: Counted | None = None
        self.withdrawn = False


class Published:
    __slots__ = ("accepted_at", "attributes", "cut", "life", "owed", "sequence", "settled_at")

    def __init__(self, life: Life, sequence: int, attributes: Mapping[str, Value]) -> None:
        self.life = life
        self.sequence = sequence
        self.attributes = attributes
        self.accepted_at: float | None = None  # the first time
        self.settled_at: float | None = None
        self.cut = False
        self.owed: list[tuple[Counted, tuple[Edge, ...]]] = []


class Oracle:
    def __init__(self, world: World, broker_index: Mapping[str, int], judge_every: int = 1) -> None:
        self.world = world
        self.judge_every = judge_every  # of so many publications one is followed to all its subscribers
        self.reach = Reach()
        self.flooding = False  # subscriptions go everywhere, whoever advertises
        self.serves: Callable[[int, ClientHost], bool] = lambda home, client: True
        self.ordered = True
        self.violations: list[str] = []
        self.violation_count = 0
        self.deliveries = self.owed_checked = self.excused = 0
        self.publications: list[Published] = []
        self._broker_index = broker_index
        self._announced: dict[Life, dict[int, Announced]] = defaultdict(dict)
        self._counting: dict[Counted, None] = {}
        self._by_sequence: dict[Life, dict[int, int]] = defaultdict(dict)
        self._had: dict[Life, dict[int, frozenset[int]]] = defaultdict(dict)
        self._order: dict[Life, dict[Life, int]] = defaultdict(dict)
        self._behind: dict[Life, list[tuple[float, float]]] = defaultdict(list)
        self._dropped: set[Life] = set()
        self._ended_at: dict[Life, float] = {}

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
        known.counted = Counted(known, self.world.now, home, self.reach.connected_to(home))
        self._counting[known.counted] = None

    def withdrawn(self, client: ClientHost, state: SubscriptionState | AdvertisementState) -> None:
        known = self._announced[client.index, client.life][state.number]
        known.withdrawn = True
        self._stop_counting(known, self.world.now)

    def unconfirmed(self, client: ClientHost, state: SubscriptionState | AdvertisementState) -> None:
        """It is being announced anew."""
        self._stop_counting(self._announced[client.index, client.life][state.number], self.world.now)

    def moved(self, client: ClientHost, broker_name: str) -> None:
        """It publishes at another broker now, with the same advertisements."""
        for known in self._announced[client.index, client.life].values():
            if known.counted is not None and not known.subscribes and broker_name:
                known.counted.home = self._broker_index[broker_name]
                known.counted.met |= self.reach.connected_to(known.counted.home)

    def session_lost(self, client: ClientHost, since: float, publishes: bool) -> None:
        """The client is attached afresh: its subscriptions have not counted since it lost its link, nor what
        it advertises if it `publishes` there."""
        for known in self._announced[client.index, client.life].values():
            if publishes or known.subscribes:
                self._stop_counting(known, since)

    def ended(self, client: ClientHost) -> None:
        life = (client.index, client.life)
        self._ended_at[life] = self.world.now
        for known in self._announced[life].values():
            self._stop_counting(known, self.world.now)

    def _stop_counting(self, known: Announced, at: float) -> None:
        if known.counted is not None:
            known.counted.end = at
            self._counting.pop(known.counted, None)
            known.counted = None

    # --- brokers ------------------------------------------------------------------------------------

    def links_seen(self, broker: int, synced: frozenset[int]) -> None:
        for one, _ in self.reach.observe(broker, synced):
            together = self.reach.connected_to(one)
            for counted in self._counting:
                counted.connect(together)

    def link_lost(self, one: int, other: int) -> None:
        self.reach.lose(self.world.now, one, other)
        for counted in self._counting:
            counted.reach &= self.reach.held_with(counted.home)

    def broker_crashed(self, broker: int) -> None:
        self.reach.observe(broker, frozenset())
        for counted in list(self._counting):
            counted.reach &= ~(1 << broker)
            if counted.home == broker:
                self._stop_counting(counted.announced, self.world.now)

    def broker_left(self, broker: int) -> None:
        """In good order: what it had is handed on, so what was known behind it stays known."""
        self.reach.observe(broker, frozenset())

    def session_ended(self, life: Life, broker: int) -> None:
        """This broker has given the client up."""
        for known in self._announced[life].values():
            if known.counted is not None and known.counted.home == broker:
                self._stop_counting(known, self.world.now)

    def client_behind(self, life: Life, behind: bool) -> None:
        """From now on the broker holds deliveries for this client that hold nobody's settling, or no more."""
        spans = self._behind[life]
        if behind:
            spans.append((self.world.now, inf))
        else:
            spans[-1] = (spans[-1][0], self.world.now)

    def dropped(self, client: ClientHost) -> None:
        """The broker has dropped deliveries because this client did not keep up."""
        self._dropped.add((client.index, client.life))

    # --- publications -------------------------------------------------------------------------------

    def published(self, client: ClientHost, sequence: int, attributes: Mapping[str, Value]) -> bytes:
        life = (client.index, client.life)
        self.publications.append(Published(life, sequence, attributes))
        number = len(self.publications) - 1
        self._by_sequence[life][sequence] = number
        return _NUMBER.pack(number)

    def accepted(self, broker: int, publications: list[Publication]) -> None:
        """The first broker takes these now. After several acceptances only those are owed to whom each of
        them owed it: who came in between may have had later ones already, and order comes first."""
        for publication in publications:
            number = _number(publication.payload)[0]
            if number % self.judge_every:
                continue
            record = self.publications[number]
            owed = self._owed(broker, record)
            if record.accepted_at is None:
                record.accepted_at = self.world.now
            else:  # both paths count: what was lost on the first one is told to nobody if the broker is gone
                before = dict(record.owed)
                owed = [(counted, path + before[counted]) for counted, path in owed if counted in before]
            record.owed = owed

    def _owed(self, broker: int, record: Published) -> list[tuple[Counted, tuple[Edge, ...]]]:
        invited = self._invited(record)
        return [
            (counted, path)
            for counted in self._counting
            if counted.announced.subscribes
            and counted.reach >> broker & invited >> counted.home & 1
            and matches(counted.announced.filter, record.attributes)
            and (path := self.reach.path(broker, counted.home)) is not None
        ]

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

    def cut(self, client: ClientHost, first: int, last: int) -> None:
        numbers = self._by_sequence[client.index, client.life]
        for sequence in range(first, last + 1):
            if sequence in numbers:
                self.publications[numbers[sequence]].cut = True

    def delivered(self, client: ClientHost, deliveries: list[Delivery]) -> None:
        """Order, and so that nothing comes twice, is checked always; the rest of those that are judged."""
        life = (client.index, client.life)
        order = self._order[life]
        self.deliveries += len(deliveries)
        for delivery in deliveries:
            publication = delivery.publication
            number = _number(publication.payload)[0]
            record = self.publications[number]
            source = record.life
            if self.ordered and record.sequence <= order.get(source, 0):
                self.violation(f"{client.name} got publication {number} twice or out of order")
            order[source] = record.sequence
            if not number % self.judge_every:
                if number in self._had[life]:
                    self.violation(f"{client.name} got publication {number} twice")
                self._had[life][number] = frozenset(delivery.subscriptions)
                self._check_match(client, number, record, delivery, self._announced[life])

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
        for number, record in enumerate(self.publications):
            if record.cut or record.settled_at is None:
                continue
            for counted, path in record.owed:
                self._judge(number, record, record.settled_at, counted, path)

    def judge_exact(self, first: int) -> None:
        """Publications from this number on were sent in peace: exactly their subscribers have them."""
        live = [counted for counted in self._counting if counted.announced.subscribes]
        for number in range(first, len(self.publications)):
            record = self.publications[number]
            if number % self.judge_every:
                continue
            if record.cut and not record.owed:
                continue  # refused: outside what its publisher advertised
            if record.settled_at is None or record.cut:
                self.violation(f"fresh publication {number} was {'cut' if record.cut else 'not settled'}")
            wanted = {
                (c.announced.life, c.announced.number)
                for c in live
                if matches(c.announced.filter, record.attributes)
            }
            had = {(life, n) for life, all_had in self._had.items() for n in all_had.get(number, ())}
            if wanted != had:
                self.violation(f"fresh publication {number}: missing {wanted - had}, surplus {had - wanted}")

    def _judge(
        self,
        number: int,
        record: Published,
        settled_at: float,
        counted: Counted,
        path: tuple[Edge, ...],
    ) -> None:
        assert record.accepted_at is not None
        subscription = counted.announced
        if counted.end is not None and counted.end <= settled_at:
            return
        self.owed_checked += 1
        if subscription.number in self._had[subscription.life].get(number, ()):
            return
        if self.reach.lost_between(path, record.accepted_at, settled_at):
            self.excused += 1
        elif self._kept_behind(subscription.life, record.accepted_at, settled_at, counted):
            self.excused += 1
        else:
            self.violation(
                f"publication {number} ({record.life} #{record.sequence}, accepted {record.accepted_at:.4f},"
                f" settled {settled_at:.4f}) never reached client {subscription.life} subscription"
                f" {subscription.number} at broker {counted.home}"
            )

    def _kept_behind(self, life: Life, accepted_at: float, settled_at: float, counted: Counted) -> bool:
        """Settled while the client lagged, and afterwards dropped by its policy or lost with its session."""
        lagged = any(begin <= settled_at and end >= accepted_at for begin, end in self._behind[life])
        return lagged and (counted.end is not None or life in self._dropped)
