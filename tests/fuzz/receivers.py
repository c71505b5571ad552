"""Who receives what `decode` let through: a whole broker, and a client's session.

The broker has greeted two brokers, a client and an administrator, all in the epoch that the samples name, so
that mutated messages get past the greeting. A link that it closes comes up again. Its invariants are
checked again and again; anything it raises is a finding.
"""

from __future__ import annotations

from random import Random

import msgspec

from grapevine.client.session import Session, State
from grapevine.filters import EVERYTHING
from grapevine.wire import identify
from grapevine.wire.messages import Attach, Attached, Batch, Command, Done, Hello, Marks, Message, Publish
from grapevine.wire.onehop import DISPATCHER, MATCHER, SERVING, Entries, Entry
from grapevine.wire.onehop import Member as MemberMessage
from matching.scan import Scan
from overlay.core import Core
from overlay.links.session import Kind
from overlay.profiles import Start, build, tree_broker
from overlay.settings import CoreSettings, OneHopSettings, OverlaySettings

EPOCH = 9  # of the samples
CHECK_EVERY = 64
STEPS_S = (0.0, 0.0, 0.0, 0.001, 0.05, 1.5)
PEERS = ("b1", "b2")


class Broker:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.core = self._build(Random(seed))
        self.settings = self.core.settings
        self.now = 0.0
        self.count = 0
        self._last_link = 0
        self._links: dict[int, Kind] = {}
        self.core.start(self.now)
        self._drive()
        for _ in range(len(PEERS)):
            self._open(Kind.PEER)
        self._open(Kind.CLIENT)
        self._open(Kind.ADMIN)

    def _build(self, random: Random) -> Core:
        return tree_broker("fuzzed", 1, CoreSettings(), random, ("tcp://fuzzed:1",))

    def __call__(self, message: Message) -> None:
        self.count += 1
        self.now += self.random.choice(STEPS_S)
        number = self.random.choice(list(self._links))
        message = self._plausible(number, message)
        if isinstance(message, Batch | Publish):
            self.core.publications(number, message, self.now)
        else:
            self.core.receive(number, message, self.now)
        self.core.tick(self.now)
        self.core.work(self.now)
        self._drive()
        if self.count % CHECK_EVERY == 0:
            self.core.validate()
            self.core.status()

    def _plausible(self, number: int, message: Message) -> Message:
        """Half of the greetings, publications and marks are such that nothing but their link, their time or
        what they hold is wrong."""
        link = self.core.links.get(number)
        session = link.session if link is not None else None
        if self.random.random() < 0.5:
            return message
        if session is not None and isinstance(message, Batch | Publish):
            return msgspec.structs.replace(message, epoch=session.epoch, first=session.incoming.received + 1)
        if session is not None and isinstance(message, Marks):
            sent = session.out.sent - session.out.base
            return msgspec.structs.replace(message, epoch=session.epoch, received=sent, settled=sent)
        if isinstance(message, Hello | Attach):
            name = self.random.choice((*PEERS, "quotes", "b3"))
            fields: dict[str, object] = {"name": name, "oldest": 1, "newest": 1}
            if isinstance(message, Hello):
                fields |= {"broker": identify(name), "settings": self.settings.cluster_wide()}
            else:
                fields["client"] = identify(name)
            return msgspec.structs.replace(message, **fields)
        return message

    def _drive(self) -> None:
        out = self.core.flush(self.now)
        closes, opens = list(out.closes), list(out.opens)
        out.clear()
        for number in closes:
            kind = self._links.pop(number, None)
            if kind is not None:
                self._open(kind)
        for wanted in opens:
            if self.random.random() < 0.5:
                self._up(Kind.PEER, wanted.dial)

    def _up(self, kind: Kind, dial: int = 0) -> int:
        self._last_link += 1
        self._links[self._last_link] = kind
        if len(self._links) > 12:  # forgotten ones break
            oldest = next(iter(self._links))
            del self._links[oldest]
            self.core.link_down(oldest, self.now)
        self.core.link_up(self._last_link, "key", kind, self.now, dial)
        return self._last_link

    def _open(self, kind: Kind) -> None:
        number = self._up(kind)
        for message in self._greeting(kind):
            self.core.receive(number, message, self.now)

    def _greeting(self, kind: Kind) -> list[Message]:
        if kind is Kind.CLIENT:
            return [Attach(1, 1, "quotes", identify("quotes"), 5, EPOCH, 100, 0)]
        if kind is Kind.ADMIN:
            return [Command(1, "status", {})]
        name = self.random.choice(PEERS)
        broker, settings = identify(name), self.settings.cluster_wide()
        return [Hello(2, 2, name, broker, 2, EPOCH, False, 100, settings, (broker,), (f"tcp://{name}:1",))]


class Member(Broker):
    """The same of a one-hop cluster, with both roles; the others have said who they are."""

    def _build(self, random: Random) -> Core:
        settings = CoreSettings(
            overlay=OverlaySettings("onehop"), onehop=OneHopSettings(dimensions=("volume", "class"))
        )
        roles = frozenset(("dispatcher", "matcher"))
        return build(Start("fuzzed", 1, settings, random, ("tcp://fuzzed:1",), Scan, {}, roles))

    def _greeting(self, kind: Kind) -> list[Message]:
        greeting = super()._greeting(kind)
        for hello in greeting:
            if isinstance(hello, Hello):
                entry = Entry(
                    hello.broker, 2, 1, ((), ()), hello.name, hello.addresses, DISPATCHER | MATCHER, SERVING
                )
                return [hello, MemberMessage(0, entry), Entries((entry,))]
        return greeting


class Client:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self._start()

    def _start(self) -> None:
        self.session = Session("quotes", 5)
        for _ in range(EPOCH):  # the proposal becomes the samples' epoch
            self.session.link_up(self.now)
        self.session.receive(Attached(1, "b1", EPOCH, False, 0, 0, 100), self.now)
        self.session.subscribe(EVERYTHING, self.now, timeout_s=1.0)
        self.session.publish({"n": 1})
        for request in list(self.session.requests.open):
            self.session.receive(Done(request, "confirmed"), self.now)

    def __call__(self, message: Message) -> None:
        session = self.session
        self.now += self.random.choice(STEPS_S)
        session.receive(message, self.now)
        session.tick(self.now)
        session.flush_out()
        session.out.clear()
        session.undelivered()
        outgoing, incoming = session.outgoing, session.incoming
        assert outgoing.base <= outgoing.settled <= outgoing.received <= outgoing.sent <= outgoing.appended
        assert incoming.consumed <= incoming.queued
        session.events.clear()
        if session.state != State.ATTACHED and self.random.random() < 0.2:
            self._start()
        elif session.can_publish and self.random.random() < 0.2:
            session.publish({"n": self.random.randrange(5)})
