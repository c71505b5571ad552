"""Dormant subscribers get and lose exactly what they would have otherwise: the same script on two brokers, in
one of which nobody ever is dormant."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import PropertyMock, patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.filters import EVERYTHING, parse
from grapevine.wire import encode_attributes, identify
from grapevine.wire.messages import (
    DISCONNECT,
    DROP_NEWEST,
    DROP_OLDEST,
    PROTOCOL,
    Attach,
    ClientAdvertise,
    ClientSubscribe,
    Deliver,
    Dropped,
    Marks,
    Publication,
    Publish,
)
from matching.index import Index
from overlay.clients.attachments import Attachments
from overlay.data import runs
from overlay.data.deliveries import Deliveries
from overlay.links.session import Kind
from overlay.profiles import tree_broker
from overlay.settings import ClientSettings, CoreSettings

QUEUE = 6
TOPICS = ("a", "b", "c")
# (window, policy, topics it wants)
READERS = (
    (2, DROP_OLDEST, "a"),
    (3, DROP_OLDEST, "ab"),
    (1, DROP_NEWEST, "ab"),
    (2, DROP_NEWEST, "abc"),
    (2, DISCONNECT, "a"),
    (1000, DROP_OLDEST, "abc"),
)
PUBLISH = st.tuples(st.just("publish"), st.lists(st.sampled_from(TOPICS), min_size=1, max_size=9))
CREDIT = st.tuples(st.just("credit"), st.integers(0, len(READERS) - 1), st.integers(0, 8))
WAIT = st.tuples(st.just("wait"), st.sampled_from([0.1, 1.1]))
SCRIPT = st.lists(st.one_of(PUBLISH, PUBLISH, WAIT, CREDIT), max_size=40)


class Broker:
    def __init__(self) -> None:
        settings = CoreSettings(clients=ClientSettings(queue=QUEUE))
        self.core = tree_broker("b", 1, settings, Random(1), matcher=Index)
        self.now, self.sent = 0.0, 0
        self.got: list[list[tuple[int, bytes]]] = [[] for _ in READERS]
        self.told = [0] * len(READERS)
        self.taken = [0] * len(READERS)
        self.slept = False
        self.core.start(self.now)
        self._attach(0, 1000, 0)
        self.core.receive(1, ClientAdvertise(1, 1, EVERYTHING), self.now)
        for place, (window, policy, topics) in enumerate(READERS):
            self._attach(place + 1, window, policy)
            for number, topic in enumerate(topics, 1):
                request = ClientSubscribe(number, number, parse(f"topic = '{topic}'"))
                self.core.receive(place + 2, request, self.now)
        self._turn()

    def _attach(self, place: int, window: int, policy: int) -> None:
        name = f"c{place}"
        self.core.link_up(place + 1, "", Kind.CLIENT, self.now)
        attach = Attach(PROTOCOL, PROTOCOL, name, identify(name), 7, 1, window, policy)
        self.core.receive(place + 1, attach, self.now)

    def _turn(self) -> None:
        core = self.core
        core.tick(self.now)
        out = core.flush(self.now)
        for message, links in out.sends:
            if isinstance(message, Dropped):
                for number in links:
                    self.told[number - 2] = message.kind
        for number, batch in out.batches:
            assert isinstance(batch, Deliver)
            pairs = zip(batch.publications, batch.subscriptions, strict=True)
            self.got[number - 2] += [(p.sequence, ids) for p, ids in pairs]
        last = len(READERS) - 1  # reads at once, so that what it gets is never shelved
        position = len(self.got[last])
        if position > self.taken[last]:
            self.taken[last] = position
            core.receive(last + 2, Marks(1, position, position, position + 1000), self.now)
        out.clear()
        self.slept |= any(client.deliveries.spill is not None for client in core.clients.values())
        core.validate()

    def do(self, step: tuple[Any, ...]) -> None:
        if step[0] == "publish":
            many = [
                Publication(encode_attributes({"topic": topic}), b"", self.sent + n)
                for n, topic in enumerate(step[1], 1)
            ]
            self.core.publications(1, Publish(1, self.sent + 1, many), self.now)
            self.sent += len(many)
        elif step[0] == "wait":
            self.now += step[1]
        elif identify(f"c{step[1] + 1}") in self.core.clients:
            _, place, more = step
            position = len(self.got[place])
            marks = Marks(1, position, position, max(position + more, READERS[place][0]))
            self.core.receive(place + 2, marks, self.now)
        self._turn()

    def end(self) -> dict[str, Any]:
        rows = {row["name"]: row for row in Attachments.status(_attachments(self.core))["clients"]}
        for place in range(len(READERS)):
            self.do(("credit", place, 1000))
        self.do(("wait", 2.0))
        self.do(("wait", 2.0))
        return {"rows": rows, "got": self.got, "told": self.told, "settled": self.core.clients}


def _attachments(core: Any) -> Attachments:
    return next(b for b in core.behaviours if isinstance(b, Attachments))


def play(script: list[tuple[Any, ...]]) -> tuple[dict[str, Any], bool]:
    broker = Broker()
    for step in script:
        broker.do(step)
    result = broker.end()
    result["settled"] = [client.incoming.settled for client in result["settled"].values()]
    return msgspec.to_builtins(result), broker.slept


def compare(script: list[tuple[Any, ...]]) -> bool:
    found, slept = play(script)
    with patch.object(Deliveries, "ought_to_be_dormant", PropertyMock(return_value=False)):
        expected, never = play(script)
    assert not never
    assert found == expected
    return slept


@given(SCRIPT)
def test_dormant_ones_get_what_they_would_get_otherwise(script: list[tuple[Any, ...]]) -> None:
    compare(script)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_dormant_one_keeps_the_order_of_all_its_topics(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(runs, "compiled", None)
    mixed = ("publish", ["a", "b", "a", "c", "c", "b", "a", "b"])
    script = [mixed, ("wait", 1.1), mixed, mixed, ("wait", 0.1), mixed, ("credit", 1, 3), mixed, mixed]
    assert compare(script)


def test_who_is_heard_of_without_credit_misses_nothing() -> None:
    one = ("publish", ["a"])
    assert compare([("publish", ["a"] * 3), ("wait", 1.1), one, one, ("credit", 0, 0), one])
