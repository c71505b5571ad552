"""What happens at a broker is kept, numbered and told; a pulse is short and true; nobody vanishes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grapevine.filters import parse
from grapevine.wire import encode_attributes, identify
from grapevine.wire.messages import (
    DROP_OLDEST,
    Answer,
    Attach,
    ClientSubscribe,
    Command,
    Publication,
    Publish,
)
from overlay.core import Core
from overlay.events import Events
from overlay.links.session import Kind
from tests.unit.test_administration import Admin, Wires, client
from tools.pubctl.channel import Reply
from tools.pubctl.events import Follower
from tools.pubctl.status import absentees

PEER, KIND, SENT, RECEIVED, UNSETTLED = 0, 1, 2, 3, 6


@pytest.fixture
def wires() -> Wires:
    """a - b - c - d."""
    wires = Wires()
    wires.broker("a")
    wires.broker("b", "a")
    wires.broker("c", "b")
    wires.broker("d", "c")
    Admin(wires, "a")("status")  # who is behind whom is known from the last time that all were asked
    return wires


def tick(wires: Wires, seconds: float, steps: int = 10) -> None:
    for _ in range(steps):
        wires.now += seconds / steps
        for name, core in wires.cores.items():
            if name not in wires.dead:
                core.tick(wires.now)
        wires.settle()


def kinds(core: Core) -> list[str]:
    return [happened.kind for happened in core.events.since(0)]


# --- the ring ---------------------------------------------------------------------------------------


def test_the_ring_keeps_the_latest_and_numbers_all() -> None:
    events = Events(kept=3)
    for n in range(5):
        events.add(float(n), "k", str(n), "info", {"x": n})
    assert events.last == 5
    assert [h.text for h in events.since(0)] == ["2", "3", "4"]
    assert [h.text for h in events.since(4)] == ["4"]
    assert [h.text for h in events.since(3, 1)] == ["4"]
    assert events.since(5) == events.since(9) == []
    assert events.since(4)[0].row() == {
        "n": 5,
        "t_ms": 4000,
        "kind": "k",
        "level": "info",
        "text": "4",
        "x": 4,
    }


# --- events -----------------------------------------------------------------------------------------


def test_joins_and_links_are_told(wires: Wires) -> None:
    assert kinds(wires.cores["a"])[:2] == ["started", "ready"]
    joined = next(h for h in wires.cores["b"].events.since(0) if h.kind == "joined")
    assert joined.fields["parent"] == "a"
    assert "link.up" in kinds(wires.cores["a"])
    b = wires.cores["b"]
    peer = b.peers[identify("c")]
    assert peer.link is not None
    b.link_down(peer.link.number, wires.now)
    assert kinds(b)[-1] == "link.down"
    b.lose(peer, wires.now)
    last = b.events.since(b.events.last - 1)[0]
    assert (last.kind, last.level, last.fields["peer"]) == ("link.lost", "bad", "c")


def slow_client(wires: Wires, broker: str = "d", queue: int = 50) -> None:
    """Reads nothing; one of its two subscriptions matches everything that comes."""
    core = wires.cores[broker]
    link = wires.outside(broker, Kind.CLIENT)
    wires.say(broker, link, Attach(1, 1, "dashboard", identify("dashboard"), 5, 9, 1, DROP_OLDEST))
    wires.say(broker, link, ClientSubscribe(1, 1, parse("x < 0")))
    wires.say(broker, link, ClientSubscribe(2, 2, parse("x > 0")))
    core.clients[identify("dashboard")].deliveries.most = queue
    client(wires, broker, "quotes", advertises="x > 0 or x < 0")


def publish(wires: Wires, broker: str, count: int) -> None:
    core = wires.cores[broker]
    quotes = core.clients[identify("quotes")]
    first = quotes.incoming.received + 1
    made = [Publication(encode_attributes({"x": 1 + n}), b"", n) for n in range(first, first + count)]
    assert quotes.link is not None
    core.publications(quotes.link.number, Publish(quotes.epoch, first, made), wires.now)
    wires.settle()


def test_a_slow_client_is_told_with_its_subscription(wires: Wires) -> None:
    slow_client(wires)
    publish(wires, "d", 40)
    tick(wires, 2.5)
    d = wires.cores["d"]
    began = next(h for h in d.events.since(0) if h.kind == "slow.began")
    assert (began.fields["client"], began.fields["policy"]) == ("dashboard", "drop_oldest")
    assert (began.fields["number"], began.fields["filter"], began.fields["share"]) == (2, "x > 0", 1.0)
    assert "drop" not in kinds(d)
    publish(wires, "d", 60)
    tick(wires, 2.5)
    dropped = next(h for h in d.events.since(0) if h.kind == "drop")
    assert dropped.fields["count"] > 0
    assert kinds(d).count("slow.began") == 1
    rows = Admin(wires, "a")("client.ls", broker="d")[1]["brokers"][0]["rows"]
    row = next(r for r in rows if r["name"] == "dashboard")
    assert (row["state"], row["policy"], row["behind_on"]["filter"]) == ("slow", "drop_oldest", "x > 0")
    core_client = d.clients[identify("dashboard")]
    core_client.deliveries.backlog.clear()
    core_client.deliveries.stalled = False
    tick(wires, 1.5)
    assert kinds(d)[-1] == "slow.ended"


def test_events_are_asked_by_number(wires: Wires) -> None:
    ask = Admin(wires, "a")
    rows = ask("events", broker="c")[1]["brokers"][0]
    assert [row["n"] for row in rows["rows"]] == list(range(1, rows["total"] + 1))
    assert {"t_ms", "kind", "level", "text"} <= rows["rows"][0].keys()
    later = ask("events", broker="c", since=rows["total"] - 1)[1]["brokers"][0]["rows"]
    assert later == rows["rows"][-1:]
    assert len(ask("events", limit=1)[1]["brokers"]) == 4
    assert ask("events", since="x")[0] == "usage"


# --- following --------------------------------------------------------------------------------------


def report(broker: str, incarnation: int, numbers: list[int], total: int) -> dict[str, Any]:
    rows = [{"n": n, "t_ms": 10 * n, "kind": "k", "text": ""} for n in numbers]
    return {"name": broker, "incarnation": incarnation, "rows": rows, "total": total}


def pulse(broker: str, incarnation: int, last: int) -> list[Any]:
    return [broker, 1, incarnation, *[0] * 15, last, []]


def test_a_follower_reads_each_event_once_and_sees_gaps() -> None:
    follower = Follower()
    rows, short = follower.take([report("a", 1, [1, 2], 2)])
    assert ([r["n"] for r in rows], short) == ([1, 2], [])
    assert follower.behind([pulse("a", 1, 2), pulse("b", 1, 0)]) == []
    assert follower.behind([pulse("a", 1, 3)]) == ["a"]
    rows, short = follower.take([report("a", 1, [5, 6], 6)])  # 3 and 4 were left out of a short answer
    assert (rows, short, follower.since("a", 1)) == ([], ["a"], 2)
    rows, _ = follower.take([report("a", 1, [2, 3, 4, 5, 6], 6)])
    assert [r["n"] for r in rows] == [3, 4, 5, 6]
    assert follower.behind([pulse("a", 2, 1)]) == ["a"]  # restarted: numbers begin anew
    rows, _ = follower.take([report("a", 2, [1], 1)])
    assert [(r["incarnation"], r["n"]) for r in rows] == [(2, 1)]


# --- the pulse --------------------------------------------------------------------------------------


def pulses(wires: Wires, asked: str = "a") -> dict[str, list[Any]]:
    return {p[0]: p for p in Admin(wires, asked)("pulse")[1]["pulses"]}


def test_a_pulse_says_what_status_says(wires: Wires) -> None:
    client(wires, "d", "s1", "x > 0")
    client(wires, "a", "quotes", advertises="x > 0")
    publish(wires, "a", 7)
    found = pulses(wires)
    status = {row["name"]: row for row in Admin(wires, "a")("status")[1]["brokers"]}
    assert sorted(found) == ["a", "b", "c", "d"]
    for name, row in found.items():
        assert len(row) == 24
        assert row[1:3] == [identify(name), 1]
        assert row[3] == round(wires.now * 1000)
        keys = ("state", "accepted", "forwarded", "delivered", "duplicates")
        assert row[5:10] == [status[name][key] for key in keys]
        assert row[17] == status[name]["clients"]
        assert row[18] == wires.cores[name].events.last
        assert row[20] == status[name]["received"]
    links = {link[PEER]: link for link in found["b"][19]}
    assert (links["a"][RECEIVED], links["c"][SENT], links["a"][KIND]) == (7, 7, "primary")
    assert found["a"][6] == 7 and found["d"][8] == 7


def test_what_came_over_every_lane_is_counted(wires: Wires) -> None:
    """A ring's publications pass on further lanes of a link; a lost link takes nothing back."""
    b = wires.cores["b"]
    peer = b.peers[identify("c")]
    before = pulses(wires)["b"]
    lane = peer.lane(1)
    assert lane is not None
    lane.received_total += 40
    after = pulses(wires)["b"]
    assert after[20] == before[20] + 40
    assert next(link for link in after[19] if link[PEER] == "c")[RECEIVED] == 40
    b.lose(peer, wires.now)
    assert pulses(wires)["b"][20] == before[20] + 40


