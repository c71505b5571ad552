"""What comes for dormant subscribers, kept once however many they are: a spill queue that they share.

A subscriber that was silent for `stall_s` and has a backlog is *dormant*: nobody waits for it and nothing may
leave to it, so what comes for it need not be looked at before it is heard of. A fan appends a run once. The
queue is emptied into their backlogs, which share its lists, when it is full (by number or bytes), when a
dormant subscriber gets credit, when somebody asks, and at least once a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grapevine.wire.messages import Publication
from overlay.data.backlog import Weighed, weigh

if TYPE_CHECKING:
    from overlay.data.client import Client
    from overlay.data.deliveries import Deliveries

MOST = 4_096  # publications
MOST_BYTES = 8 * 1024 * 1024
SHARE = 32

Ids = tuple[bytes, ...]  # of a route: for each of its clients
Pair = tuple[int, bytes]  # a client's number, and its ids
Dormant = tuple[tuple["Deliveries", int], ...]  # with their places in a route's ids


class Run:
    __slots__ = ("ids", "publications", "size", "dormant")

    def __init__(self, dormant: Dormant) -> None:
        self.dormant = dormant
        self.publications: list[Publication] = []
        self.ids: list[Ids] = []
        self.size = 0  # bytes


class SpillQueue:
    __slots__ = ("_length", "_runs", "_size", "limit", "limit_bytes", "dormant")

    def __init__(self) -> None:
        self.limit_to(MOST, MOST_BYTES)
        self.dormant: dict[int, Client] = {}  # by number
        self._runs: list[Run] = []
        self._length = self._size = 0

    def limit_to(self, queue: int, queue_bytes: int) -> None:
        """What waits here is a small part of what may wait for one of them."""
        self.limit = min(MOST, queue)
        self.limit_bytes = min(MOST_BYTES, queue_bytes // SHARE)

    def part(self, deliveries: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        """Those to clients that are not dormant, and the others."""
        dormant = self.dormant
        return [p for p in deliveries if p[0] not in dormant], [p for p in deliveries if p[0] in dormant]

    def append(self, dormant: Dormant, publications: Sequence[Publication], ids: Sequence[Ids]) -> None:
        """What follows for the same subscribers joins the last run: the order is that of the calls."""
        if not self._runs or self._runs[-1].dormant is not dormant:
            self._runs.append(Run(dormant))
        run = self._runs[-1]
        run.publications.extend(publications)
        run.ids.extend(ids)
        size = weigh(publications)
        run.size += size
        self._length += len(publications)
        self._size += size
        if self._length >= self.limit or self._size >= self.limit_bytes:
            self.empty()

    def empty(self) -> None:
        runs, self._runs, self._length, self._size = self._runs, [], 0, 0
        shared: dict[Deliveries, None] = {}
        for run in runs:
            whole = Weighed(run.publications, run.size)
            for deliveries, place in run.dormant:
                if deliveries.spill is self:  # it has not ended meanwhile
                    deliveries.backlog.share(whole, run.ids, place)
                    shared[deliveries] = None
        for deliveries in shared:
            deliveries.shed()

    def take_in(self, client: Client) -> None:
        self.dormant[client.number] = client
        client.deliveries.spill = self

    def release(self, client: Client) -> None:
        """From now on what comes for it goes to its queue."""
        self.empty()
        self.dormant.pop(client.number, None)
        client.deliveries.spill = None
