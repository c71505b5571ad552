"""A client as its first broker knows it: a link session with subscriptions and advertisements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from grapevine.filters.normal import EVERYTHING, Filter
from grapevine.wire.messages import Attach, Deliver, Dropped, Names
from overlay.data.deliveries import Deliveries
from overlay.links.session import Kind, Link, Session

if TYPE_CHECKING:
    from overlay.core import Core
    from overlay.timers import Timer

Key = tuple[int, int]  # of a subscription or an advertisement: (origin, serial)
INTRODUCED = 32_768  # publishers; a client remembers the names of twice as many
DROPPED_S = 1.0  # between two words about losses to a client that gets nothing else


class Client(Session):
    __slots__ = (
        "_drained",
        "_dropped_at",
        "_dropped_timer",
        "_introduced",
        "_reported_dropped",
        "advertisements",
        "deliveries",
        "ended",
        "key",
        "may_ask",
        "may_publish",
        "publishes",
        "resends",
        "since",
        "stall_timer",
        "subscriptions",
        "unadvertising",
        "unrestricted",
    )

    lasting = False  # whether it is owed what is published while this broker is away

    def __init__(self, core: Core, attach: Attach, drained: Callable[[Client], None], now: float) -> None:
        limits = core.settings.clients
        self.deliveries = Deliveries(attach.on_slow, limits.queue, limits.queue_bytes)
        window = core.settings.clients.window
        super().__init__(core, Kind.CLIENT, attach.client, attach.name, window, self.deliveries)
        self.incarnation = attach.incarnation
        self.epoch = attach.epoch
        self.deliveries.begin(attach.window)
        if core.journal is not None:
            self.incoming.has_journal()
        self.subscriptions: dict[int, Key] = {}
        self.advertisements: dict[int, tuple[Key, Filter]] = {}
        self.unadvertising: list[tuple[int, Key]] = []  # when this position is settled
        self.unrestricted = False
        self.publishes = False  # or did: its publications may be waited for
        self.resends = attach.resume is not None  # it was at another broker: what it published there
        self.key = ""  # of the link it came by
        self.may_publish = self.may_ask = EVERYTHING
        self.ended = False  # detached or lost; stays until what it published is settled
        self.since = now
        self.stall_timer: Timer | None = None
        self._introduced: dict[int, str] = {}  # publishers whose names it has, with their broker's
        self._reported_dropped = 0
        self._dropped_at = 0.0  # not before, if nothing flows
        self._dropped_timer: Timer | None = None
        self._drained = drained

    def advertised(self) -> Iterator[Filter]:
        return (filter for _, filter in self.advertisements.values())

    @property
    def begins(self) -> bool:
        """Whether it has come by itself: not as a stand-in, nor moved here with what it publishes."""
        return not self.ended and all(key[0] == self.core.id for key, _ in self.advertisements.values())

    def readvertised(self) -> None:
        """The set of advertisements has changed."""
        self.publishes = True
        free = self.may_publish == EVERYTHING
        self.unrestricted = free and any(filter == EVERYTHING for filter in self.advertised())
        self.routes.at(-1)

    def grant(self, publish: Filter, ask: Filter) -> None:
        """What its key may publish and ask from now on."""
        if (publish, ask) != (self.may_publish, self.may_ask):
            self.may_publish, self.may_ask = publish, ask
            self.readvertised()

    def introduce(self, publisher: int, name: str, broker_name: str) -> None:
        """Names go out before the first delivery of a publisher, and of one that is elsewhere now."""
        if self._introduced.get(publisher) != broker_name and self.link is not None:
            if len(self._introduced) >= INTRODUCED:
                self._introduced.clear()
            self._introduced[publisher] = broker_name
            self.core.tell(Names(publisher, name, broker_name), self)

    def forget_introductions(self) -> None:
        self._introduced.clear()

    def flush(self) -> None:
        deliveries = self.deliveries
        deliveries.seal(self.core.settings.links.batch_publications)
        if (link := self.link) is not None:
            self._send(link)
        self._drained(self)

    def _send(self, link: Link) -> None:
        incoming, deliveries = self.incoming, self.deliveries
        flows = self.writable and deliveries.sendable
        if deliveries.dropped != self._reported_dropped:
            self._tell_dropped(link, flows)
        self.flush_marks(link, flows)
        if not flows:
            return
        for chunk in deliveries.take(self.core.settings.links.batch_publications):
            deliver = Deliver(
                self.epoch,
                chunk.first - deliveries.base,
                incoming.received,
                incoming.settled,
                incoming.credit,
                chunk.publications,
                chunk.ids,
            )
            self.core.out.batch(link.number, deliver, chunk)
            self.carried()

    def _tell_dropped(self, link: Link, flows: bool) -> None:
        """Before what it gets next, else once in a while: who reads nothing need not hear of each loss."""
        now = self.core.now
        if flows or now >= self._dropped_at:
            self._reported_dropped = self.deliveries.dropped
            self._dropped_at = now + DROPPED_S
            self.core.send(Dropped(self.deliveries.dropped), link)
        elif self._dropped_timer is None:
            self._dropped_timer = self.core.timers.at(self._dropped_at, self._dropped_due)

    def _dropped_due(self, now: float) -> None:
        self._dropped_timer = None
        self.touch()
