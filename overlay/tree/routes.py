"""Where publications go: a route is what the tables say about one set of attributes for one incoming side,
a fan the streams that the publications of one or several routes are appended to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self

from grapevine.wire.messages import Publication
from matching.routes import RouteCache
from overlay.clients.client import Client
from overlay.links.session import Remote, Session


class Queue(Protocol):
    """A list of publications, or what stands before one."""

    def append(self, publication: Publication, /) -> None: ...
    def __iadd__(self, publications: Iterable[Publication], /) -> Self: ...


class Side(Protocol):
    """Where publications come from: a session, or a session's publications that exclude some brokers."""

    name: str
    routes: RouteCache


class Fan:
    """The streams that the publications of one or several routes go to: the neighbours' queues, and the
    clients' with the ids of their subscriptions beside them."""

    __slots__ = ("clients", "links", "listed", "named", "peers", "queues", "sessions")

    def __init__(
        self, peers: tuple[Remote, ...], clients: list[Client], links: tuple[Queue, ...] | None = None
    ) -> None:
        self.peers = peers
        self.clients = clients
        self.links: tuple[Queue, ...] = tuple([p.out.queue for p in peers]) if links is None else links
        self.queues: list[Queue] = [*self.links, *[client.out.queue for client in clients]]
        self.listed = [client.out.ids for client in clients]
        self.sessions: dict[Session, None] = dict.fromkeys([*peers, *clients])
        self.named: set[int] = set()  # publishers whose names all these clients know

    def take_all(self, publications: list[Publication], ids: tuple[bytes, ...]) -> None:
        """Publications of one route."""
        for queue in self.queues:
            queue += publications
        count = len(publications)
        for listed, each in zip(self.listed, ids):
            listed += [each] * count

    def take(self, publications: list[Publication], routes: list[Route]) -> None:
        """Publications of several routes that end in this fan."""
        for queue in self.queues:
            queue += publications
        for place, listed in enumerate(self.listed):
            listed += [route.ids[place] for route in routes]

    def take_one(self, publication: Publication, ids: tuple[bytes, ...]) -> None:
        for queue in self.queues:
            queue.append(publication)
        for listed, each in zip(self.listed, ids):
            listed.append(each)

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
NOWHERE = Route(Fan((), []), (), False)
