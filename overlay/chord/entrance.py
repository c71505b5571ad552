"""What clients publish enters a plane of the ring here, at its first broker.

Durable publications are kept first (journal/holding.py); the record that settles them goes on although their
publisher is gone. While the ring changes planes a client's wait until its older ones are settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grapevine.wire.messages import DURABLE, ExtendedPublish, Publication, Publish
from overlay.chord.ways import Entering
from overlay.data.client import Client
from overlay.data.replays import withdraw_durable
from overlay.data.runs import flags_of, stamp, stamp_extended
from overlay.links.settling import Settling

if TYPE_CHECKING:
    from overlay.chord.path import ChordPath


class Entrance:
    def __init__(self, path: ChordPath) -> None:
        self.path = path
        self.may_enter: Callable[[Client], bool] = lambda client: True  # by this plane
        self.waiting: dict[Client, list[Entering]] = {}  # what may not yet

    def accept(self, client: Client, batch: Publish, repeated: int, now: float) -> None:
        path = self.path
        publications = batch.publications[repeated:] if repeated else batch.publications
        stamped = stamp_extended if batch.kind == ExtendedPublish.kind else stamp
        stamped(publications, client.id, client.incarnation, now, path.plane)
        record = Settling(client.incoming)
        if not client.unrestricted:
            publications = path.permitted(client, publications, record)
        if flags_of(publications) & DURABLE and path.keep is None:
            withdraw_durable(publications)
        elif flags_of(publications) & DURABLE and path.keep is not None:
            cuts = record.cuts
            publications, record = path.keep(client, publications, batch.first + repeated - 1)
            record.cuts += cuts
        path.accepted += len(publications)
        self._enter(client, publications, record, now)
        path.end(client, record)

    def _enter(self, client: Client, publications: list[Publication], record: Settling, now: float) -> None:
        with_topic = self.path.with_topic(publications, record)
        if client in self.waiting or not self.may_enter(client):
            record.pending += 1
            self.waiting.setdefault(client, []).append((with_topic, record))
            self.path.look_soon(now)
        else:
            self.path.up(with_topic, -1, None, record, now)

    def release(self, now: float) -> None:
        for client in [one for one in self.waiting if self.may_enter(one)]:
            for publications, record in self.waiting.pop(client):
                if not record.dropped:
                    self.path.up(publications, -1, None, record, now)
                    self.path.hold_used(record)
                record.release()
