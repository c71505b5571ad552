"""A late update, made on purpose: a publisher moves on while an update of its last move is still on its way.

Links are FIFO and an update is repeated only where a link came back, so chance hardly ever brings this about.
When the update has left the third broker of the path, the link by which it came there breaks. As soon as the
link is back and the update is repeated, that direction is clogged. The other one lets the move complete;
at once the publisher is asked to go back to where it came from, past brokers that the update then reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grapevine.wire.messages import Message
from grapevine.wire.relocation import MigrationUpdate, Relocate, RelocateEnd
from overlay.data.client import Client
from tools.simulator.broker import BrokerHost
from tools.simulator.network import End

if TYPE_CHECKING:
    from tools.simulator.faults import FaultPlan

PATH = 4  # brokers at least: the late update must meet one that is neither source nor target
ATTEMPTS = 20
AGAIN_S = 0.02

Id = tuple[int, int, int]


class Watched:
    """A migration that is to leave a late update behind."""

    def __init__(self, source: BrokerHost) -> None:
        self.source = source
        self.broken = self.clogged = False


class LateUpdates:
    def __init__(self, plan: FaultPlan) -> None:
        self.plan = plan
        self.watched: dict[Id, Watched] = {}
        self._send = plan.network.send
        plan.network.send = self.send  # type: ignore[method-assign]

    def begin(self, source: BrokerHost, client: Client, target: BrokerHost) -> None:
        """Ask a publisher to move, and follow what becomes of it."""
        core = source.core
        assert core is not None
        if len(self.plan.path(core, target)) >= PATH:
            offer = self.plan.relocate(source, client, target)
            if offer is not None:
                self.watched[_id(offer)] = Watched(source)

    def send(self, end: End, message: Message, publications: int = 0) -> None:
        self._send(end, message, publications)
        if isinstance(message, MigrationUpdate):
            self._update(end, message)
        elif isinstance(message, RelocateEnd) and message.outcome == "moved":
            self._moved(end, message)

    def _update(self, end: End, update: MigrationUpdate) -> None:
        watched = self.watched.get(_id(update))
        if watched is None or self.plan.over:
            return
        sender = self._broker(end).core
        assert sender is not None
        place = update.path.index(sender.id)
        if place == 2 and not watched.broken:
            behind = next((e for e in end.host.ends.values() if self._leads_to(e, update.path[3])), None)
            if behind is not None:  # else another fault was there first
                watched.broken = True
                self.plan.network.break_connection(behind, told=True, other_told=True)
        elif place == 3 and watched.broken and not watched.clogged and end.other is not None:
            watched.clogged = True
            self.plan.counts["late update"] += 1
            end.other.clogged_until = self.plan.world.now + self.plan.random.uniform(1.0, 3.0)

    def _moved(self, end: End, message: RelocateEnd) -> None:
        watched = self.watched.get(_id(message))
        target = end.other.host if end.other is not None else None
        if watched is not None and watched.clogged and isinstance(target, BrokerHost):
            if target is not watched.source:
                del self.watched[_id(message)]
                self._send_back((target, end.host.name, watched.source, ATTEMPTS))

    def _send_back(self, state: tuple[BrokerHost, str, BrokerHost, int]) -> None:
        """As soon as its new broker would offer it."""
        broker, publisher, back, attempts = state
        if self.plan.over or not broker.up or not back.up or not attempts:
            return
        client = next((c for c in self.plan.publishers(broker) if c.name == publisher), None)
        if client is None or self.plan.relocate(broker, client, back) is None:
            self.plan.world.after(AGAIN_S, self._send_back, (broker, publisher, back, attempts - 1))

    def _broker(self, end: End) -> BrokerHost:
        assert isinstance(end.host, BrokerHost)
        return end.host

    def _leads_to(self, end: End, broker: int) -> bool:
        host = end.other.host if end.other is not None and not end.cut else None
        return isinstance(host, BrokerHost) and host.core is not None and host.core.id == broker


def _id(message: Relocate | MigrationUpdate | RelocateEnd) -> Id:
    return message.origin, message.incarnation, message.number