def test_a_pulse_is_short(wires: Wires) -> None:
    """A second of a thousand brokers must fit into a fraction of a frame."""
    for row in pulses(wires).values():
        assert len(msgspec.json.encode(row)) < 260


def test_the_generation_moves_with_the_shape_alone(wires: Wires) -> None:
    before = pulses(wires)
    client(wires, "b", "s1", "x > 0")
    assert pulses(wires)["b"][4] == before["b"][4]
    wires.broker("e", "b")
    after = pulses(wires)
    assert after["b"][4] > before["b"][4]
    assert after["d"][4] == before["d"][4]


def test_reports_pass_as_they_are(wires: Wires) -> None:
    """What another broker wrote is not read on the way."""
    odd = b'["odd",   7,"\\u0041"]'
    b = wires.cores["b"]
    census = next(x for x in b.behaviours if type(x).__name__ == "Census")
    census.reporters["pulse"] = lambda argument: msgspec.Raw(odd)
    ask = Admin(wires, "a")
    wires.say("a", ask.link, Command(7, "pulse", {}))
    answer = wires.inbox[ask.link].pop()
    assert isinstance(answer, Answer)
    assert odd in answer.body


# --- nobody vanishes --------------------------------------------------------------------------------


def partial(
    wires: Wires, ask: Admin, verb: str, seconds: float, **arguments: Any
) -> tuple[Reply | None, float]:
    """The answer and how long it took."""
    began = wires.now
    wires.say("a", ask.link, Command(7, verb, arguments))
    while not wires.inbox[ask.link] and wires.now < began + seconds:
        tick(wires, 0.1, 1)
    if not wires.inbox[ask.link]:
        return None, wires.now - began
    answer = wires.inbox[ask.link].pop()
    assert isinstance(answer, Answer)
    return Reply(answer.outcome, msgspec.json.decode(answer.body), answer.text), wires.now - began


