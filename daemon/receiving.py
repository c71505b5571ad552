"""Frames to the core. Reading is bounded per socket and turn, so that everything read is also sent on
before more is read, and a busy peer starves nobody.

The first frame of an unknown peer decides what it is: Hello a broker, Attach a client, Command an
administrator. Anything else from there is answered with Reset if it is one of our messages (the peer
knows a link that we do not) and counted if not; nothing is kept for it either way. On a secured socket each
frame is judged by the key it came with: whether it is authorised still, and whether it has the role.
"""

from __future__ import annotations

from collections import Counter, deque
from time import perf_counter

import zmq

from daemon.keys import Keys
from daemon.logs import log
from daemon.packing import unpack
from daemon.policy import FULL, NEEDS, Grant
from daemon.sockets import Socket
from daemon.wires import Door, Wire, Wires
from grapevine.wire.codec import decode, encode
from grapevine.wire.errors import WireError
from grapevine.wire.messages import (
    KINDS,
    Answer,
    Attach,
    Batch,
    ClientAdvertise,
    ClientSubscribe,
    Command,
    Done,
    ExcludingBatch,
    ExtendedPublish,
    Hello,
    HomeBatch,
    LaneBatch,
    Message,
    Publish,
    Refuse,
    Reset,
)
from overlay.administration.verbs import Access, access
from overlay.core import Core
from overlay.links.exclusions import shifted
from overlay.links.session import Kind

GREETINGS = {Hello.kind: Kind.PEER, Attach.kind: Kind.CLIENT, Command.kind: Kind.ADMIN}
PUBLICATIONS = frozenset(
    kind.kind for kind in (Batch, ExcludingBatch, LaneBatch, HomeBatch, Publish, ExtendedPublish)
)
DRAIN_BYTES = 8 * 1024 * 1024  # read from one socket before anything is sent
REVIEW_S = 1.0  # between two looks at the keys
MISTAKES_MAX = 3  # wrong frames on one link before it is closed
_RESET = encode(Reset())
_GREETING_OF = {kind: greeting for greeting, kind in GREETINGS.items()}


def _refusal(message: Message) -> Message | None:
    """What is answered to somebody whose key may not say this; None: nothing."""
    text = (
        f"this key has no role {' or '.join(sorted(NEEDS[message.kind]))} here: its operator has to allow it"
    )
    if isinstance(message, Command):
        if access(message.verb) is not Access.READ:
            text = f"this key has no role admin here, and {message.verb} changes something"
        return Answer(message.request, "not-allowed", b"{}", text)
    if isinstance(message, ClientSubscribe | ClientAdvertise):
        return Done(message.request, "not-allowed", text)
    return Refuse("not-allowed", text) if isinstance(message, Attach | Hello) else None


def _lane(batch: Batch) -> int:
    return batch.lane if isinstance(batch, LaneBatch | HomeBatch) else 0


def _address(frame: zmq.Frame) -> str:
    """Where a frame came from; a socket of this machine's file system has no address."""
    try:
        return str(frame.get("Peer-Address"))
    except (zmq.ZMQError, ValueError):
        return ""


def _joined(run: Batch | Publish, batch: Batch | Publish) -> bool:
    """Whether the batch goes on where the run ends; it is then part of it, and its marks are the run's."""
    if run.epoch != batch.epoch or run.first + len(run.publications) != batch.first:
        return False
    if isinstance(batch, Batch) and isinstance(run, Batch):
        if _lane(batch) != _lane(run):
            return False
        if isinstance(batch, LaneBatch) and isinstance(run, LaneBatch):
            run.exclusions += shifted(batch.exclusions, len(run.publications))
        if isinstance(batch, ExcludingBatch):
            if not isinstance(run, ExcludingBatch):
                return False
            run.exclusions += shifted(batch.exclusions, len(run.publications))
        if isinstance(batch, HomeBatch):
            if not isinstance(run, HomeBatch):
                return False
            run.clients += batch.clients
        run.received, run.settled, run.credit = batch.received, batch.settled, batch.credit
    elif run.kind != batch.kind:
        return False
    run.publications += batch.publications
    return True


