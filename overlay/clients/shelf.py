"""What comes for subscribers that are asleep, kept once however many they are.

A subscriber that was silent for `stall_s` and has a backlog is *asleep*: nobody waits for it and nothing may
leave to it, so what comes for it need not be looked at before it wakes. A fan lays a run on the shelf once.
The shelf is emptied into the sleepers' backlogs, which share its lists, when it is full, when a sleeper
gets credit, when somebody asks, and at least once a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from grapevine.wire.messages import Publication

if TYPE_CHECKING:
    from overlay.clients.client import Client
    from overlay.clients.deliveries import Deliveries

LAID = 4_096  # publications

Ids = tuple[bytes, ...]  # of a route: for each of its clients
Pair = tuple[int, bytes]  # a client's number, and its ids
Sleepers = tuple[tuple["Deliveries", int], ...]  # with their places in a route's ids


class Run(NamedTuple):
    sleepers: Sleepers
    publications: list[Publication]
    ids: list[Ids]


class Shelf:
    __slots__ = ("_laid", "_runs", "limit", "sleepers")

    def __init__(self) -> None:
        self.limit = LAID
        self.sleepers: dict[int, Client] = {}  # by number
        self._runs: list[Run] = []
        self._laid = 0

    def part(self, deliveries: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        """Those to clients that are awake, and the others."""
        sleepers = self.sleepers
        return [p for p in deliveries if p[0] not in sleepers], [p for p in deliveries if p[0] in sleepers]

    def lay(self, sleepers: Sleepers, publications: Sequence[Publication], ids: Sequence[Ids]) -> None:
        """What follows for the same sleepers joins the last run: the order is that of the calls."""
        if not self._runs or self._runs[-1].sleepers is not sleepers:
            self._runs.append(Run(sleepers, [], []))
        run = self._runs[-1]
        run.publications.extend(publications)
        run.ids.extend(ids)
        self._laid += len(publications)
        if self._laid >= self.limit:
            self.empty()

    def empty(self) -> None:
        runs, self._runs, self._laid = self._runs, [], 0
        shared: dict[Deliveries, None] = {}
        for sleepers, publications, ids in runs:
            for deliveries, place in sleepers:
                if deliveries.shelf is self:  # it has not ended meanwhile
                    deliveries.backlog.share(publications, ids, place)
                    shared[deliveries] = None
        for deliveries in shared:
            deliveries.shed()

    def put_to_sleep(self, client: Client) -> None:
        self.sleepers[client.number] = client
        client.deliveries.shelf = self

    def wake(self, client: Client) -> None:
        """From now on what comes for it goes to its queue."""
        self.empty()
        self.sleepers.pop(client.number, None)
        client.deliveries.shelf = None
