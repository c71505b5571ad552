"""Looks over every broker's shoulder: tells the oracle what happened, crashes brokers at chosen protocol
steps, counts which steps were under way when a fault fell, and has the cores check themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from grapevine.wire.channels import DriverAsk
from grapevine.wire.identity import identify
from grapevine.wire.messages import KINDS, LeaveDone, Message, Publish
from grapevine.wire.relocation import MigrationComplete
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.path import Publications
from overlay.links.session import Remote, Session
from overlay.onehop.member import Member
from overlay.tree.peer import Peer
from tools.simulator.broker import DISK_FAILED, BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.network import End
from tools.simulator.oracle import Oracle
from tools.simulator.owed import Life

NAMES = {kind: message.__name__ for kind, message in KINDS.items()}


class Losses(Quiet):
    """Attached to a core to hear of links that are given up."""

    def __init__(self, lost: Callable[[Remote], None]) -> None:
        self._lost = lost

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Peer | Member):
            self._lost(session)


class Aim:
    """Crash whoever is at this step for the n-th time: `taking` a message of this kind, or `sending` one."""

    def __init__(self, kind: int, sending: bool, passes: int) -> None:
        self.kind = kind
        self.sending = sending
        self.passes = passes


class Watcher:
    def __init__(self, oracle: Oracle, validate_every: int) -> None:
        self.oracle = oracle
        self.aim: Aim | None = None
        self.on_aim: Callable[[BrokerHost, Aim], bool] = lambda broker, aim: True  # whether it went down
        self.on_step: Callable[[BrokerHost, Core], None] = lambda broker, core: None
        self.on_disk_failed: Callable[[BrokerHost], None] = lambda broker: None
        self.faults_by_step: Counter[str] = Counter()
        self.crashes_by_step: Counter[str] = Counter()
        self.validated = 0
        self.expected_stops: set[str] = set()
        self._validate_every = validate_every
        self._steps = 0
        self._brokers: dict[int, BrokerHost] = {}
        self._clients: dict[int, ClientHost] = {}
        self._attached: dict[int, dict[int, Client]] = {}
        self._behind: dict[Client, Life] = {}
        self._farewells: set[tuple[int, int]] = set()  # (broker, its session) that has said LeaveDone
        self._taken: dict[tuple[int, int, int, int], int] = {}  # (broker, its life, publisher) -> sequence

    def add_broker(self, broker: BrokerHost) -> None:
        broker.watch = self
        self._brokers[identify(broker.name)] = broker

    def add_client(self, client: ClientHost) -> None:
        self._clients[identify(client.name)] = client

    def attach(self, broker: BrokerHost, core: Core) -> None:
        """A broker has started with this core."""
        self._attached[broker.index] = {}
        self.oracle.custody.back(broker.index, self.oracle.world.now)
        self.oracle.custody.attach(broker.index, core)
        self.oracle.streams.attach(broker.index, core)
        core.add(Losses(lambda peer: self._lost(broker, peer)))

    # --- Watch --------------------------------------------------------------------------------------

    def before(self, broker: BrokerHost, end: End, message: Message) -> bool:
        if not self._passes(broker, message, False):
            return False
        if broker.core is not None and message.gate.since > broker.core.protocol:
            kind, protocol = NAMES[message.kind], broker.core.protocol
            self.oracle.violation(f"{broker.name}, which speaks protocol {protocol}, was sent {kind}")
        if message.kind == Publish.kind:
            self._accepted(broker, end, message)  # type: ignore[arg-type]
        elif message.kind == LeaveDone.kind:
            self._farewell(broker, end)
        return True

    def sending(self, broker: BrokerHost, message: Message) -> bool:
        if isinstance(message, MigrationComplete):
            self._check_mark(broker, message)
        return self._passes(broker, message, True)

    def after(self, broker: BrokerHost) -> None:
        core = broker.core
        assert core is not None
        if self.oracle.by_links:
            self._look_at_links(broker, core)
        self._look_at_clients(broker, core)
        self.on_step(broker, core)
        self._steps += 1
        if self._validate_every and self._steps % self._validate_every == 0 and not core.finished:
            self.validate(broker, core)

    def stopped(self, broker: BrokerHost, reason: str) -> None:
        self.crashed(broker)
        if reason == DISK_FAILED:
            self.on_disk_failed(broker)
        elif broker.name not in self.expected_stops:
            self.oracle.violation(f"{broker.name} stopped: {reason}")

    def left(self, broker: BrokerHost) -> None:
        self.oracle.broker_left(broker.index)

    def validate(self, broker: BrokerHost, core: Core) -> None:
        self.validated += 1
        try:
            core.validate()
        except AssertionError as error:
            self.oracle.violation(f"{broker.name} is not in order: {error!r}")

    # --- what follows -------------------------------------------------------------------------------

    def _passes(self, broker: BrokerHost, message: Message, sending: bool) -> bool:
        aim = self.aim
        if aim is None or message.kind != aim.kind or sending != aim.sending:
            return True
        aim.passes -= 1
        if aim.passes > 0:
            return True
        self.aim = None
        return not self.on_aim(broker, aim)

    def _look_at_links(self, broker: BrokerHost, core: Core) -> None:
        synced = frozenset(self._brokers[peer.id].index for peer in core.peers.values() if peer.connected)
        for peer in core.peers.values():
            if isinstance(peer, Peer) and peer.heir is not None and peer.dialled:  # our former parent
                former, new = self._brokers[peer.id].index, self._brokers[peer.heir.id].index
                self.oracle.reach.moves(broker.index, former, new)
        self.oracle.links_seen(broker.index, synced)

    def _farewell(self, broker: BrokerHost, end: End) -> None:
        assert broker.core is not None
        link = broker.core.links.get(end.number)
        if link is not None and link.session is not None:
            self._farewells.add((broker.index, link.session.number))

    def _accepted(self, broker: BrokerHost, end: End, message: Publish) -> None:
        core = broker.core
        assert core is not None
        link = core.links.get(end.number)
        session = link.session if link is not None else None
        if session is None or session.epoch != message.epoch:
            return
        repeated = max(0, session.incoming.received + 1 - message.first)
        taken = message.publications[repeated:]
        self.oracle.accepted(broker.index, taken)
        if taken:
            key = (broker.index, broker.life, session.id, session.incarnation)
            self._taken[key] = max(self._taken.get(key, 0), taken[-1].sequence)

    def _check_mark(self, broker: BrokerHost, message: MigrationComplete) -> None:
        """A source that has lived through the migration says up to where it has taken publications, unless it
        has forgotten the publisher, or the publisher has not heard yet of all that was cut."""
        core = broker.core
        assert core is not None
        publisher = (message.publisher, message.publisher_incarnation)
        client = core.clients.get(message.publisher)
        if (message.origin, message.incarnation) != (core.id, core.incarnation):
            return
        if client is None or client.incarnation != message.publisher_incarnation:
            return
        seen = next(b for b in core.behaviours if isinstance(b, Publications)).seen
        taken = self._taken.get((broker.index, broker.life, *publisher), 0)
        if message.accepted < taken and publisher in seen.last and not client.incoming.cuts:
            self.oracle.violation(f"{broker.name} took up to {taken} and hands over {message.accepted}")

    def _look_at_clients(self, broker: BrokerHost, core: Core) -> None:
        attached = self._attached[broker.index]
        for key, session in list(attached.items()):
            if core.clients.get(key) is not session:
                del attached[key]
                self._session_ended(broker, session)
        for key, known in core.clients.items():
            assert isinstance(known, Client)
            attached[key] = known
            deliveries = known.deliveries
            self._look_behind(known, deliveries.stalled or bool(deliveries.backlog))

    def _look_behind(self, session: Client, behind: bool) -> None:
        if behind != (session in self._behind):
            life = self._behind.pop(session, None)
            if behind and (client := self._of(session)) is not None:
                life = self._behind[session] = (client.index, client.life)
            if life is not None:
                self.oracle.client_behind(life, behind)

    def _of(self, session: Client) -> ClientHost | None:
        client = self._clients.get(session.id)
        return client if client is not None and client.incarnation == session.incarnation else None

    def _session_ended(self, broker: BrokerHost, session: Client) -> None:
        self._look_behind(session, False)
        if (client := self._of(session)) is not None:
            self.oracle.session_ended((client.index, client.life), broker.index)

    def _lost(self, broker: BrokerHost, peer: Remote) -> None:
        other = self._brokers[peer.id].index
        # After all that was held was handed on, or by a move when nothing is left on the old link. Who never
        # heard that the other is done has lost a link like any other.
        farewell = (broker.index, peer.number) in self._farewells and self._brokers[peer.id].left
        retiring = isinstance(peer, Peer) and peer.retiring
        if (farewell and not peer.paused) or retiring:
            self.oracle.reach.drop(broker.index, other)
        else:
            self.oracle.link_lost(broker.index, other)

    # --- faults -------------------------------------------------------------------------------------

    def fault_at(self, ends: list[End], handled: int = 0, crash: bool = False) -> None:
        """A fault falls on these connections: count the steps on their way, and the one just taken."""
        steps = {step for end in ends for step in in_flight(end)}
        if handled:
            steps.add(NAMES[handled])
        for step in sorted(steps):
            self.faults_by_step[step] += 1
            if crash:
                self.crashes_by_step[step] += 1

    def crashed(self, broker: BrokerHost) -> None:
        """Call after the crash."""
        self.oracle.broker_crashed(broker.index)
        for session in self._attached[broker.index].values():
            self._look_behind(session, False)
        self._attached[broker.index] = {}


def in_flight(end: End) -> list[str]:
    """Kinds of the messages on their way in both directions."""
    sides = (end, end.other) if end.other is not None else (end,)
    return [step_of(message) for side in sides for _, message in side.flight if message is not None]


def step_of(message: Message) -> str:
    """A driver's questions are one kind of message; which of them it is makes the step."""
    name = NAMES[message.kind]
    return f"{name}-{message.verb}" if isinstance(message, DriverAsk) else name
