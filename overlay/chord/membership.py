"""A broker's place on the ring: forming, joining, stabilising, rectifying, leaving (DYNATOPS R1,
ring.py).

A ring begins with the configured members, who found it together (founding.py). Everybody else joins: it asks
its way to the node before its place and adopts that one's list at one stroke. A broker whose successors are
all lost joins again as another node. Who is dead is what `contacts` says: a session was lost, or nobody
answered a fresh dial; a missed answer alone proves nothing.

Pointers that routing may use are successors and fingers (fingers.py) with a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from grapevine.wire.chord import (
    RingAsk,
    RingLeave,
    RingNode,
    RingNotify,
    RingState,
)
from grapevine.wire.identity import identify
from grapevine.wire.messages import Message
from grapevine.wire.reconfiguration import RingPlace
from overlay.behaviour import Quiet, Status
from overlay.chord.contacts import LIVES
from overlay.chord.fingers import Fingers
from overlay.chord.founding import Founding
from overlay.chord.ring import (
    Pointers,
    adopted,
    ideal,
    may_join,
    merge,
    nearer,
    next_hop,
    next_hop_to_key,
    owns,
    rectified,
    together,
)
from overlay.core import Core
from overlay.links.session import Session
from overlay.settings import ChordSettings

ASKED_S = 2.0  # a question without an answer is given up after this


class Contacts(Protocol):
    """Sessions to other nodes, dialled when they are wanted."""

    def want(self, node: RingNode, now: float) -> None: ...
    def tell(self, node: RingNode, message: Message) -> bool: ...
    def connected(self, node: RingNode) -> bool: ...
    def linked(self, node: RingNode) -> bool: ...
    def dead(self, node: RingNode) -> bool: ...
    def redial(self, node: RingNode, now: float) -> None: ...
    def seeds(self) -> tuple[Session, ...]: ...


class Membership(Quiet):
    name = "ring"

    def __init__(self, settings: ChordSettings, addresses: tuple[str, ...], contacts: Contacts) -> None:
        self.settings = settings
        self.addresses = addresses
        self.contacts = contacts
        self.member = False
        self.known_before = False  # who is before us says so: others' ways lead to us
        self.alone = not any(address not in addresses for address in settings.members)
        self.predecessor: RingNode | None = None
        self.successors: tuple[RingNode, ...] = ()
        self.fingers = Fingers(self, contacts, self._moved)
        self.founding = Founding(self, self._formed)
        self.on_member: list[Callable[[float], None]] = []
        self.on_formed: list[Callable[[tuple[RingNode, ...], float], None]] = []
        self.on_predecessor: list[Callable[[float], None]] = []
        self.on_pointers: list[Callable[[float], None]] = []
        self.leaving = False
        self.position = 0  # 0: the broker's id
        self.places: dict[int, int] = {}  # of brokers whose position is not their id
        self.on_rejoin: list[Callable[[float], None]] = []
        self.lives = 0
        self._number = 0
        self._asked: dict[int, Callable[[RingState, float], None]] = {}
        self._unmet: dict[int, tuple[RingNode, int, Callable[[RingState, float], None]]] = {}  # no link yet

    def attach(self, core: Core) -> None:
        self.core = core
        self.length = self.settings.successors
        self.me = self._node()
        core.on(RingAsk, self.on_ask)
        core.on(RingState, self.on_state)
        core.on(RingNotify, self.on_notify)
        self.founding.attach(core)
        core.on(RingLeave, self.on_leave)
        self.fingers.attach(core)
        core.on(RingPlace, self.on_place)

    def _node(self) -> RingNode:
        core = self.core
        self.lives += 1
        incarnation = (core.incarnation << LIVES) + self.lives
        return RingNode(self.position or core.id, core.id, incarnation, core.name, self.addresses)

    def start(self, now: float) -> None:
        if self.alone:
            self._formed((self.me,), now)
        self._again(now)

    def _again(self, now: float) -> None:
        self._step(now)
        pause_s = self.settings.stabilise_s * self.core.random.uniform(0.8, 1.2)
        self.core.timers.at(now + pause_s, self._again)

    def _step(self, now: float) -> None:
        if self.member:
            self._forget_dead(now)  # also who was never met, and has restarted since we heard of it
        if self.member:
            self.stabilise(now)
            self.fingers.refresh(now)
        elif not self.leaving:
            self._seek(now)

    # --- questions ------------------------------------------------------------------------------------

    def pointers(self) -> Iterator[RingNode]:
        """Whom routing may use."""
        connected = self.contacts.connected
        for node in dict.fromkeys((*self.successors, *self.fingers.nodes())):
            if connected(node):
                yield node

    def hop_to(self, position: int) -> RingNode | None:
        return next_hop(self.me.position, self.pointers(), position)

    def hop_to_key(self, key: int) -> RingNode | None:
        """None: here, or nowhere yet."""
        predecessor = None if self.predecessor is None else self.predecessor.position
        live = list(self.pointers())
        first = live[0] if live else None
        return next_hop_to_key(self.me.position, predecessor, first, live, key)

    @property
    def open_before(self) -> bool:
        """Whether nobody before us has said that it is, since the last one died: lists may end with us."""
        return self.predecessor is None and bool(self.successors)

    def is_here(self, key: int) -> bool:
        """Whether the ring says that the key is ours; whether we know its topics is another question."""
        if self.predecessor is None:
            return not self.successors
        return owns(self.predecessor.position, self.me.position, key)

    def nodes(self) -> Iterator[RingNode]:
        """Everybody on whom we rely."""
        if self.predecessor is not None:
            yield self.predecessor
        yield from self.successors
        yield from self.fingers.nodes()

    # --- positions ------------------------------------------------------------------------------------

    def place_of(self, broker: int) -> int:
        return self.places.get(broker, broker)

    def broker_at(self, position: int) -> int:
        return next((broker for broker, place in self.places.items() if place == position), position)

    def on_place(self, session: Session, place: RingPlace, now: float) -> None:
        self.places[session.id] = place.position

    def want(self, node: RingNode, now: float) -> None:
        if node.position != node.broker or node.broker in self.places:
            self.places[node.broker] = node.position
        self.contacts.want(node, now)

    def move_to(self, position: int) -> None:
        """Before we are on the ring: be somewhere else."""
        self.position = position
        self.me = self._node()
        self.fingers.moved_to(self.me)

    def _taken(self, node: RingNode) -> bool:
        """Our position is another broker's since it was moved there: the next one of ours is tried."""
        if node.position != self.me.position or node.broker == self.me.broker:
            return False
        self.move_to(identify(f"{self.me.name} {self.me.position:016x}"))
        return True

    # --- asking ---------------------------------------------------------------------------------------

    def _ask(
        self, node: RingNode | Session, target: int, answered: Callable[[RingState, float], None], now: float
    ) -> None:
        self._number += 1
        number, ask = self._number, RingAsk(self._number, target)
        if isinstance(node, Session):
            self.core.tell(ask, node)
        elif not self.contacts.tell(node, ask):
            self._unmet[node.broker] = (node, target, answered)
            self.want(node, now)
            return
        self._asked[number] = answered
        self.core.timers.at(now + ASKED_S, lambda later: self._give_up(number))

    def ask(self, session: Session, answered: Callable[[RingState, float], None], now: float) -> None:
        """Somebody's state."""
        self._ask(session, self.me.position, answered, now)

    def link_up(self, session: Session, now: float) -> None:
        """Whom we wanted to ask can be asked."""
        self.founding.remind(session)
        if (unmet := self._unmet.pop(session.id, None)) is not None:
            self._ask(*unmet, now)

    def _give_up(self, number: int) -> None:
        self._asked.pop(number, None)

    def on_ask(self, session: Session, ask: RingAsk, now: float) -> None:
        self.founding.remind(session)
        hop = None if self.member or self.leaving else self.founding.elsewhere
        if self.member and self.successors:
            first = self.successors[0].position
            if not owns(self.me.position, first, ask.target):
                hop = next_hop(self.me.position, self.pointers(), ask.target - 1) or self.successors[0]
        state = RingState(ask.number, self.me, self.member, self.predecessor, self.successors, hop)
        self.core.tell(state, session)

    def on_state(self, session: Session, state: RingState, now: float) -> None:
        if state.node.broker != session.id:
            return
        self.founding.said(state.node, state.member)
        if not state.number and self.member:  # unasked
            self._successor_said(state, now)
        if (answered := self._asked.pop(state.number, None)) is not None:
            answered(state, now)

    # --- forming and joining --------------------------------------------------------------------------

    def _seek(self, now: float) -> None:
        """Everybody we have met is asked: a ring goes on without its configured members."""
        for session in dict.fromkeys((*self.contacts.seeds(), *self.core.peers.values())):
            self._ask(session, self.me.position, self._seed_said, now)

    def _seed_said(self, state: RingState, now: float) -> None:
        if self.member or self.leaving:
            return
        if state.member:
            self.founding.clear()
            self._join_by(state, now)
        elif state.hop is not None:
            self._follow(state.hop, now)
        elif state.node.broker > self.me.broker or not self._taken(state.node):
            self.founding.waits(state.node, now)

    def _formed(self, nodes: tuple[RingNode, ...], now: float) -> None:
        self.known_before = True
        if len(nodes) > 1:
            known = ideal(nodes, nodes.index(self.me), self.length, self.settings.base)
            self.predecessor, self.successors = known.predecessor, known.successors
        for call in self.on_formed:
            call(nodes, now)
        self._became_member(now)

    def _join_by(self, state: RingState, now: float) -> None:
        """An answer on the way to our place: go on to the next hop, or join behind who answered."""
        if self.member or self.leaving or not state.member:
            return
        if state.hop is not None:
            self._follow(state.hop, now)
            return
        if any(self._taken(node) for node in (state.node, *state.successors[:1])):
            return
        if may_join(self.me.position, state.node, state.successors):
            self.predecessor = state.node
            self.successors = adopted(self.me, state.node, state.successors, self.length)
            self._became_member(now)

    def _follow(self, hop: RingNode, now: float) -> None:
        if hop.broker != self.me.broker:
            if self.contacts.dead(hop):  # who is on the ring knows better than we, who are not
                self.contacts.redial(hop, now)
            self._ask(hop, self.me.position, self._join_by, now)

    def _became_member(self, now: float) -> None:
        self.member = True
        self.founding.clear()
        for node in self.nodes():
            self.want(node, now)
        for call in self.on_member:
            call(now)
        if self.successors:
            self.stabilise(now)

    def prepare(self, me: RingNode, known: Pointers[RingNode], now: float) -> None:
        """Our place and our pointers, from who knows everybody; `begin` puts us there."""
        self.me, self.position, self.lives = me, me.position, me.incarnation % (1 << LIVES)
        self.fingers.moved_to(me)
        self.predecessor, self.successors = known.predecessor, known.successors
        self.fingers.point((*self.successors, *known.fingers))
        for node in self.nodes():
            self.want(node, now)

    def begin(self, now: float) -> None:
        self.known_before = True
        for call in self.on_formed:
            call((), now)
        self._became_member(now)

    def rejoin(self, now: float) -> None:
        """Cut off: everybody we knew is lost."""
        self.core.note(now, "cut off from the ring: joining again")
        self.member = self.known_before = False
        self.predecessor, self.successors = None, ()
        self.me = self._node()
        self.fingers.moved_to(self.me)
        for call in self.on_rejoin:
            call(now)
        if self.alone:
            self._formed((self.me,), now)

    # --- stabilise and rectify ------------------------------------------------------------------------

    def stabilise(self, now: float) -> None:
        if not self.successors:
            if self.predecessor is None or self.contacts.dead(self.predecessor):
                return  # a ring of one
            self._adopt((self.predecessor,), now)
        head = self.successors[0]
        self.want(head, now)
        self._ask(head, self.me.position, self._successor_said, now)

    def _successor_said(self, state: RingState, now: float) -> None:
        if not self.member or not self.successors or state.node.broker != self.successors[0].broker:
            return
        if state.node == self.founding.unheard.get(state.node.broker) and not state.member:
            self.founding.remind(self.core.peers[state.node.broker])
            return
        if state.node != self.successors[0] or not state.member:  # in another life, or off the ring
            self._drop({self.successors[0]}, now)
            return
        self._adopt(self._merged(state), now)
        between = nearer(self.me.position, state.node, state.predecessor)
        if between is not None and not self.contacts.dead(between):
            self._ask(between, self.me.position, self._nearer_said, now)
        self._notify()

    def _nearer_said(self, state: RingState, now: float) -> None:
        if self.member and state.member and self.successors:
            if nearer(self.me.position, self.successors[0], state.node) is not None:
                self._adopt(self._merged(state), now)
                self.stabilise(now)  # there may be others between, as when many join at once

    def _merged(self, state: RingState) -> tuple[RingNode, ...]:
        live = [node for node in state.successors if not self.contacts.dead(node)]
        return merge(state.node, live, self.length, self.me.position)

    def _notify(self) -> None:
        self.contacts.tell(self.successors[0], RingNotify(self.me))

    def _adopt(self, successors: tuple[RingNode, ...], now: float) -> None:
        if successors != self.successors:
            self.successors = successors
            for node in successors:
                self.want(node, now)
            self._moved(now)

    def on_notify(self, session: Session, notify: RingNotify, now: float) -> None:
        if self.member and notify.node.broker == session.id:
            self.founding.heard(session.id)
            if self.predecessor is not None and self.predecessor.broker == notify.node.broker:
                self.known_before = True
            self._precede(rectified(self.me, self.predecessor, notify.node, self.contacts.dead), now)

    def _precede(self, predecessor: RingNode | None, now: float) -> None:
        if predecessor != self.predecessor:
            former, self.predecessor = self.predecessor, predecessor
            if former is not None and predecessor is not None:  # it need not wait until it asks
                news = RingState(0, self.me, self.member, predecessor, self.successors, None)
                self.contacts.tell(former, news)
            self.known_before = self.known_before or predecessor is not None
            if predecessor is not None:
                self.want(predecessor, now)
            for call in self.on_predecessor:
                call(now)
            self._moved(now)

    def _moved(self, now: float) -> None:
        for call in self.on_pointers:
            call(now)

    def died(self, gone: RingNode, now: float) -> None:
        """Somebody's session is lost, or nobody answers there."""
        self._unmet.pop(gone.broker, None)
        self.founding.died(gone.broker)
        self._forget_dead(now)

    def _forget_dead(self, now: float) -> None:
        dead = self.contacts.dead
        self.fingers.forget(dead)
        if self.predecessor is not None and dead(self.predecessor):
            self._precede(None, now)
        self._drop({node for node in self.successors if dead(node)}, now)

    def _drop(self, gone: set[RingNode], now: float) -> None:
        if not gone:
            return
        self.successors = tuple(one for one in self.successors if one not in gone)
        if self.member and not self.successors and self.predecessor is None and not self.alone:
            self.rejoin(now)
            return
        self._moved(now)
        if self.member:
            self.stabilise(now)

    # --- leaving --------------------------------------------------------------------------------------

    def leave(self, now: float) -> None:
        """The last word: everything else was handed on before."""
        self.member, self.leaving = False, True
        word = RingLeave(self.me, self.predecessor, self.successors)
        self.core.tell(word, *self.core.peers.values())

    def on_leave(self, session: Session, leave: RingLeave, now: float) -> None:
        gone = leave.node
        if gone.broker != session.id:
            return
        successors = tuple(one for one in self.successors if one != gone)
        if gone in self.successors:
            rest = [one for one in leave.successors if not self.contacts.dead(one)]
            self._adopt(together(self.me, successors, rest, self.length), now)
        self.fingers.forget(lambda one: one == gone)
        if gone == self.predecessor:
            before = leave.predecessor
            self._precede(None if before is None or before.broker == self.me.broker else before, now)
        self._moved(now)

    # --- what it looks like ---------------------------------------------------------------------------

    def status(self) -> Status:
        names = [node.name for node in self.successors]
        fingers = sorted({node.name for node in self.fingers.nodes()})
        return {
            "member": self.member,
            "position": f"{self.me.position:016x}",
            "predecessor": None if self.predecessor is None else self.predecessor.name,
            "successors": names,
            "fingers": fingers,
        }

    def validate(self) -> None:
        here = self.me.position
        steps = [(node.position - here) % (1 << 64) for node in self.successors]
        assert steps == sorted(set(steps)) and 0 not in steps, self.successors
        assert len(steps) <= self.length, self.successors
        assert self.me not in self.successors and self.predecessor != self.me
