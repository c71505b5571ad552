"""How questions travel on a ring: to everybody, and along the way of a publication.

A question to everybody goes to each pointer with the arc that it answers for, from itself to before the
next one; who is asked does the same with its own pointers on that arc. So nobody is asked twice. A trace
goes up as a publication does, and down with the list of members that it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from grapevine.filters.normal import Value
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.messages import CensusRequest, TraceRequest
from overlay.administration.census import Spread
from overlay.administration.reports import Row
from overlay.chord.contacts import RingContacts
from overlay.chord.path import ChordPath
from overlay.chord.planes import Planes
from overlay.chord.ring import distance
from overlay.chord.topics import Refusal, key_of, topic_of
from overlay.core import Core
from overlay.data.client import Client
from overlay.links.session import Remote, Session

MATCHED, NO_MATCH, NOT_ALLOWED = "matched", "no match", "not allowed"
NO_TOPIC, MALFORMED, WAITS = "no topic", "malformed", "waits"
TO_ROOT, TO_MEMBERS = "towards its root", "members behind it"


def on_arcs(planes: Planes, contacts: RingContacts) -> Spread:
    """Everybody on the ring, each once."""

    def spread(request: CensusRequest, came_from: Remote | None) -> list[tuple[Remote, CensusRequest]]:
        membership = planes.membership
        here = membership.me.position
        end = here if came_from is None else request.end
        reach = distance(here, end) or 1 << 64
        inside = {node.position: node for node in membership.pointers()}
        places = sorted(distance(here, position) for position in inside)
        places = [place for place in places if 0 < place < reach]
        found = []
        for place, following in zip(places, [*places[1:], reach], strict=False):
            session = contacts.session(inside[(here + place) % (1 << 64)])
            if session is not None:
                until = (here + following) % (1 << 64)
                found.append((session, msgspec.structs.replace(request, end=until)))
        return list(found)

    return spread


class ChordDecision:
    """What this broker would do with a publication, and why."""

    def __init__(self, core: Core, path: ChordPath, side: Session | None, request: TraceRequest) -> None:
        self.core, self.path, self.side = core, path, side
        self.onward: dict[Remote, tuple[int, ...]] = {}
        self.row: Row = {"id": core.id, "broker": core.name, "hops": request.hops, "verdict": ""}
        self.row |= {"from": side.name if isinstance(side, Remote) else None, "neighbours": [], "clients": []}
        self.row["client_count"] = 0
        try:
            content = decode_attributes(request.attributes)
        except WireError:
            self.row["verdict"] = MALFORMED
            return
        topic = topic_of(content, path.terms)
        if isinstance(topic, Refusal):
            self.row["verdict"] = NO_TOPIC
        elif isinstance(side, Client) and not path.find_route(side, request.attributes).allowed:
            self.row["verdict"] = NOT_ALLOWED
        else:
            self._decide(topic, key_of(topic), request, content)

    def _decide(self, topic: str, key: int, request: TraceRequest, content: Mapping[str, Value]) -> None:
        self.row |= {"topic": topic, "key": f"{key:016x}", "root": False}
        if request.excluded:
            self._down(request.excluded, request.attributes)
            return
        expected = isinstance(self.side, Remote) and self.path.is_behind(self.side.id, key)
        wanted = self.path.wanted(key, expected)
        if wanted is None:
            self.row["verdict"] = WAITS
        elif wanted[0] is None:
            members = self.path.roots.members(key)
            self.row |= {"root": True, "members": len(members)}
            self._down(tuple(sorted(members)), request.attributes)
        else:
            session = wanted[0].session
            assert isinstance(session, Remote)
            self._to(session, (), TO_ROOT)
            self.row["verdict"] = MATCHED

    def _down(self, targets: tuple[int, ...], attributes: bytes) -> None:
        here = self.path.membership.me.position
        behind: dict[Remote, list[int]] = {}
        for target in targets:
            hop = self.path.membership.hop_to(target) if target != here else None
            session = None if hop is None else self.path.contacts.session(hop)
            if session is not None:
                behind.setdefault(session, []).append(target)
        for peer, theirs in behind.items():
            self._to(peer, tuple(theirs), TO_MEMBERS)
        if here in targets:
            route = self.path.find_local(attributes)
            self.row["clients"] = [
                {"name": client.name, "count": 1, "subscriptions": []} for client, _ in route.clients
            ]
            self.row["client_count"] = len(route.clients)
        self.row["verdict"] = MATCHED if self.onward or self.row["client_count"] else NO_MATCH

    def _to(self, peer: Remote, targets: tuple[int, ...], reason: str) -> None:
        self.onward[peer] = targets
        row = {"name": peer.name, "taken": True, "reason": reason, "count": len(targets), "subscriptions": []}
        self.row["neighbours"].append(row)


Decide = Callable[[Session | None, TraceRequest], ChordDecision]
