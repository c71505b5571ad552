"""`python -m bench.durable --subscriptions 10000`: what many durable subscriptions at one broker cost.

Three cases, a broker each: *equal*, all have one filter and share its stream; *distinct*, each has its own and a
publication is for one of them; *overlapping*, each has its own and every publication is for all of them (300 at most). Figures: seconds
to make them and what one takes of the broker's memory and disk; then for one publication the broker's processor time
and what the journal grows by; publications to one record of the journal, which is written and synced once for all streams.
"""  # noqa: E501

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import zmq

from bench.running import say
from grapevine.filters import Filter, parse
from grapevine.wire import decode, encode, encode_attributes, encode_publications, encode_publish, identify
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import (
    DURABLE,
    PROTOCOL,
    Attach,
    Attached,
    ClientAdvertise,
    Done,
    Marks,
    Message,
    Ping,
    Pong,
)
from grapevine.wire.streams import StreamRequest, StreamState

BATCH, PAYLOAD, WINDOW = 64, b"x" * 256, 1_024
UNDER_WAY = 256  # requests
ANSWER_S = 120.0
OVERLAPPING = 300  # of these at most: each publication is in as many streams
FILTERS: dict[str, Callable[[int], Filter]] = {
    "equal": lambda number: parse("topic >= 0"),
    "distinct": lambda number: parse(f"topic = {number}"),
    "overlapping": lambda number: parse(f"topic > -{number}"),
}


class Peer:
    """A client by hand."""

    def __init__(self, address: str, name: str) -> None:
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.connect(address)
        self.say(Attach(1, PROTOCOL, name, identify(name), time.time_ns(), 1, WINDOW, 0))
        self.hear(Attached)

    def say(self, message: Message) -> None:
        self.socket.send(encode(message))

    def hear(self, *kinds: type) -> Any:
        deadline = time.monotonic() + ANSWER_S
        while self.socket.poll(int((deadline - time.monotonic()) * 1e3) + 1):
            message = decode(self.socket.recv())
            if isinstance(message, Ping):
                self.say(Pong(message.sent_at))
            elif isinstance(message, kinds):
                return message
        raise SystemExit("the broker does not answer")

    def close(self) -> None:
        self.socket.close(0)


def subscribe(peer: Peer, count: int, filter_of: Callable[[int], Filter]) -> None:
    asked = answered = 0
    while answered < count:
        while asked < min(count, answered + UNDER_WAY):
            asked += 1
            peer.say(StreamRequest(asked, "", f"r{asked}", filter_of(asked)))
        state = peer.hear(StreamState)
        assert state.outcome == "ok", state
        answered += 1


def publish(peer: Peer, first: int, count: int, topics: int) -> None:
    """All of them persisted."""
    sent = persisted = first - 1
    last = first + count - 1
    while persisted < last:
        while sent < last and sent - persisted + BATCH <= WINDOW:
            drafts = [
                Draft(encode_attributes({"topic": number % topics + 1}), PAYLOAD, number, DURABLE)
                for number in range(sent + 1, sent + 1 + min(BATCH, last - sent))
            ]
            peer.socket.send(encode_publish(1, sent + 1, encode_publications(drafts)))
            sent += len(drafts)
        persisted = max(persisted, peer.hear(Marks).persisted)


def measure(
    case: str, address: str, broker: int, directory: Path, count: int, publications: int
) -> dict[str, Any]:
    count = min(count, OVERLAPPING) if case == "overlapping" else count
    process, journal = psutil.Process(broker), directory / "state" / "journal"
    first, reader = _writer(address, "first"), Peer(address, "reader")
    publish(first, 1, BATCH, 1)  # what is made once
    first.close()
    memory, disk, began = process.memory_info().rss, _bytes(journal), time.monotonic()
    subscribe(reader, count, FILTERS[case])
    made_s = time.monotonic() - began
    row = {
        "case": case,
        "subscriptions": count,
        "made_s": round(made_s, 1),
        "memory_each": round((process.memory_info().rss - memory) / count),
        "disk_each": round((_bytes(journal) - disk) / count),
    }
    writer = _writer(address, "writer")  # now: one that does not answer pings meanwhile is let go
    disk, spent, began = _bytes(journal), _processor(process), time.monotonic()
    writes = process.io_counters().write_count
    publish(writer, 1, publications, count)
    row |= {
        "publications": publications,
        "broker_us": round((_processor(process) - spent) / publications * 1e6, 1),
        "wall_us": round((time.monotonic() - began) / publications * 1e6, 1),
        "disk_bytes": round((_bytes(journal) - disk) / publications),
        "a_write": round(publications / max(process.io_counters().write_count - writes, 1), 2),
    }
    writer.close()
    reader.close()
    say("  ".join(f"{key} {value}" for key, value in row.items()))
    return row


def _writer(address: str, name: str) -> Peer:
    peer = Peer(address, name)
    peer.say(ClientAdvertise(1, 1, parse("topic >= 0")))
    peer.hear(Done)
    return peer


def _bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir() if file.is_file())


def _processor(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
