"""Readers of last values in the simulator. An administrator keeps a stream with a key at the first broker.
What must hold is judged here:

* what a reader is given has rising offsets, whoever crashed, until the stream itself begins anew;
* when the world is at rest each reader has the newest message of every key that its filter wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from grapevine.client.session import Session
from grapevine.client.session.durable import DurableReader, Gap, Wanted
from grapevine.filters import parse
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter, Value
from grapevine.wire import decode_attributes
from overlay.core import Core
from overlay.gather import Gather
from overlay.journal.contents import Stream
from overlay.journal.stream_log import LOST
from overlay.journal.streams import LIMITS, Streams

if TYPE_CHECKING:
    from tools.simulator.broker import BrokerHost
    from tools.simulator.clients import ClientHost
    from tools.simulator.oracle import Oracle

NAME, ALL_KEPT = "newest", parse("class = 'STOCK'")
AGAIN_S = 1.0


def keep_stream(broker: BrokerHost, streams: Streams, key: str) -> None:
    """What `pubctl stream add` does, if it is not there yet."""
    if broker.core is not None and broker.core.ready and streams.find(NAME) is None:
        streams.make(NAME, ALL_KEPT, "", LIMITS, Gather(lambda gather, now: None), broker.clock(), key=key)
        broker.wake()


class LastReader:
    """Of one client's host; what it has seen is its process's."""

    def __init__(self, oracle: Oracle, filter: Filter, key: str) -> None:
        self.oracle = oracle
        self.key = key
        self.wanted = Wanted(NAME, filter, ack="explicit", last=True)
        self.seen: dict[Value | None, int] = {}
        self._offset = 0
        self._version = 0

    def open(self, session: Session) -> DurableReader:
        self.seen, self._offset, self._version = {}, 0, 0
        return session.durables.open(self.wanted)

    def read(self, host: ClientHost, reader: DurableReader) -> None:
        if reader.error is not None and not reader.ended:  # there is no such stream yet
            reader.ended = True
            host.world.after(AGAIN_S, self._again, (host, host.life))
        if reader.state is None:
            return
        if reader.version != self._version:
            self.seen, self._offset, self._version = {}, 0, reader.version
        host.record.stream_opened(host, reader)
        items = [reader.queue.popleft() for _ in range(len(reader.queue))]
        if items:
            host.record.stream_given(host, reader, items)
        for item in items:
            if isinstance(item, Gap):
                continue
            if item.offset <= self._offset:
                self.oracle.violation(f"{host.name} is given {item.offset} after {self._offset}")
            self._offset = item.offset
            self.seen[item.attributes.get(self.key)] = item.offset

    def _again(self, attempt: tuple[ClientHost, int]) -> None:
        host, life = attempt
        if life == host.life and host.session is not None:
            host.session.durables.all.clear()
            host.reader = self.open(host.session)
            host.pump()

    def behind(self, host: ClientHost, cores: dict[str, Core]) -> list[str]:
        """The keys whose newest message it does not have, as the stream's log says."""
        reader = host.reader
        if reader is None or reader.state is None or (core := cores.get(reader.home)) is None:
            return [f"{host.name} reads no last values"]
        return [
            f"{host.name} has {self.seen.get(key)} of {key} and not {offset}"
            for key, (offset, attributes) in _newest(core, self.key).items()
            if matches(self.wanted.filter or ALL_KEPT, attributes) and self.seen.get(key) != offset
        ]


def _newest(core: Core, key: str) -> dict[Value | None, tuple[int, dict[str, Value]]]:
    """By reading it all."""
    newest: dict[Value | None, tuple[int, dict[str, Value]]] = {}
    assert core.journal is not None
    for stream in core.journal.contents.streams.values():
        if stream.body.name == NAME:
            for offset, attributes in _contents(core, stream):
                newest[attributes.get(key)] = (offset, attributes)
    return newest


def _contents(core: Core, stream: Stream) -> Iterator[tuple[int, dict[str, Value]]]:
    assert core.journal is not None
    for offset, position, items in stream.log.pieces(1, stream.log.next):
        if position != LOST:
            for read in core.journal.reader.read(position, items):
                for number, publication in enumerate(read.publications or (), offset):
                    yield number, decode_attributes(publication.attributes)
                offset += read.items
