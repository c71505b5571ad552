"""A broker by itself, and links to it that anybody may hold: what it says to one who says this."""

from __future__ import annotations

from random import Random

import msgspec

from grapevine.filters import EVERYTHING
from grapevine.wire import encode_attributes, identify
from grapevine.wire.messages import (
    Attach,
    Batch,
    Deliver,
    Hello,
    Message,
    Publish,
    Resume,
    Subscribe,
    Subscription,
    SyncDone,
    TablesSent,
)
from overlay.core import Core
from overlay.links.session import Kind
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, LinkSettings

BODY = encode_attributes({"x": 1})


class Broker:
    """A broker by itself, and links to it that anybody may hold."""

    def __init__(self, settings: CoreSettings | None = None, *known: str) -> None:
        """`known` are the neighbours that it had before a restart."""
        self.now = 0.0
        had = msgspec.json.encode([(name, (f"tcp://{name}:1",)) for name in known])
        kept = {"tree": {"neighbours": had}}
        self.core: Core = tree_broker(
            "here", 1, settings or CoreSettings(), Random(1), ("tcp://here:1",), kept
        )
        self.core.start(0.0)
        self.sent: list[Message] = []
        self.told: dict[int, list[Message]] = {}  # the same by link
        self.batches: list[Batch | Deliver] = []
        self.closed: list[int] = []
        self.drain()

    def drain(self) -> None:
        out = self.core.flush(self.now)
        self.sent += [message for message, _ in out.sends]
        for message, links in out.sends:
            for number in links:
                self.told.setdefault(number, []).append(message)
        self.batches += [batch for _, batch in out.batches]
        self.closed += out.closes
        out.clear()
        self.core.validate()

    def link(self, number: int, kind: Kind, *messages: Message) -> None:
        self.core.link_up(number, "key", kind, self.now)
        self.say(number, *messages)

    def say(self, number: int, *messages: Message) -> None:
        for message in messages:
            if isinstance(message, Batch | Publish):
                self.core.publications(number, message, self.now)
            else:
                self.core.receive(number, message, self.now)
            self.drain()

    def has_said(self, number: int, kind: type[Message]) -> bool:
        return any(isinstance(message, kind) for message in self.told.get(number, ()))

    def pass_time(self, until: float) -> None:
        while (deadline := self.core.next_deadline()) is not None and deadline <= until:
            self.now = deadline
            self.core.tick(self.now)
            self.drain()
        self.now = until


def hello(
    name: str,
    epoch: int = 9,
    broker: int | None = None,
    answer: bool = False,
    incarnation: int = 2,
    resume: Resume | None = None,
) -> Hello:
    number = identify(name) if broker is None else broker
    settings, addresses = CoreSettings().cluster_wide(), (f"tcp://{name}:1",)
    return Hello(2, 2, name, number, incarnation, epoch, answer, 100, settings, (number,), addresses, resume)


def attach(name: str, epoch: int = 9, resume: Resume | None = None) -> Attach:
    return Attach(1, 1, name, identify(name), 5, epoch, 100, 0, resume)


def between(reader: str, writer: str, links: LinkSettings | None = None) -> Broker:
    """A broker with two neighbours: all that `writer` publishes is for `reader`."""
    broker = Broker(CoreSettings(links=links or LinkSettings()))
    broker.link(1, Kind.PEER, hello(reader), TablesSent(), SyncDone())
    broker.link(2, Kind.PEER, hello(writer), TablesSent(), SyncDone())
    there = identify(reader)
    broker.say(1, Subscribe(1, Subscription(there, 1, there, (there,), EVERYTHING)))
    return broker
