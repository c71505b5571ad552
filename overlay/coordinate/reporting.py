"""SPEC A4, A5: a broker towards the coordinator: says whom it serves, and hands subscribers over.

The coordinator asks over the overlay, as for everything that concerns all brokers
(administration/census.py), and says up to where it has heard. Subscribers go by the one handover
(handover/handover.py) with all that they have; those to channels are positions, which the client says at its
new broker.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec

from grapevine.wire.handover import MOVED, HandoverOffer
from overlay.administration.census import Census
from overlay.administration.census import Report as Answer
from overlay.behaviour import Quiet, Status
from overlay.channels.frontend import FrontEnd
from overlay.coordinate.changes import Changes
from overlay.coordinate.registry import Reported, Subscriber
from overlay.core import Core
from overlay.data.client import Client
from overlay.handover.handover import Handovers, Outcome

REPORT, DEPART = "balance.report", "balance.depart"
ENTRIES = 2_000  # of each kind in a report
SHOWN = 200  # back-end subscriptions in a picture
STAYS = 1_000  # the last that did not go are remembered

Knows = dict[str, tuple[int, int, int]]  # broker -> incarnation, numbers of changes


class Depart(msgspec.Struct, frozen=True, array_like=True):
    subscriber: str
    source: str
    addresses: tuple[str, ...]  # of its new broker, for brokers that know no handover
    target: str = ""  # its name


class Reporting(Quiet):
    """`serves`: subscribers may be sent here. `fixed`: whether a client has streams here, which stay."""

    name = "subscribers of channels"
    after = ("Handovers",)

    def __init__(
        self,
        census: Census,
        front: FrontEnd,
        handovers: Handovers,
        addresses: tuple[str, ...],
        location: tuple[float, ...],
        serves: bool,
    ) -> None:
        self.census = census
        self.front = front
        self.handovers = handovers
        self.addresses = addresses
        self.location = location
        self.serves = serves
        self.fixed: Callable[[Client], bool] = lambda client: False
        self.subscribers: Changes[Subscriber] = Changes()
        self.produced: Changes[int] = Changes()
        self.handed_over = 0
        self._stays: dict[str, str] = {}  # who did not go when told last, and why
        census.reporters[REPORT] = self._report
        census.reporters[DEPART] = self._depart

    def attach(self, core: Core) -> None:
        self.core = core

    # --- what is told -------------------------------------------------------------------------------------

    def _report(self, argument: bytes) -> Answer | None:
        try:
            known = msgspec.json.decode(argument, type=Knows).get(self.core.name, (0, 0, 0))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        mine = known[0] == self.core.incarnation
        self._look()
        subscribers = self.subscribers.since(known[1] if mine else 0, ENTRIES)
        produced = self.produced.since(known[2] if mine else 0, ENTRIES)
        report = Reported(
            **self.census.brief(),
            addresses=self.addresses,
            location=self.location,
            serves=self.serves and not self.core.leaving,
            clients=len(self.core.clients),
            since=(subscribers.since, produced.since),
            through=(subscribers.through, produced.through),
            more=subscribers.more or produced.more,
            subscribers=subscribers.changed,
            gone=subscribers.gone,
            produced=produced.changed,
            ended=produced.gone,
            stays=self._stays,
        )
        found: Answer = msgspec.to_builtins(report)
        return found

    def _look(self) -> None:
        """Online subscribers only, as the paper counts."""
        found = {}
        for client, mine in self.front.by_client.items():
            wanted = tuple(sorted({fe.be for fe in mine.values() if fe.be}))
            if client.link is not None and wanted:
                found[client.name] = Subscriber(self._movable(client), wanted)
        self.subscribers.update(found)
        if self.front.own is not None:
            self.produced.update({str(be): total for be, total in self.front.own.produced.items()})

    def picture(self) -> dict[str, object] | None:
        """Of whom results come and to whom they go, for who draws it; None where nobody asks for any."""
        wanted = self.front.wanted
        if not wanted:
            return None
        shown = islice(wanted.values(), SHOWN)
        backs = [{"name": one.title, "subscriptions": len(one.fes)} for one in shown]
        subscribers = sum(1 for client in self.front.by_client if client.link is not None)
        return {"backend": backs, "frontend": subscribers, "moved": self.handed_over}

    def _movable(self, client: object) -> bool:
        return isinstance(client, Client) and client.speaks(HandoverOffer) and not self.fixed(client)

    # --- who is to go -------------------------------------------------------------------------------------

    def _depart(self, argument: bytes) -> Answer | None:
        try:
            wanted = msgspec.json.decode(argument, type=list[Depart])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        mine = [depart for depart in wanted if depart.source == self.core.name and depart.target]
        if not mine:
            return None
        by_name = {client.name: client for client in self.front.by_client if client.link is not None}
        refused: dict[str, str] = {}
        going: dict[str, list[Client]] = {}
        for depart in mine:
            self._stays.pop(depart.subscriber, None)
            client = by_name.get(depart.subscriber)
            if not isinstance(client, Client):
                refused[depart.subscriber] = "not here"
            elif not self._movable(client):
                refused[depart.subscriber] = "has durable subscriptions, or an old library"
            else:
                going.setdefault(depart.target, []).append(client)
        for target, clients in going.items():
            self.handovers.move(clients, target, self._ended, self.census.asked_at)
        return {**self.census.brief(), "refused": refused}

    def _ended(self, outcomes: list[Outcome], now: float) -> None:
        """Who has moved is reported by its new broker."""
        for one in outcomes:
            self.handed_over += one.outcome == MOVED
            if one.outcome != MOVED:
                self._stays[one.client] = one.text
        while len(self._stays) > STAYS:
            del self._stays[next(iter(self._stays))]

    def status(self) -> Status:
        return {"serves": self.serves, "handed_over": self.handed_over}
