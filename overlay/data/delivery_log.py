"""What happened to each publication here, for the delivery log (INTERFACES): accept, forward, deliver, drop.

Off costs nothing: the data path asks once per batch whether there is a log. `sampled` takes one in
`sample` of each publisher's sequence numbers, the same ones at every broker, so that sampled paths are
whole.
"""

from __future__ import annotations

from grapevine.wire.messages import Publication
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.path import Publications
from overlay.data.routes import Route, Side
from overlay.outbox import Event
from overlay.settings import CoreSettings, DeliveryLogSettings


class DeliveryLog(Quiet):
    def __init__(self, settings: DeliveryLogSettings, publications: Publications) -> None:
        self.publications = publications
        self.set(settings)

    def attach(self, core: Core) -> None:
        self.core = core

    def set(self, settings: DeliveryLogSettings) -> None:
        """Also while the broker runs."""
        self.every = settings.sample if settings.mode == "sampled" else 1
        self.publications.log = None if settings.mode == "off" else self.record

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        self.set(self.core.settings.delivery_log)

    def record(self, side: Side, publication: Publication, route: Route, fresh: bool, now: float) -> None:
        if publication.sequence % self.every:
            return
        if isinstance(side, Client):
            name = side.name
            self._write(publication, name, "accept", name, b"", False, "", now)
        else:
            name = self._name(publication.publisher)
        pure = not route.clients
        for peer in route.peers:
            self._write(publication, name, "forward", peer.name, b"", pure, "", now)
        for client, ids in route.clients:
            event, reason = ("deliver", "") if fresh else ("drop", "duplicate")
            self._write(publication, name, event, client.name, ids, False, reason, now)
        if pure and not route.peers:
            self._write(publication, name, "drop", "", b"", False, "no match", now)

    def _name(self, publisher: int) -> str:
        """Looked up now: it may have gone when the line is written."""
        known = self.publications.router.introduction(publisher)
        return f"{publisher:016x}" if known is None else known.publisher_name

    def _write(
        self,
        publication: Publication,
        name: str,
        event: str,
        to: str,
        ids: bytes,
        pure: bool,
        reason: str,
        now: float,
    ) -> None:
        delay_us = int((now - publication.accepted_at) * 1e6)
        numbers = tuple(int.from_bytes(ids[i : i + 4], "little") for i in range(0, len(ids), 4))
        self.core.out.logs.append(
            Event(
                now,
                event,
                name,
                publication.sequence,
                to,
                numbers,
                publication.hops,
                delay_us,
                pure,
                reason,
            )
        )
