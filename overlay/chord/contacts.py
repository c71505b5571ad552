"""Sessions between the brokers of a ring: dialled when a node is wanted, given up when it is dead.

One session for each pair carries everything. Who dialled it dials it again when its link breaks, and the
other side if that one does not come; after `chord.lost_after_s` without a link it is lost, and the node with
it. A broker that has restarted is another node: what was under way to the old one is not for the new one, so
the old session is lost when the new one comes. A session that nobody needs any more is closed (idle.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grapevine.wire.chord import RingNode
from grapevine.wire.messages import Hello, Message, Refuse
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.handshake import Handshake
from overlay.links.members import Members
from overlay.links.session import Kind, Link, Remote, Session
from overlay.settings import ChordSettings

UNANSWERED = 1.2  # times greet_s: a dial that nobody answers is given up before
LIVES = 16  # bits of a node's incarnation for the lives of one process on the ring


class RingPeer(Remote):
    """Another broker of the ring."""

    __slots__ = ("idle",)

    def __init__(self, core: Core, broker: int, name: str) -> None:
        super().__init__(core, Kind.PEER, broker, name)
        self.idle = False  # nobody needs it (idle.py): when it ends, nobody is dead

    @property
    def going(self) -> bool:
        return self.paused or self.idle

    @property
    def retiring(self) -> bool:
        return self.idle


class RingSessions(Members):
    """Members whose sessions do not outlive the process at the other end."""

    def accept(self, link: Link, hello: Hello, now: float) -> None:
        self._bury(hello, now)
        super().accept(link, hello, now)

    def answered(self, link: Link, hello: Hello, greeted: Callable[[Any, float], None], now: float) -> None:
        self._bury(hello, now)
        super().answered(link, hello, greeted, now)

    def _bury(self, hello: Hello, now: float) -> None:
        known = self.core.peers.get(hello.broker)
        if known is not None and known.incarnation != hello.incarnation:
            self.core.lose(known, now)

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, RingPeer):
            lost_at = now + self.core.settings.chord.lost_after_s
            session.lost_timer = self.core.timers.at(lost_at, lambda later: self.core.lose(session, later))


class RingContacts(Quiet):
    before = ("Membership",)

    def __init__(self, handshake: Handshake, settings: ChordSettings, addresses: tuple[str, ...]) -> None:
        self.handshake = handshake
        self.settings = settings
        self.others = tuple(address for address in settings.members if address not in addresses)
        self.members = RingSessions(handshake, RingPeer, self._refusal, lambda session, hello, now: None)
        self.on_died: list[Callable[[RingNode, float], None]] = []
        self.left: Callable[[], bool] = lambda: False  # whether we were on the ring and have said farewell
        self._dead: dict[int, int] = {}  # broker -> incarnation of the last node of it that died
        self._wanted: dict[int, RingNode] = {}
        self._failing: dict[int, float] = {}  # since when nobody answers
        self._dialling: set[tuple[str, ...]] = set()

    def attach(self, core: Core) -> None:
        self.core = core

    def _refusal(self, hello: Hello) -> Refuse | None:
        """Who leaves is on the ring until it has handed its topics on: those before it must find it there, or
        nobody asks it who else is before it."""
        if self.left() and hello.broker not in self.core.peers:
            return Refuse("leaving", f"{self.core.name} has left the ring")
        return None

    # --- questions --------------------------------------------------------------------------------------

    def session(self, node: RingNode) -> RingPeer | None:
        """Of the process that this node is of; perhaps without a link for the moment."""
        found = self.core.peers.get(node.broker)
        if isinstance(found, RingPeer) and found.incarnation == node.incarnation >> LIVES:
            return found
        return None

    def connected(self, node: RingNode) -> bool:
        return self.session(node) is not None

    def linked(self, node: RingNode) -> bool:
        found = self.session(node)
        return found is not None and found.link is not None

    def dead(self, node: RingNode) -> bool:
        found = self.core.peers.get(node.broker)
        if found is not None:
            return found.incarnation > node.incarnation >> LIVES
        return self._dead.get(node.broker, 0) >= node.incarnation

    def died_as(self, broker: int) -> int:
        """The incarnation of the last node of this broker that died; 0: none."""
        return self._dead.get(broker, 0)

    def tell(self, node: RingNode, message: Message) -> bool:
        found = self.session(node)
        if found is None or found.link is None:
            return False
        self.core.tell(message, found)
        return True

    # --- dialling ---------------------------------------------------------------------------------------

    def want(self, node: RingNode, now: float) -> None:
        if node.broker != self.core.id and not self.dead(node):
            self._wanted[node.broker] = node
            if self.session(node) is None:
                self._dial(node.addresses, now)

    def redial(self, node: RingNode, now: float) -> None:
        """Somebody who was given up, and may live."""
        if node.broker not in self.core.peers:
            self._dial(node.addresses, now)

    def seeds(self) -> tuple[Session, ...]:
        """Of the configured members those with a session; the others are dialled."""
        found: dict[Session, None] = {}
        known = {address: peer for peer in self.core.peers.values() for address in peer.addresses}
        for address in self.others:
            if address in known:
                found[known[address]] = None
            else:
                self._dial((address,), self.core.now)
        return tuple(found)

    def met(self, address: str, now: float) -> Session | None:
        """The session with who is there; if there is none it is dialled."""
        for peer in self.core.peers.values():
            if address in peer.addresses:
                return peer
        self._dial((address,), now)
        return None

    def _dial(self, addresses: tuple[str, ...], now: float) -> None:
        if not addresses or addresses in self._dialling:
            return
        self._dialling.add(addresses)

        def greeted(session: RingPeer, later: float) -> None:
            self._dialling.discard(addresses)

        def failed(reason: str, text: str, later: float) -> None:
            self._dialling.discard(addresses)
            self._unanswered(addresses, later)

        self.handshake.dial(addresses, greeted, failed, now)

    def _unanswered(self, addresses: tuple[str, ...], now: float) -> None:
        """Again after a pause, until the node is given up."""
        for broker, node in list(self._wanted.items()):
            if node.addresses == addresses and self.session(node) is None:
                since = self._failing.setdefault(broker, now)
                if now - since >= self.settings.lost_after_s:
                    self._died(node, now)
                else:
                    self._later(addresses, now)
        for peer in self.core.peers.values():
            if peer.addresses == addresses and peer.link is None:
                self._later(addresses, now)

    def _later(self, addresses: tuple[str, ...], now: float) -> None:
        pause_s = self.core.settings.links.redial_s
        self.core.timers.at(now + pause_s, lambda later: self._again(addresses, later))

    def _again(self, addresses: tuple[str, ...], now: float) -> None:
        wanted = [n for n in self._wanted.values() if n.addresses == addresses and self.session(n) is None]
        broken = [p for p in self.core.peers.values() if p.addresses == addresses and p.link is None]
        if wanted or any(peer.dialled for peer in broken):
            self._dial(addresses, now)

    # --- sessions ---------------------------------------------------------------------------------------

    def link_up(self, session: Session, now: float) -> None:
        self._failing.pop(session.id, None)

    def link_down(self, session: Session, now: float) -> None:
        if not isinstance(session, RingPeer):
            return
        if session.dialled:
            self._later(session.addresses, now)
        else:
            pause_s = UNANSWERED * self.core.settings.links.greet_s
            self.core.timers.at(now + pause_s, lambda later: self._instead(session, later))

    def _instead(self, session: RingPeer, now: float) -> None:
        """Who dialled it does not come. Perhaps it had given that dial up before we answered, and takes us
        for who has dialled."""
        if session.link is None and not session.lost and not session.idle:
            self._dial(session.addresses, now)

    def link_losing(self, session: Session, now: float) -> None:
        """Nobody counts on it any more when what was under way is taken back."""
        if isinstance(session, RingPeer):
            self.core.peers.pop(session.id, None)
            if session.idle:
                self._wanted.pop(session.id, None)
                return
            last = (session.incarnation << LIVES) + (1 << LIVES) - 1
            node = self._wanted.get(session.id)
            if node is None or node.incarnation >> LIVES != session.incarnation:
                node = RingNode(session.id, session.id, last, session.name, session.addresses)
            self._dead[session.id] = max(self._dead.get(session.id, 0), last)
            self._died(node, now)

    def _died(self, node: RingNode, now: float) -> None:
        self._dead[node.broker] = max(self._dead.get(node.broker, 0), node.incarnation)
        self._failing.pop(node.broker, None)
        if self._wanted.get(node.broker) == node:
            del self._wanted[node.broker]
        for call in self.on_died:
            call(node, now)

    def status(self) -> Status:
        return {}
