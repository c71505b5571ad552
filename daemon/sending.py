"""The outbox as frames. Nothing is dropped in silence: what a socket does not take waits, in order, and
the core is told to send no more publications there; what nobody can receive any more ends the link.

Destinations with equal publications share one encoding. A batch that is too long for a frame is split;
its positions are consecutive, so each part is a batch of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import zmq

from daemon.packing import pack
from daemon.wires import Wire, Wires
from grapevine.wire.codec import encode, write_batch, write_deliver, write_excluding, write_home, write_lane
from grapevine.wire.messages import Batch, Deliver, ExcludingBatch, HomeBatch, LaneBatch, Message, Publication
from overlay.core import Core
from overlay.links.exclusions import part
from overlay.links.outgoing import Chunk

BACKLOG_FRAMES = 4096  # control that waits for a peer who takes nothing, before the link is given up
BACKLOG_BYTES = 64 * 1024 * 1024


class Sender:
    def __init__(self, core: Core, wires: Wires, batch_bytes: int) -> None:
        self.core = core
        self.wires = wires
        self.limit = batch_bytes
        self.frames = 0
        self.bytes = 0
        self.publications = 0
        self.overflows = 0
        self._buffer = bytearray()
        self._encoded: dict[tuple[int, int, int], list[tuple[list[Publication], msgspec.Raw]]] = {}

    # --- what the core wants sent ----------------------------------------------------------------

    def send_all(self, sends: Sequence[tuple[Message, tuple[int, ...]]]) -> None:
        by_number = self.wires.by_number
        for message, links in sends:
            frame = encode(message)
            for number in links:
                if (wire := by_number.get(number)) is not None:
                    self.send(wire, frame)

    def send_batches(
        self, batches: Sequence[tuple[int, Batch | Deliver]], chunks: Sequence[Chunk] = ()
    ) -> None:
        """A frame is written into one buffer that stays warm; what several destinations get is encoded
        once, and handed back to the chunks that the batches are."""
        by_number = self.wires.by_number
        encoded = []
        for number, batch in batches:
            wire = by_number.get(number)
            encoded.append(None if wire is None else self._send_batch(wire, batch))
        self._encoded.clear()
        for chunk, raw in zip(chunks, encoded):
            if raw is not None:
                chunk.pack(raw)

    def _send_batch(self, wire: Wire, batch: Batch | Deliver) -> msgspec.Raw:
        publications, buffer = batch.publications, self._buffer
        encoded = self._encode_once(publications)
        size = len(encoded)
        if size <= self.limit or len(publications) == 1:
            head = (batch.epoch, batch.first, batch.received, batch.settled, batch.credit, encoded)
            if isinstance(batch, Deliver):
                write_deliver(buffer, *head, batch.subscriptions, wire.protocol)
            elif isinstance(batch, ExcludingBatch):
                write_excluding(buffer, *head, batch.exclusions)
            elif isinstance(batch, LaneBatch):
                write_lane(buffer, *head, batch.lane, batch.exclusions)
            elif isinstance(batch, HomeBatch):
                write_home(buffer, *head, batch.clients, batch.lane)
            else:
                write_batch(buffer, *head)
            size = len(buffer)
            if size <= self.limit or len(publications) == 1:
                self.publications += len(publications)
                self.send(wire, buffer)
                return encoded
        for smaller in _parts(batch, size // self.limit + 1):
            self._send_batch(wire, smaller)
        return encoded

    def _encode_once(self, publications: list[Publication]) -> msgspec.Raw:
        known = self._encoded.setdefault(_key(publications), [])
        for other, raw in known:
            if other == publications:
                return raw
        raw = pack(publications)
        known.append((publications, raw))
        return raw

    # --- frames ----------------------------------------------------------------------------------

    def send(self, wire: Wire, frame: bytes | bytearray) -> None:
        if wire.backlog:
            self._keep(wire, frame)
            return
        self.wires.used.add(wire.socket)
        try:
            if wire.identity:
                wire.socket.send(wire.identity, zmq.NOBLOCK | zmq.SNDMORE)
            wire.socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            self._keep(wire, frame)
            self.wires.backlogged[wire] = None
            self.core.blocked(wire.number)
        except zmq.ZMQError:  # EHOSTUNREACH: the peer is gone
            self.wires.lose(wire)
        else:
            self.frames += 1
            self.bytes += len(frame)

    def _keep(self, wire: Wire, frame: bytes | bytearray) -> None:
        wire.backlog.append(bytes(frame))
        wire.backlog_bytes += len(frame)
        if len(wire.backlog) > BACKLOG_FRAMES or wire.backlog_bytes > BACKLOG_BYTES:
            self.overflows += 1
            self.wires.lose(wire)

    def retry(self, now: float) -> bool:
        """Send what waited; True if some link takes publications again."""
        freed = False
        for wire in list(self.wires.backlogged):
            waiting = list(wire.backlog)
            wire.backlog.clear()
            wire.backlog_bytes = 0
            del self.wires.backlogged[wire]
            for frame in waiting:
                self.send(wire, frame)
            if wire not in self.wires.backlogged and wire.number in self.wires.by_number:
                self.core.writable(wire.number, now)
                freed = True
        return freed


def _key(publications: list[Publication]) -> tuple[int, int, int]:
    """Equal for equal lists, and seldom for others."""
    return id(publications[0]), id(publications[-1]), len(publications)


def _parts(batch: Batch | Deliver, count: int) -> Iterator[Batch | Deliver]:
    """At least so many if there are so many publications: about what fits. Halves of halves would be encoded
    again at every step, and all these are kept until the turn ends."""
    publications = batch.publications
    most = max(1, len(publications) // count)
    for low in range(0, len(publications), most):
        high = low + most
        changed: dict[str, object] = {"first": batch.first + low, "publications": publications[low:high]}
        if isinstance(batch, Deliver):
            changed["subscriptions"] = batch.subscriptions[low:high]
        elif isinstance(batch, HomeBatch):
            changed["clients"] = batch.clients[low:high]
        elif isinstance(batch, ExcludingBatch | LaneBatch):
            changed["exclusions"] = part(batch.exclusions, low, high)
        yield msgspec.structs.replace(batch, **changed)
