"""Where publications go: a route is what the tables say about one set of attributes for one incoming side,
a fan the streams that the publications of one or several routes are appended to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self

from grapevine.wire.messages import Publication
from matching.routes import RouteCache
from overlay.clients.client import Client
from overlay.clients.shelf import Ids, Shelf, Sleepers
from overlay.links.session import Remote, Session


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
    clients' with the ids of their subscriptions beside them; `sessions` are theirs. Clients that are asleep
    are the last; for them a publication is laid on the shelf."""

    __slots__ = (
        "clients",
        "links",
        "listed",
        "named",
        "peers",
        "queues",
        "sessions",
        "shelf",
        "sleepers",
    )

    def __init__(
        self,
        peers: tuple[Remote, ...],
        awake: Streams,
        links: tuple[Queue, ...] | None = None,
    ) -> None:
        self.peers = peers
        self.clients = awake.clients
        self.links: tuple[Queue, ...] = tuple([p.out.queue for p in peers]) if links is None else links
        self.queues: list[Queue] = [*self.links, *awake.queues]
        self.listed = awake.listed
        self.sessions: Sequence[Session] = [*peers, *awake.clients] if peers else awake.clients
        self.shelf: Shelf | None = None
        self.sleepers: Sleepers = ()
        self.named: set[int] = set()  # publishers whose names all these clients know

    def lead_to_shelf(self, shelf: Shelf, asleep: list[Client]) -> None:
        """Further clients, which are asleep."""
        places = enumerate(asleep, len(self.clients))
        self.shelf, self.sleepers = shelf, tuple([(client.deliveries, place) for place, client in places])
        self.clients = self.clients + asleep

    def take_all(self, publications: list[Publication], ids: tuple[bytes, ...]) -> None:
        """Publications of one route."""
        for queue in self.queues:
            queue += publications
        count = len(publications)
        for listed, each in zip(self.listed, ids):
            listed += [each] * count
        if self.sleepers:
            self.lay(publications, [ids] * count)

    def take(self, publications: list[Publication], routes: list[Route]) -> None:
        """Publications of several routes that end in this fan."""
        for queue in self.queues:
            queue += publications
        for place, listed in enumerate(self.listed):
            listed += [route.ids[place] for route in routes]
        if self.sleepers:
            self.lay(publications, [route.ids for route in routes])

    def take_one(self, publication: Publication, ids: tuple[bytes, ...]) -> None:
        for queue in self.queues:
            queue.append(publication)
        for listed, each in zip(self.listed, ids):
            listed.append(each)
        if self.sleepers:
            self.lay([publication], [ids])

    def lay(self, publications: list[Publication], ids: list[Ids]) -> None:
        assert self.shelf is not None
        self.shelf.lay(self.sleepers, publications, ids)

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
    def peers(self) -> tuple[Remote, ...]:
        return self.fan.peers

    @property
    def clients(self) -> list[tuple[Client, bytes]]:
        return list(zip(self.fan.clients, self.ids))


# Who gets a copy, and by which queues if not simply their own.
Hops = tuple[tuple[Remote, ...], tuple[Queue, ...] | None]
NOBODY: Hops = ((), None)
NOWHERE = Route(Fan((), streams_of([])), (), False)
