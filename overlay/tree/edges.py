"""Who is whose parent (E1 of the model): every broker knows every edge of its part of the tree.

An edge is a broker and its parent. Only the broker itself raises its number; words are merged by maximum, so
their order and repetition do not matter. They are flooded, a few together, and told whole to a neighbour that
comes, before any table. An edge is *synced* once its broker and the parent have exchanged tables. One whose
link is broken stands until its broker takes another parent: nobody else can tell death from silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from grapevine.wire.edges import Edge, Edges
from grapevine.wire.limits import ADDRESSES, EDGES
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.tree.join import Join
from overlay.tree.peer import Peer, peers_of
from overlay.tree.sync import Sync

SPREAD_S = 0.02  # what others say is passed on together
BEYOND = 16  # addresses of brokers two hops away that a client is told
BROKERS = 65_536  # more are not remembered


class KnownEdges(Quiet):
    name = "edges"
    after = ("Members", "Join")
    before = ("Advertisements", "Subscriptions")

    def __init__(self, join: Join, sync: Sync) -> None:
        self.join = join
        self.by_broker: dict[int, Edge] = {}
        self.children: dict[int, set[int]] = {}  # by broker: whose parent it is
        # Told of what others say: the edge that counted before, if any, and the one that does now.
        self.changed: list[Callable[[Edge | None, Edge, float], None]] = []
        self._news: dict[int, Peer | None] = {}  # to be passed on: by broker, who told it
        join.reparented = self._reparented
        join.left = self._left
        join.elsewhere = self.elsewhere
        sync.forget_stale.append(self._synced)
        sync.said.append(self._synced)

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Edges, self.on_edges)
        self._enter(Edge(core.id, core.name, core.incarnation, 0, 0, self.join.handshake.addresses))

    @property
    def own(self) -> Edge:
        return self.by_broker[self.core.id]

    # --- questions --------------------------------------------------------------------------------------

    def ancestors(self, broker: int) -> Iterator[Edge]:
        """Those above it, its parent first; as far as they are known."""
        for above in self.chain(broker)[1:]:
            if above in self.by_broker:
                yield self.by_broker[above]

    def below(self, broker: int) -> set[int]:
        """A broker and everybody whose way to the root leads by it."""
        found, front = {broker}, [broker]
        while front:
            fresh = self.children.get(front.pop(), set()) - found
            found |= fresh
            front += fresh
        return found

    def side(self, broker: int) -> int:
        """The neighbour, by the edges, behind which a broker lies; 0 if there is none."""
        here, chain = self.core.id, self.chain(broker)
        if here in chain:
            return chain[chain.index(here) - 1] if broker != here else 0
        return self.own.parent if set(chain).intersection(self.chain(here)) else 0

    def chain(self, broker: int) -> list[int]:
        """A broker and those above it, also the last of whom nothing but its id is known."""
        chain: dict[int, None] = {}
        while broker and broker not in chain:
            chain[broker] = None
            edge = self.by_broker.get(broker)
            broker = edge.parent if edge is not None else 0
        return list(chain)

    def elsewhere(self) -> tuple[str, ...]:
        """Addresses of everybody who is not below us, as far as we know; those above us first."""
        below = self.below(self.core.id)
        others = (edge for broker, edge in sorted(self.by_broker.items()) if broker not in below)
        known = dict.fromkeys((*self.ancestors(self.core.id), *others))
        return tuple(address for edge in known if not edge.gone for address in edge.addresses[:1])[:ADDRESSES]

    def beyond(self) -> list[str]:
        """Where those are that are two hops away: a few, since clients try them one after the other."""
        near = {self.own.parent, *self.children.get(self.core.id, ())}
        far = {edge.parent for broker in near if (edge := self.by_broker.get(broker)) is not None}
        far |= {child for broker in near for child in self.children.get(broker, ())}
        known = (self.by_broker.get(broker) for broker in sorted(far - near - {0, self.core.id}))
        return [edge.addresses[0] for edge in known if edge is not None and edge.addresses][:BEYOND]

    # --- our own ----------------------------------------------------------------------------------------

    def _reparented(self) -> None:
        parent = self.join.parent
        self.change(parent.id if parent is not None else 0)

    def change(self, parent: int) -> None:
        if self.own.parent != parent:
            edge = replace(self.own, number=self.own.number + 1, parent=parent, synced=False)
            self._say(edge)

    def _synced(self, peer: Peer, now: float) -> None:
        if peer is self.join.parent and peer.connected and not self.own.synced and self.own.parent == peer.id:
            self._say(replace(self.own, synced=True))

    def _left(self) -> None:
        self._say(replace(self.own, number=self.own.number + 1, parent=0, gone=True))

    def _say(self, edge: Edge) -> None:
        self._enter(edge)
        self.core.tell(Edges((edge,)), *self._linked())

    # --- what others say --------------------------------------------------------------------------------

    def on_edges(self, peer: Peer, message: Edges, now: float) -> None:
        waiting = bool(self._news)
        for edge in message.edges:
            if edge.broker == self.core.id or not self._is_newer(edge):
                continue
            if edge.broker not in self.by_broker and len(self.by_broker) >= BROKERS:
                self.core.refuse("edges")
                continue
            before = self.by_broker.get(edge.broker)
            self._enter(edge)
            self._news[edge.broker] = peer
            for call in self.changed:
                call(before, edge, now)
        if self._news and not waiting:
            self.core.timers.at(now + SPREAD_S, self._pass_on)

    def _is_newer(self, edge: Edge) -> bool:
        known = self.by_broker.get(edge.broker)
        return known is None or order(edge) > order(known)

    def _enter(self, edge: Edge) -> None:
        known = self.by_broker.get(edge.broker)
        if known is not None and known.parent:
            self.children[known.parent].discard(edge.broker)
            if not self.children[known.parent]:
                del self.children[known.parent]
        self.by_broker[edge.broker] = edge
        if edge.parent:
            self.children.setdefault(edge.parent, set()).add(edge.broker)

    def _pass_on(self, now: float) -> None:
        news, self._news = self._news, {}
        for peer in self._linked():
            self._tell(
                peer, [self.by_broker[broker] for broker, source in news.items() if source is not peer]
            )

    def _tell(self, peer: Peer, edges: list[Edge]) -> None:
        for first in range(0, len(edges), EDGES):
            self.core.tell(Edges(tuple(edges[first : first + EDGES])), peer)

    def _linked(self) -> list[Peer]:
        return [peer for peer in peers_of(self.core).values() if peer.link is not None]

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self._tell(session, list(self.by_broker.values()))

    # --- what it looks like -----------------------------------------------------------------------------

    def status(self) -> Status:
        return {"brokers": sum(not edge.gone for edge in self.by_broker.values()), "number": self.own.number}

    def validate(self) -> None:
        parent = self.join.parent
        assert self.own.parent == (parent.id if parent is not None else 0), self.own
        for parent_id, children in self.children.items():
            for child in children:
                assert self.by_broker[child].parent == parent_id, (child, parent_id)


def order(edge: Edge) -> tuple[int, int, bool, bool]:
    return edge.incarnation, edge.number, edge.gone, edge.synced
