"""What one broker would do with a publication, and why: the row of a trace.

The route is asked of the data path itself (Publications.find_route), so a trace cannot tell another story
than a publication. Beside it stands the reason for every neighbour: taken because something there matches,
or not taken because nothing does, because it came from there, or because the link is down.
"""

from __future__ import annotations

from collections.abc import Mapping

from grapevine.filters.normal import Value
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.limits import HOPS
from grapevine.wire.messages import TraceRequest
from overlay.administration.labels import filter_text, label
from overlay.administration.reports import Row
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.path import Publications
from overlay.data.routes import Route, Side
from overlay.links.session import Remote, Session
from overlay.softlinks.excludes import Narrowed, Stamped
from overlay.softlinks.soft import Soft
from overlay.tree.peer import Peer, peers_of
from overlay.tree.router import TreeRouter
from overlay.tree.subscriptions import SubscriptionEntry

MATCHED = "matched"
NO_MATCH = "no match"
CAME_FROM = "came from there"
BYPASSED = "bypassed"  # all that matches there is served by a soft link past it
SHORTCUT = "matched, by a soft link"
SERVED = "served by another"  # who sent it here serves that side itself
NOT_ADVERTISED = "not advertised"  # nobody advertised it here, so subscriptions were not sent here
SUSPENDED = "suspended"  # matched; waits for the link to return
NOT_ALLOWED = "not allowed"
TOO_FAR = "too far"
MALFORMED = "malformed"
EXAMPLES = 20  # subscriptions listed for one neighbour or client; all are counted
CLIENTS = 200


class Decision:
    """`onward` are the brokers that would get the publication from here, and whom their copy excludes."""

    def __init__(
        self,
        core: Core,
        publications: Publications,
        router: TreeRouter,
        side: Session | None,
        request: TraceRequest,
    ) -> None:
        attributes, hops = request.attributes, request.hops
        self.excluded = frozenset(request.excluded)
        self.core = core
        self.publications = publications
        self.router = router
        self.side = side
        self.hops = hops
        self.onward: dict[Remote, tuple[int, ...]] = {}
        self.row: Row = {"id": core.id, "broker": core.name, "hops": hops, "verdict": ""}
        self.row["from"] = side.name if isinstance(side, Remote) else None
        try:
            content = decode_attributes(attributes)
        except WireError:
            self._stop(MALFORMED)
            return
        self._decide(attributes, content)

    def _decide(self, attributes: bytes, content: Mapping[str, Value]) -> None:
        side: Side | None = self.side
        if self.excluded and isinstance(self.side, Remote):
            side = Narrowed(self.side, self.excluded)
        route = self.publications.find_route(side, attributes)
        if isinstance(self.side, Client) and not (self.side.unrestricted or route.allowed):
            self._stop(NOT_ALLOWED)
        elif self.hops > HOPS:
            self._stop(TOO_FAR)
        else:
            for peer, queue in zip(route.remotes, route.fan.links):
                if peer.link is not None:
                    self.onward[peer] = tuple(queue.names) if isinstance(queue, Stamped) else ()
            neighbours = self._neighbours(route, content)
            clients = self._clients(route, content)
            self.row["neighbours"], self.row["clients"] = neighbours, clients[:CLIENTS]
            self.row["client_count"] = len(clients)
            self.row["verdict"] = MATCHED if route.peers or clients else NO_MATCH

    def _stop(self, verdict: str) -> None:
        self.row["verdict"] = verdict
        self.row["neighbours"], self.row["clients"] = [], []

    # --- neighbours -----------------------------------------------------------------------------------

    def _neighbours(self, route: Route, content: Mapping[str, Value]) -> list[Row]:
        subscriptions = self.router.subscriptions
        matching: dict[Session, list[SubscriptionEntry]] = {}
        for number in sorted(subscriptions.remote.match(content)):
            entry = subscriptions.table.entry(number)
            matching.setdefault(entry.source, []).append(entry)
        advertised = subscriptions.flooding or self._advertised(content)
        softs = [soft for soft in route.peers if isinstance(soft, Soft)]
        passed = {soft.path[0] for soft in softs}
        served = _served_past(softs, matching)
        rows = [
            self._neighbour(peer, peer in route.peers, matching.get(peer, []), advertised, passed)
            for peer in peers_of(self.core).values()
        ]
        return rows + [self._shortcut(soft, served[soft]) for soft in softs]

    def _shortcut(self, soft: Soft, entries: list[SubscriptionEntry]) -> Row:
        names = self.core.names
        bypasses = [names.get(broker, f"{broker:016x}") for broker in soft.path[:-1]]
        return {
            "name": soft.name,
            "taken": True,
            "reason": SHORTCUT,
            "bypasses": bypasses,
            **self._matching(entries),
        }

    def _advertised(self, content: Mapping[str, Value]) -> bool:
        return bool(self.router.advertisements.index.match(content))

    def _neighbour(
        self,
        peer: Peer,
        taken: bool,
        entries: list[SubscriptionEntry],
        advertised: bool,
        passed: set[int],
    ) -> Row:
        if taken:
            reason = MATCHED if peer.link is not None else SUSPENDED
        elif peer is self.side:
            reason = CAME_FROM
        elif entries:
            reason = BYPASSED if peer.id in passed else SERVED
        else:
            reason = NO_MATCH if advertised else NOT_ADVERTISED
        return {"name": peer.name, "taken": taken, "reason": reason, **self._matching(entries)}

    # --- clients --------------------------------------------------------------------------------------

    def _clients(self, route: Route, content: Mapping[str, Value]) -> list[Row]:
        subscriptions = self.router.subscriptions
        matching: dict[Session, list[SubscriptionEntry]] = {}
        for number in sorted(subscriptions.local.match(content)):
            entry = subscriptions.table.entry(number)
            matching.setdefault(entry.source, []).append(entry)
        return [
            {"name": client.name, "numbers": numbers(ids), **self._matching(matching.get(client, []))}
            for client, ids in route.clients
        ]

    def _matching(self, entries: list[SubscriptionEntry]) -> Row:
        return {"count": len(entries), "subscriptions": [self._entry(e) for e in entries[:EXAMPLES]]}

    def _entry(self, entry: SubscriptionEntry) -> Row:
        """A matching subscription; `covered_by` is the one by which the side it came from knows of it."""
        subscriptions, names = self.router.subscriptions, self.core.names
        row = {"id": label(*entry.key, names), "filter": filter_text(entry.item.filter)}
        announced = subscriptions.announced.get(self.side) if isinstance(self.side, Peer) else None
        if announced is not None and (coverer := announced.coverer.get(entry.number)) is not None:
            row["covered_by"] = label(*subscriptions.table.entry(coverer).key, names)
        return row


def _served_past(
    softs: list[Soft], matching: dict[Session, list[SubscriptionEntry]]
) -> dict[Soft, list[SubscriptionEntry]]:
    """For which subscriptions each soft link is taken: those behind its far end, by the farthest one."""
    served: dict[Soft, list[SubscriptionEntry]] = {soft: [] for soft in softs}
    farthest_first = sorted(softs, key=lambda soft: -len(soft.path))
    for entry in (entry for entries in matching.values() for entry in entries):
        for soft in farthest_first:
            if soft.leads(entry.item.path):
                served[soft].append(entry)
                break
    return served


def numbers(packed: bytes) -> list[int]:
    """A client's own numbers of its subscriptions, from the form they have in a delivery."""
    words = (packed[at : at + 4] for at in range(0, min(len(packed), 4 * EXAMPLES), 4))
    return [int.from_bytes(word, "little") for word in words]
