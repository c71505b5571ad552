"""How a ring begins: its configured members found it together (Zave: a ring begins with correct lists).

When all of them are met and wait, the one with the lowest position tells the others who founds the ring. Each
founder that has heard it takes the others for members from then on, whether they have heard it or not: so it
tells those that seem not to have, whenever they ask for a ring or a link to them comes up, until they speak
as members. A founder that dies before it has heard had no topics; those behind it know that (roots.py).

If one of them has met a broker that is on a ring, none is founded, and it names that broker to the others:
all configured members may have restarted while the others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from grapevine.wire.chord import RingForm, RingNode
from overlay.chord.contacts import LIVES
from overlay.core import Core
from overlay.links.session import Session
from overlay.settings import ChordSettings


class Founder(Protocol):
    """A broker that may found a ring."""

    settings: ChordSettings
    addresses: tuple[str, ...]
    member: bool
    me: RingNode


class Founding:
    def __init__(self, place: Founder, formed: Callable[[tuple[RingNode, ...], float], None]) -> None:
        self.place = place
        self.formed = formed
        self.waiting: dict[int, RingNode] = {}  # seeds that wait for a ring, as they said last
        self.nodes: tuple[RingNode, ...] = ()  # who founded our ring with us
        self.unheard: dict[int, RingNode] = {}  # of these, who has not spoken as a member yet
        self._members: dict[int, RingNode] = {}  # who is on a ring, as it said last

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(RingForm, self.on_form)

    @property
    def elsewhere(self) -> RingNode | None:
        """Somebody on a ring."""
        return next(iter(self._members.values()), None)

    def said(self, node: RingNode, member: bool) -> None:
        self._members.pop(node.broker, None)
        if member:
            self._members[node.broker] = node
            self.heard(node.broker)

    def waits(self, node: RingNode, now: float) -> None:
        """A seed has said that it is on no ring."""
        self.waiting[node.broker] = node
        place, listed = self.place, set(self.place.settings.members)
        known = {address for other in self.waiting.values() for address in other.addresses}
        if self._members or not listed.intersection(place.addresses) or listed - known - set(place.addresses):
            return
        seeds = [other for other in self.waiting.values() if listed.intersection(other.addresses)]
        nodes = tuple(sorted((place.me, *seeds), key=lambda other: other.position))
        if nodes[0] == place.me:
            self._begin(nodes, now)

    def _begin(self, nodes: tuple[RingNode, ...], now: float) -> None:
        self.nodes = nodes
        self.unheard = {node.broker: node for node in nodes if node != self.place.me}
        for broker in self.unheard:
            if (session := self.core.peers.get(broker)) is not None:
                self.remind(session)
        self.formed(nodes, now)

    def on_form(self, session: Session, form: RingForm, now: float) -> None:
        if not self.place.member and self.place.me in form.nodes:
            self._begin(form.nodes, now)

    def remind(self, session: Session) -> None:
        """Tell a founder again, unless it has spoken as a member or is another node by now."""
        node = self.unheard.get(session.id)
        if node is not None and node.incarnation >> LIVES == session.incarnation and session.link is not None:
            self.core.tell(RingForm(self.nodes), session)

    def heard(self, broker: int) -> None:
        """It speaks as a member."""
        self.unheard.pop(broker, None)

    def died(self, broker: int) -> None:
        self.waiting.pop(broker, None)
        self.unheard.pop(broker, None)
        self._members.pop(broker, None)

    def clear(self) -> None:
        self.waiting.clear()
