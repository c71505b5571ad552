"""The outbox as frames. Nothing is dropped in silence: what a socket does not take waits, in order, and
the core is told to send no more publications there; what nobody can receive any more ends the link.

Destinations with equal publications share one encoding. A batch that is too long for a frame is split;
its positions are consecutive, so each part is a batch of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import zmq

from daemon.wires import Wire, Wires
from grapevine.wire.codec import encode, encode_batch, encode_deliver, encode_publications
from grapevine.wire.messages import Batch, Deliver, Message, Publication
from overlay.core import Core

BACKLOG_FRAMES = 4096  # control that waits for a peer who takes nothing, before the link is given up
BACKLOG_BYTES = 64 * 1024 * 1024
HEADER_BYTES = 256  # of a batch, around its publications


class Sender:
    def __init__(self, core: Core, wires: Wires, batch_bytes: int) -> None:
        self.core = core
        self.wires = wires
        self.limit = batch_bytes - HEADER_BYTES
        self.frames = 0
        self.bytes = 0
        self.publications = 0
        self.overflows = 0
        self._encoded: dict[tuple[int, int, int], list[tuple[list[Publication], msgspec.Raw]]] = {}

    # --- what the core wants sent ----------------------------------------------------------------

    def send_all(self, sends: Sequence[tuple[Message, tuple[int, ...]]]) -> None:
        by_number = self.wires.by_number
        for message, links in sends:
            frame = encode(message)
            for number in links:
                if (wire := by_number.get(number)) is not None:
                    self.send(wire, frame)

    def send_batches(self, batches: Sequence[tuple[int, Batch | Deliver]]) -> None:
        by_number = self.wires.by_number
        for number, batch in batches:
            if (wire := by_number.get(number)) is not None:
                self._send_batch(wire, batch)
        self._encoded.clear()

    def _send_batch(self, wire: Wire, batch: Batch | Deliver) -> None:
        publications = batch.publications
        raw = self._encode_once(publications)
        extra = 0
        if isinstance(batch, Deliver):
            extra = sum(map(len, batch.subscriptions)) + 5 * len(publications)
        if len(raw) + extra > self.limit and len(publications) > 1:
            for half in _halves(batch):
                self._send_batch(wire, half)
            return
        self.publications += len(publications)
        head = (batch.epoch, batch.first, batch.received, batch.settled, batch.credit, raw)
        if isinstance(batch, Deliver):
            self.send(wire, encode_deliver(*head, batch.subscriptions))
        else:
            self.send(wire, encode_batch(*head))

    def _encode_once(self, publications: list[Publication]) -> msgspec.Raw:
        key = (id(publications[0]), id(publications[-1]), len(publications))
        known = self._encoded.setdefault(key, [])
        for other, raw in known:
            if other == publications:
                return raw
        raw = encode_publications(publications)
        known.append((publications, raw))
        return raw

    # --- frames ----------------------------------------------------------------------------------

    def send(self, wire: Wire, frame: bytes) -> None:
        if wire.backlog:
            self._keep(wire, frame)
            return
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

    def _keep(self, wire: Wire, frame: bytes) -> None:
        wire.backlog.append(frame)
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


def _halves(batch: Batch | Deliver) -> tuple[Batch | Deliver, Batch | Deliver]:
    middle = len(batch.publications) // 2
    parts = []
    for first, low, high in ((batch.first, 0, middle), (batch.first + middle, middle, None)):
        changed: dict[str, object] = {"first": first, "publications": batch.publications[low:high]}
        if isinstance(batch, Deliver):
            changed["subscriptions"] = batch.subscriptions[low:high]
        parts.append(msgspec.structs.replace(batch, **changed))
    return parts[0], parts[1]
