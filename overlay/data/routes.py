"""Where publications go: a route is what the tables say about one set of attributes for one incoming side,
a fan the streams that the publications of one or several routes are appended to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self

from grapevine.wire.messages import Publication
from matching.routes import RouteCache
from overlay.data.client import Client
from overlay.data.spill_queue import Dormant, Ids, SpillQueue
from overlay.links.lane import Lane
from overlay.links.session import Remote


class Queue(Protocol):
    """A list of publications, or what stands before one."""

    def append(self, publication: Publication, /) -> None: ...
    def __iadd__(self, publications: Iterable[Publication], /) -> Self: ...


class Side(Protocol):
    """Where publications come from: a session, or a session's publications that exclude some brokers."""

    name: str
    routes: RouteCache


class Streams(NamedTuple):
    """Clients, their queues, and the lists of ids beside these."""

    clients: list[Client]
    queues: list[list[Publication]]
    listed: list[list[bytes]]


def streams_of(clients: list[Client]) -> Streams:
    return Streams(clients, [client.out.queue for client in clients], [client.out.ids for client in clients])


class Fan:
    """The streams that the publications of one or several routes go to: the neighbours' queues, and the
    clients' with the ids of their subscriptions beside them; `sessions` are theirs. Clients that are dormant
    are the last; for them a publication goes to the spill queue."""

    __slots__ = (
        "clients",
        "links",
        "listed",
        "named",
        "peers",
        "queues",
        "sessions",
        "spill",
        "dormant",
    )

    def __init__(
        self,
        peers: tuple[Lane, ...],
        active: Streams,
        links: tuple[Queue, ...] | None = None,
    ) -> None:
        self.peers = peers
        self.clients = active.clients
        self.links: tuple[Queue, ...] = tuple([p.out.queue for p in peers]) if links is None else links
        self.queues: list[Queue] = [*self.links, *active.queues]
        self.listed = active.listed
        self.sessions: Sequence[Lane] = [*peers, *active.clients] if peers else active.clients
        self.spill: SpillQueue | None = None
        self.dormant: Dormant = ()
        self.named: set[int] = set()  # publishers whose names all these clients know

    def lead_to_spill(self, spill: SpillQueue, dormant: list[Client]) -> None:
        """Further clients, which are dormant."""
        places = enumerate(dormant, len(self.clients))
        self.spill, self.dormant = spill, tuple([(client.deliveries, place) for place, client in places])
        self.clients = self.clients + dormant

    @property
    def reaches(self) -> bool:
        """Whether anybody is at the other end."""
        return bool(self.links or self.clients)

    def take_all(self, publications: list[Publication], ids: tuple[bytes, ...]) -> None:
        """Publications of one route."""
        for queue in self.queues:
            queue += publications
        count = len(publications)
        for listed, each in zip(self.listed, ids):
            listed += [each] * count
        if self.dormant:
            self.lay(publications, [ids] * count)

    def take(self, publications: list[Publication], routes: list[Route]) -> None:
        """Publications of several routes that end in this fan."""
        for queue in self.queues:
            queue += publications
        for place, listed in enumerate(self.listed):
            listed += [route.ids[place] for route in routes]
        if self.dormant:
            self.lay(publications, [route.ids for route in routes])

    def take_one(self, publication: Publication, ids: tuple[bytes, ...]) -> None:
        for queue in self.queues:
            queue.append(publication)
        for listed, each in zip(self.listed, ids):
            listed.append(each)
        if self.dormant:
            self.lay([publication], [ids])

    def lay(self, publications: list[Publication], ids: list[Ids]) -> None:
        assert self.spill is not None
        self.spill.append(self.dormant, publications, ids)

    def pass_on(self, publication: Publication) -> None:
        """To the neighbours only: the clients have it."""
        for queue in self.links:
            queue.append(publication)


class Route:
    """Where publications with certain attributes go from one side; `ids` for each client of the fan."""

    __slots__ = ("allowed", "fan", "ids")

    def __init__(self, fan: Fan, ids: tuple[bytes, ...], allowed: bool) -> None:
        self.fan = fan
        self.ids = ids
        self.allowed = allowed  # only asked where a client publishes

    @property
    def peers(self) -> tuple[Lane, ...]:
        return self.fan.peers

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """The neighbours, on whichever lane."""
        return tuple([lane.session for lane in self.fan.peers if isinstance(lane.session, Remote)])

    @property
    def clients(self) -> list[tuple[Client, bytes]]:
        return list(zip(self.fan.clients, self.ids))


# Who gets a copy, and by which queues if not simply their own.
Hops = tuple[tuple[Lane, ...], tuple[Queue, ...] | None]
NOBODY: Hops = ((), None)
NOWHERE = Route(Fan((), streams_of([])), (), False)
