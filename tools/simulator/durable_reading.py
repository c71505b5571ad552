"""A client's durable subscription in the simulator: all is read, nothing acknowledged, some refused, so that
what comes again is compared with what came before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grapevine.client.session import Session
from grapevine.client.session.durable import DurableReader, Gap, Wanted
from grapevine.filters.normal import Filter

if TYPE_CHECKING:
    from tools.simulator.clients import ClientHost

REFUSED = 0.1  # share of what it is given


def open_durable(session: Session, name: str, filter: Filter) -> DurableReader:
    return session.durables.open(Wanted(f"cursor of {name}", filter, ack="explicit"))


def read_durable(host: ClientHost, reader: DurableReader) -> None:
    if reader.state is not None:
        host.record.stream_opened(host, reader)
    items = [reader.queue.popleft() for _ in range(len(reader.queue))]
    if items:
        host.record.stream_given(host, reader, items)
        for item in items:
            if not isinstance(item, Gap) and host.random.random() < REFUSED:
                item.nak(host.random.random())