def test_who_is_behind_a_silent_broker_is_cut_off(wires: Wires) -> None:
    wires.dead.add("c")
    ask = Admin(wires, "a")
    for verb in ("status", "pulse"):
        reply, _ = partial(wires, ask, verb, 6.0)
        assert reply is not None
        assert (reply.missing, reply.body["cut_off"]) == (["c"], ["d"])
    reply, _ = partial(wires, ask, "status", 6.0)
    assert reply is not None
    assert [(row["name"], row["state"]) for row in absentees(reply)] == [("c", "missing"), ("d", "cut off")]


def test_a_stopped_broker_makes_one_question_slow_and_no_more(wires: Wires) -> None:
    wires.dead.add("c")
    ask = Admin(wires, "a")
    _, first_s = partial(wires, ask, "status", 6.0)
    assert first_s > 1.0
    reply, again_s = partial(wires, ask, "status", 6.0)
    assert again_s < 0.2
    assert reply is not None and reply.missing == ["c"]
    wires.dead.discard("c")
    wires.settle()
    b = wires.cores["b"]
    link = b.peers[identify("c")].link
    assert link is not None
    link.heard_at = wires.now  # it is heard of again: it is asked again
    reply, _ = partial(wires, ask, "status", 6.0)
    assert reply is not None
    assert sorted(row["name"] for row in reply.body["brokers"]) == ["a", "b", "c", "d"]


def test_a_broker_that_was_given_up_is_named_with_those_behind_it(wires: Wires) -> None:
    b = wires.cores["b"]
    peer = b.peers[identify("c")]
    assert peer.link is not None
    b.link_down(peer.link.number, wires.now)
    b.lose(peer, wires.now)
    wires.dead |= {"c", "d"}
    reply, _ = partial(wires, Admin(wires, "a"), "status", 6.0)
    assert reply is not None
    gone = absentees(reply)
    assert [row["name"] for row in gone] == ["c", "d"]
    assert all(row["state"].startswith("gone since ") for row in gone)
    reply.body["brokers"].append({"name": "d"})  # it answers elsewhere
    assert [row["name"] for row in absentees(reply)] == ["c"]