class Receiver:
    def __init__(self, core: Core, wires: Wires, keys: Keys | None, frames_max: int) -> None:
        self.core = core
        self.wires = wires
        self.keys = keys
        self.frames_max = frames_max
        self.frames = 0
        self.bytes = 0
        self.publications = 0
        self.matching_s = 0.0  # spent inside the core's data path
        self.refused: Counter[str] = Counter()
        self._generation = keys.generation if keys is not None else 0
        self._run: Batch | Publish | None = None  # publications read from `_from`, not yet in the core
        self._from: Wire | None = None
        self.recent: deque[tuple[int, int, int]] = deque(maxlen=64)  # (link, kind, bytes), for a post-mortem

    # --- sockets ---------------------------------------------------------------------------------

    def drain_door(self, door: Door, now: float) -> bool:
        """Read what a ROUTER has; True if the limit was reached and there may be more."""
        recv = door.socket.recv
        wires = door.wires
        enough = self.bytes + DRAIN_BYTES
        for _ in range(self.frames_max):
            if self.bytes > enough:
                break
            try:
                identity = recv(zmq.NOBLOCK)
            except zmq.Again:
                self.hand_over(now)
                if door.gone:
                    self._let_go(door, now)
                return False
            frame = recv(zmq.NOBLOCK, False)
            if frame.more:
                self._skip(door.socket)
                continue
            wire = wires.get(identity)
            if door.secured:
                wire = self._attributed(door, identity, wire, frame, now)
            elif wire is None:
                wire = self._enter(door, identity, "", frame, now)
            if wire is not None:
                self.take(wire, frame.buffer, now)
        self.hand_over(now)
        return True

    def hear_endings(self, door: Door, now: float) -> bool:
        """Connections of a ROUTER have ended; what came by them is read first."""
        door.read_monitor()
        return self.drain_door(door, now)

    def _let_go(self, door: Door, now: float) -> None:
        gone, door.gone = door.gone, []
        for wire in gone:
            self.wires.drop(wire)
            self.core.link_down(wire.number, now)

    def drain_dealer(self, wire: Wire, now: float) -> bool:
        recv = wire.socket.recv
        enough = self.bytes + DRAIN_BYTES
        for _ in range(self.frames_max):
            if wire.socket.closed:
                return False
            if self.bytes > enough:
                self.hand_over(now)
                return True
            try:
                frame = recv(zmq.NOBLOCK, False)
            except zmq.Again:
                break
            if frame.more:
                self._skip(wire.socket)
                continue
            self.take(wire, frame.buffer, now)
        else:
            self.hand_over(now)
            return True
        self.hand_over(now)
        return False

    def _skip(self, socket: Socket) -> None:
        """The rest of a message in several parts: none of ours."""
        self.refused["parts"] += 1
        while socket.recv(zmq.NOBLOCK, False).more:
            pass

    # --- who is it -------------------------------------------------------------------------------

    def _attributed(
        self, door: Door, identity: bytes, wire: Wire | None, frame: zmq.Frame, now: float
    ) -> Wire | None:
        """The wire that the frame's key may speak on, by the key and never by the routing id alone."""
        user = str(frame.get("User-Id"))
        if wire is not None and wire.user != user:
            self.refused["forged"] += 1
            self.close(wire, now, "another key has its routing id")
            wire = None
        if self.keys is None or user not in self.keys.authorised:
            self.refused["revoked"] += 1
            if wire is not None:
                self.close(wire, now, "its key is no longer authorised")
            return None
        return wire if wire is not None else self._enter(door, identity, user, frame, now)

    def _enter(self, door: Door, identity: bytes, user: str, frame: zmq.Frame, now: float) -> Wire | None:
        content = frame.buffer
        kind = GREETINGS.get(content[0]) if len(content) else None
        if kind is None:
            self.refused["unknown"] += 1
            if len(content) and content[0] in KINDS:
                self._answer(door, identity, _RESET)
            return None
        descriptor = int(frame.get("__fd"))
        door.read_monitor()  # who had this descriptor before has ended by now, and that is not this one's end
        if self.wires.full or descriptor in door.ended:
            self.refused["connections" if self.wires.full else "ended"] += 1
            return None
        try:
            message = decode(content)
        except WireError:
            self.refused["wrong"] += 1
            return None
        grant = self._grant(user) if door.secured else FULL
        if message.kind in grant.watched and grant.forbids(message):
            self.refused["role"] += 1
            if (refusal := _refusal(message)) is not None:
                self._answer(door, identity, encode(refusal))
            return None
        self.hand_over(now)
        wire = self.wires.enter(door, identity, user, kind, now)
        wire.allow(grant)
        door.came_by(wire, descriptor)
        self.core.link_up(wire.number, user or door.address, kind, now, address=_address(frame))
        return wire

    def _grant(self, user: str) -> Grant:
        found = self.keys.grant(user) if self.keys is not None else None
        return found if found is not None else Grant(frozenset())

    def _answer(self, door: Door, identity: bytes, frame: bytes) -> None:
        try:
            door.socket.send(identity, zmq.NOBLOCK | zmq.SNDMORE)
            door.socket.send(frame, zmq.NOBLOCK)
        except zmq.ZMQError:
            pass  # gone, or not reading: it keeps asking or it does not

    # --- what does it say ------------------------------------------------------------------------

    def take(self, wire: Wire, frame: memoryview, now: float) -> None:
        self.frames += 1
        self.bytes += len(frame)
        wire.heard_at = now
        try:
            message = unpack(frame)
        except WireError as error:
            self._mistake(wire, error, now)
            return
        kind = message.kind
        self.recent.append((wire.number, kind, len(frame)))
        if kind in wire.watched and wire.grant.forbids(message):
            self._bar(wire, message, now)
            return
        if kind in PUBLICATIONS:
            self._gather(wire, message, now)  # type: ignore[arg-type]
        else:
            if isinstance(message, Attach):
                wire.protocol = message.newest
            self.hand_over(now)
            self.core.receive(wire.number, message, now)

    def _gather(self, wire: Wire, batch: Batch | Publish, now: float) -> None:
        """Batches that follow each other on one wire go to the core as one."""
        if self._run is not None:
            if self._from is wire and _joined(self._run, batch):
                return
            self.hand_over(now)
        self._run, self._from = batch, wire

    def hand_over(self, now: float) -> None:
        """Give the core what was gathered; call before anything else is said to it."""
        batch, wire = self._run, self._from
        if batch is not None and wire is not None:
            self._run = None
            before = perf_counter()
            self.core.publications(wire.number, batch, now)
            self.matching_s += perf_counter() - before
            self.publications += len(batch.publications)

    def _mistake(self, wire: Wire, error: WireError, now: float) -> None:
        self.refused["wrong"] += 1
        wire.mistakes += 1
        log.debug("%r sent a wrong frame: %s", wire, error)
        if wire.mistakes >= MISTAKES_MAX:
            self.close(wire, now, f"{wire.mistakes} wrong frames, the last: {error}")

    # --- roles -----------------------------------------------------------------------------------

    def _bar(self, wire: Wire, message: Message, now: float) -> None:
        """Its key may not say this: who asks is told, who acts is cut off."""
        self.refused["role"] += 1
        refusal, link = _refusal(message), self.core.links.get(wire.number)
        if refusal is not None and link is not None and not isinstance(refusal, Refuse):
            self.core.send(refusal, link)
        else:
            self.close(wire, now, f"its key may not send {type(message).__name__}")

    def review(self, now: float) -> float:
        """Called at intervals: who lost its key or its role is cut off, also if it says nothing."""
        if self.keys is not None:
            self.keys.look()
            if self.keys.generation != self._generation:
                self._generation = self.keys.generation
                self._judge_all(now)
        return now + REVIEW_S

    def _judge_all(self, now: float) -> None:
        for wire in list(self.wires):
            if not wire.user:
                continue  # a wire that the operator trusts
            grant = self._grant(wire.user)
            if not grant.roles:
                self.close(wire, now, "its key is no longer authorised")
            elif _GREETING_OF[wire.kind] in grant.barred:
                self.close(wire, now, "its key no longer has the role")
            else:
                wire.allow(grant)
        self.core.review(now)

    def close(self, wire: Wire, now: float, why: str) -> None:
        log.warning("%r closed: %s", wire, why)
        self.hand_over(now)
        self.wires.drop(wire)
        self.core.link_down(wire.number, now)
