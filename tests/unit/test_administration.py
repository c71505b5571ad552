"""One broker answers an administrator for the whole overlay. Real cores, links without delay."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from grapevine.filters import parse
from grapevine.wire import decode, encode, identify
from grapevine.wire.messages import (
    Answer,
    Attach,
    Batch,
    CensusAnswer,
    ClientAdvertise,
    ClientSubscribe,
    Command,
    Message,
    Publish,
    TraceAnswer,
)
from overlay.administration.census import ANSWER_BYTES, Census, bounded, read_reports
from overlay.administration.labels import is_called, label
from overlay.administration.verbs import VERBS, Access, access
from overlay.core import Core
from overlay.links.session import Kind
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, LinkSettings, TreeSettings
from tools.simulator.tables import behaviour


class Wires:
    """Cores joined by FIFO links; whoever is not a core has an inbox."""

    def __init__(self) -> None:
        self.cores: dict[str, Core] = {}
        self.now = 1000.0
        self.dead: set[str] = set()
        self._far: dict[tuple[str, int], tuple[str, int]] = {}
        self._number = 0
        self.inbox: dict[int, list[Message]] = {}

    def broker(self, name: str, parent: str = "") -> Core:
        settings = CoreSettings(
            tree=TreeSettings(neighbours=(f"sim://{parent}",) if parent else ()),
            links=LinkSettings(ping_s=1e6, lost_after_s=1e6),
        )
        core = self.cores[name] = tree_broker(name, 1, settings, Random(1), (f"sim://{name}",))
        core.start(self.now)
        self.settle()
        return core

    def outside(self, broker: str, kind: Kind) -> int:
        self._number += 2
        self.cores[broker].link_up(self._number, "", kind, self.now)
        self.inbox[self._number] = []
        return self._number

    def say(self, broker: str, link: int, message: Message) -> None:
        self.cores[broker].receive(link, message, self.now)
        self.settle()

    def settle(self) -> None:
        """Carry everything until nobody has anything to say."""
        waiting: deque[tuple[str, int, bytes]] = deque()
        while True:
            for name, core in self.cores.items():
                if name not in self.dead:
                    waiting.extend(self._drain(name, core))
            if not waiting:
                return
            name, link, frame = waiting.popleft()
            self._arrive(name, link, decode(frame))

    def _drain(self, name: str, core: Core) -> Iterator[tuple[str, int, bytes]]:
        out = core.flush(self.now)
        for wanted in out.opens:
            there = wanted.addresses[0].removeprefix("sim://")
            self._number += 2
            here_link, there_link = self._number, self._number + 1
            self._far[(name, here_link)] = (there, there_link)
            self._far[(there, there_link)] = (name, here_link)
            core.link_up(here_link, wanted.addresses[0], Kind.PEER, self.now, wanted.dial)
            self.cores[there].link_up(there_link, "", Kind.PEER, self.now)
        frames = [(message, link) for message, links in out.sends for link in links]
        frames += [(batch, link) for link, batch in out.batches]
        out.clear()
        for message, link in frames:
            if link in self.inbox:
                self.inbox[link].append(message)
            elif (name, link) in self._far:
                yield (*self._far[(name, link)], encode(message))

    def _arrive(self, name: str, link: int, message: Message) -> None:
        if name in self.dead:
            return
        core = self.cores[name]
        if isinstance(message, Batch | Publish):
            core.publications(link, message, self.now)
        else:
            core.receive(link, message, self.now)
        if not core.finished:
            core.validate()


class Admin:
    def __init__(self, wires: Wires, broker: str) -> None:
        self.wires, self.broker = wires, broker
        self.link = wires.outside(broker, Kind.ADMIN)

    def __call__(self, verb: str, **arguments: Any) -> tuple[str, Any]:
        self.wires.say(self.broker, self.link, Command(7, verb, arguments))
        answers = self.wires.inbox[self.link]
        answer = answers.pop()
        assert not answers
        assert isinstance(answer, Answer)
        assert answer.request == 7
        assert decode(encode(answer)) == answer
        return answer.outcome, msgspec.json.decode(answer.body) | {"text": answer.text}


def client(wires: Wires, broker: str, name: str, *subscriptions: str, advertises: str = "") -> None:
    link = wires.outside(broker, Kind.CLIENT)
    wires.say(broker, link, Attach(1, 1, name, identify(name), 5, 9, 100, 0))
    if advertises:
        wires.say(broker, link, ClientAdvertise(1, 1, parse(advertises)))
    for number, text in enumerate(subscriptions, 10):
        wires.say(broker, link, ClientSubscribe(number, number, parse(text)))


@pytest.fixture
def wires() -> Wires:
    """a - b - c and b - d; quotes publish at a."""
    wires = Wires()
    wires.broker("a")
    wires.broker("b", "a")
    wires.broker("c", "b")
    wires.broker("d", "b")
    client(wires, "a", "quotes", advertises="x > 0")
    client(wires, "c", "s1", "x > 10", "x > 15")
    client(wires, "d", "s2", "x > 20")
    return wires


def row_of(rows: list[dict[str, Any]], name: str, key: str = "name") -> dict[str, Any]:
    return next(row for row in rows if row[key] == name)


def test_every_broker_reports_wherever_one_asks(wires: Wires) -> None:
    for asked in "abcd":
        outcome, body = Admin(wires, asked)("status")
        assert outcome == "ok"
        assert sorted(broker["name"] for broker in body["brokers"]) == ["a", "b", "c", "d"]
        assert row_of(body["brokers"], "c")["parent"] == "b"
        assert row_of(body["brokers"], "c")["subscriptions"] == 2
        assert row_of(body["brokers"], "a")["subscriptions_known"] == 1  # the others are covered


def test_questions_about_one(wires: Wires) -> None:
    ask = Admin(wires, "d")
    outcome, body = ask("broker.info", broker="a")
    assert (outcome, [b["name"] for b in body["brokers"]]) == ("ok", ["a"])
    assert ask("broker.info", broker="z")[0] == "not-found"
    assert ask("broker.info")[0] == "usage"
    outcome, body = ask("client.info", name="s1")
    assert [s["filter"] for s in body["brokers"][0]["subscriptions"]] == ["x > 10", "x > 15"]
    assert ask("client.info", name="nobody")[0] == "not-found"


def test_listings(wires: Wires) -> None:
    ask = Admin(wires, "a")
    links = ask("link.ls")[1]["brokers"]
    assert sorted(link["name"] for link in row_of(links, "b")["rows"]) == ["a", "c", "d"]
    subscriptions = ask("subs.ls", limit=1)[1]["brokers"]
    assert (row_of(subscriptions, "c")["total"], len(row_of(subscriptions, "c")["rows"])) == (2, 1)
    assert ask("subs.ls", limit=-1)[0] == "usage"
    known = ask("subs.ls", broker="b", table=True)[1]["brokers"][0]["rows"]
    assert row_of(known, "x > 20", "filter")["covered"] == {"a": "c/1.1"}
    assert row_of(known, "x > 10", "filter")["announced_to"] == ["a"]
    advertised = ask("adv.ls")[1]["brokers"]
    assert row_of(advertised, "a")["rows"][0]["publisher"] == "quotes"
    assert ask("client.ls", broker="c")[1]["brokers"][0]["rows"][0]["subscriptions"] == 2


def test_a_subscription_is_explained_at_every_broker_that_knows_it(wires: Wires) -> None:
    ask = Admin(wires, "a")
    outcome, body = ask("subs.explain", name="d/1")
    assert outcome == "ok"
    at_b = row_of(body["brokers"], "b")
    assert at_b["source"] == "d"
    assert at_b["covered"] == {"a": "c/1.1"}
    assert at_b["not_announced_to"] == {"c": "no advertisement from there overlaps it"}
    assert sorted(row["name"] for row in body["brokers"]) == ["b", "d"]
    assert ask("subs.explain", name="d/9")[0] == "not-found"


def test_a_trace_goes_where_the_publication_would(wires: Wires) -> None:
    outcome, body = Admin(wires, "a")("trace", attributes='{"x": 25}')
    assert outcome == "ok"
    path = {row["broker"]: row for row in body["path"]}
    assert path.keys() == {"a", "b", "c", "d"}
    at_b = {n["name"]: n for n in path["b"]["neighbours"]}
    assert {name: n["reason"] for name, n in at_b.items()} == {
        "a": "came from there",
        "c": "matched",
        "d": "matched",
    }
    assert at_b["d"]["subscriptions"][0]["covered_by"] == "c/1.1"
    assert path["c"]["clients"][0]["numbers"] == [10, 11]
    assert [row["hops"] for row in body["path"]] == [0, 1, 2, 2]


def test_a_trace_stops_where_nothing_matches(wires: Wires) -> None:
    _, body = Admin(wires, "a")("trace", attributes='{"x": 12}')
    path = {row["broker"]: row for row in body["path"]}
    assert path.keys() == {"a", "b", "c"}
    assert row_of(path["b"]["neighbours"], "d")["reason"] == "no match"
    assert path["c"]["clients"][0]["numbers"] == [10]


def test_a_trace_says_that_nobody_advertised(wires: Wires) -> None:
    _, body = Admin(wires, "d")("trace", attributes='{"y": 1}')
    assert [row["verdict"] for row in body["path"]] == ["no match"]
    assert body["path"][0]["neighbours"][0]["reason"] == "not advertised"


def test_a_trace_as_a_client_that_may_not(wires: Wires) -> None:
    ask = Admin(wires, "a")
    assert ask("trace", attributes='{"x": -1}', client="quotes")[1]["path"][0]["verdict"] == "not allowed"
    assert ask("trace", attributes='{"x": 25}', client="quotes")[1]["path"][0]["verdict"] == "matched"
    assert ask("trace", attributes='{"x": 25}', client="s1")[0] == "not-found"


@pytest.mark.parametrize("attributes", ["", "[1]", '{"x": [1]}', '{"x": null}', "{"])
def test_attributes_that_are_none(wires: Wires, attributes: str) -> None:
    assert Admin(wires, "a")("trace", attributes=attributes)[0] == "usage"


def test_a_silent_broker_makes_the_answer_partial(wires: Wires) -> None:
    wires.dead.add("c")
    ask = Admin(wires, "a")
    for verb, arguments in (("status", {}), ("trace", {"attributes": '{"x": 25}'})):
        wires.say("a", ask.link, Command(7, verb, arguments))
        assert not wires.inbox[ask.link]
        for _ in range(2):  # b gives up on c before a gives up on b
            wires.now += 4.8
            for core in wires.cores.values():
                core.tick(wires.now)
            wires.settle()
        answer = wires.inbox[ask.link].pop()
        assert isinstance(answer, Answer)
        assert answer.outcome == "partial"
        assert msgspec.json.decode(answer.body)["missing"] == ["c"]


def test_drain_lets_a_broker_leave(wires: Wires) -> None:
    outcome, body = Admin(wires, "a")("broker.drain", broker="c")
    assert (outcome, body["brokers"][0]["state"]) == ("ok", "leaving")
    for _ in range(400):
        wires.now += 0.02
        for core in wires.cores.values():
            core.tick(wires.now)
        wires.settle()
        if wires.cores["c"].finished:
            break
    assert wires.cores["c"].finished
    assert not any(wires.cores[name].finished for name in "abd")


def test_unknown_verbs(wires: Wires) -> None:
    outcome, body = Admin(wires, "a")("brokr.ls")
    assert outcome == "usage"
    assert "did you mean broker.ls" in body["text"]


def test_verbs_are_classified() -> None:
    assert access("status") is Access.READ
    assert {verb for verb in VERBS if access(verb) is Access.WRITE} == {
        "balance.apply",
        "balance.set",
        "broker.drain",
        "broker.forget",
        "channel.create",
        "channel.drop",
        "client.move",
        "dataset.drop",
        "reconfigure.abort",
        "reconfigure.apply",
        "reconfigure.finish",
        "relocate.apply",
        "relocate.set",
        "reload",
        "strategy.set",
        "stream.add",
        "stream.rm",
    }
    assert access("format.disk") is Access.WRITE


def test_labels_read_back() -> None:
    serial = (1_700_000_000 << 24) + 7
    text = label(identify("b3"), serial, {identify("b3"): "b3"})
    assert text == "b3/6553f100.7"
    for wanted in (text, "b3/7", label(identify("b3"), serial, {})):
        assert is_called(wanted, identify("b3"), serial)
    for wanted in ("b3/8", "b4/7", "b3/1.7", "7", ""):
        assert not is_called(wanted, identify("b3"), serial)


def test_answers_fit_into_a_frame() -> None:
    reports = [b'{"id": 1}' + b" " * (ANSWER_BYTES // 4)] * 5
    kept = bounded(reports)
    assert len(kept) == 4
    assert read_reports(kept)[-1]["left_out"] == 2
    assert read_reports((b"\xff", b"[]", b"{}", b'{"id": 2}')) == [{"id": 2}]


def test_what_a_peer_writes_does_not_break_the_asker(wires: Wires) -> None:
    """Answers that nobody asked for, and reports that are no JSON."""
    core = wires.cores["a"]
    peer = next(iter(core.peers.values()))
    assert peer.link is not None
    for answer in (CensusAnswer(core.id, 1, 99, (b"\xff",)), TraceAnswer(core.id, 1, 99, (b"\xff",))):
        wires.say("a", peer.link.number, answer)
    ask = Admin(wires, "a")
    wires.dead.add("b")
    for verb, kind in (("status", CensusAnswer), ("trace", TraceAnswer)):
        wires.say("a", ask.link, Command(7, verb, {"attributes": '{"x": 25}'}))
        number = behaviour(core, Census)._number if verb == "status" else 1
        wires.say("a", peer.link.number, kind(core.id, 1, number, (b"\xff", b"[3]", b'"id"')))
        answer = wires.inbox[ask.link].pop()
        assert isinstance(answer, Answer)
        assert answer.outcome == "ok"
