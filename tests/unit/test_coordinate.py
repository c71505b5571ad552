"""A coordinator, brokers and clients, links made by hand: who is registered, placed, moved."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.client.session import Session, SessionSettings
from grapevine.filters import parse
from grapevine.wire.messages import Answer, Command
from overlay.coordinate.balance import Balance, planned
from overlay.coordinate.changes import Changes
from overlay.coordinate.registry import Registry, Reported, Subscriber
from overlay.coordinate.reporting import Reporting
from overlay.links.session import Kind
from overlay.settings import BalancingSettings
from tests.town import Town, founded, ids, publish, subscribe

EDGES = ("e1", "e2", "e3")
SETTINGS = BalancingSettings(beta=1.0, theta=1.0, gamma=5.0, moves=100)


def coordinator(town: Town) -> Balance:
    return next(b for b in town.cores["back"].behaviours if isinstance(b, Balance))


def place(town: Town, name: str, word: str, location: tuple[float, float] | None = None) -> str:
    """The broker at which somebody who came to the coordinator ends up."""
    session = Session(name, 77, SessionSettings(place=word, location=location))
    town.attach(name, "back", session)
    town.run(1.0)
    assert session.broker_name, "attached nowhere"
    return session.broker_name


def verb(town: Town, name: str, broker: str = "e1", **arguments: Any) -> Answer:
    """What pubctl is answered."""
    core, told = town.cores[broker], []
    core.link_up(9_999_999, "admin", Kind.ADMIN, town.now)
    core.receive(9_999_999, Command(1, f"balance.{name}", arguments), town.now)
    carried = town._carry

    def carry(place: str, link: int, message: Any) -> None:
        if link == 9_999_999:
            told.append(message)
        carried(place, link, message)

    town._carry = carry  # type: ignore[method-assign]
    town.run(4.0)
    town._carry = carried  # type: ignore[method-assign]
    core.link_down(9_999_999, town.now)
    (answer,) = told
    assert isinstance(answer, Answer)
    return answer


# --- what has changed --------------------------------------------------------------------------------------


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3)), max_size=12), st.integers())
def test_who_asks_again_and_again_knows_everything(steps: list[dict[str, int]], seed: int) -> None:
    random, changes = Random(seed), Changes[int]()
    known: dict[str, int] = {}
    through = 0
    for values in steps:
        changes.update(values)
        news = changes.since(through, random.randint(1, 4))
        if random.random() < 0.3:
            continue  # the answer is lost
        known = known if news.since else {}
        known.update(news.changed)
        for key in news.gone:
            known.pop(key, None)
        through = news.through
    while (news := changes.since(through, 2)).more or news.changed or news.gone:
        known = known if news.since else {}
        known.update(news.changed)
        for key in news.gone:
            known.pop(key, None)
        through = news.through
    assert known == changes.values


# --- the registry ------------------------------------------------------------------------------------------


def report(name: str, subscribers: dict[str, tuple[int, ...]], **more: Any) -> Reported:
    told = {who: Subscriber(True, wanted) for who, wanted in subscribers.items()}
    fields = {"since": (0, 0), "through": (1, 1), "gone": [], "produced": {}, **more}
    return Reported(
        id=1, name=name, incarnation=1, addresses=(name,), location=(), serves=True, clients=1, more=False,
        ended=[], subscribers=told, **fields,
    )  # fmt: skip


def test_loads_by_what_is_produced() -> None:
    """F_j = sum of (1 + n_jk) lambda_k, with moving averages over the window."""
    registry = Registry(60.0)
    registry.take(report("a", {"ann": (7,), "bob": (7, 8)}), 0.0)
    registry.take(report("b", {"eve": (8,)}), 0.0)
    registry.sample(0.0)
    for step in range(1, 200):
        now = 5.0 * step
        total = {"7": int(100 * now), "8": int(10 * now)}
        registry.take(report("b", {}, since=(1, 1), produced=total), now)
        registry.take(report("a", {}, since=(1, 1)), now)
        registry.sample(now)
    loads = registry.assignment()
    assert loads.brokers == ["a", "b"] and loads.subscribers == ["ann", "bob", "eve"]
    assert loads.at.loads.tolist() == pytest.approx([3 * 100 + 2 * 10, 2 * 10], rel=0.01)
    assert registry.homes == {"ann": "a", "bob": "a", "eve": "b"}


def test_a_back_end_that_starts_anew_makes_no_peak() -> None:
    registry = Registry(60.0)
    registry.take(report("a", {"ann": (7,)}, produced={"7": 10**9}), 0.0)
    registry.sample(0.0)
    assert registry.rates[7].value == 0, "what was produced before our time is no rate"
    registry.take(report("a", {}, since=(1, 0), produced={"7": 300}), 5.0)
    registry.sample(5.0)
    assert 0 < registry.rates[7].value < 60


def test_a_broker_that_says_nothing_is_forgotten() -> None:
    registry = Registry(60.0)
    registry.take(report("a", {"ann": (7,)}), 0.0)
    registry.take(report("b", {}), 25.0)
    assert list(registry.silent(25.0, 5.0)) == ["a"]
    assert registry.forget_silent(40.0) == ["a"]
    assert not registry.homes and list(registry.brokers) == ["b"]


# --- placing -----------------------------------------------------------------------------------------------


def test_who_comes_is_placed_in_turn_and_found_again() -> None:
    town = founded(EDGES, BalancingSettings(assign="round_robin"))
    town.run(6.0)
    homes = [place(town, f"s{n}", "assigned") for n in range(6)]
    assert homes == ["e1", "e2", "e3"] * 2
    for number in range(6):
        subscribe(town, f"s{number}", 0)
    town.run(15.0)
    assert coordinator(town).registry.homes == dict(zip((f"s{n}" for n in range(6)), homes))
    town.cut("s1")
    town.run(20.0)
    assert place(town, "s1", "random") == homes[1], "a name that is known goes back to its broker"


def test_nearest_by_location() -> None:
    town = Town((), BalancingSettings(assign="nearest"))
    places = {"helsinki": (60.17, 24.94), "turku": (60.45, 22.27), "oulu": (65.01, 25.47)}
    town.locations.update(places)
    for name in places:
        town.start(name)
    town.run(6.0)
    assert place(town, "ann", "assigned", (60.3, 25.0)) == "helsinki"
    assert place(town, "bob", "nearest", (64.0, 26.0)) == "oulu"
    assert place(town, "eve", "nearest", (60.5, 22.0)) == "turku"
    assert place(town, "dan", "nearest") in places, "without a location somebody takes it"


def test_a_broker_that_is_gone_is_given_nobody() -> None:
    town = founded(EDGES, BalancingSettings())
    town.run(6.0)
    town.crash("e2")
    town.run(15.0)
    assert {place(town, f"s{n}", "round_robin") for n in range(4)} == {"e1", "e3"}


def test_without_other_brokers_the_coordinator_serves() -> None:
    town = Town((), BalancingSettings())
    town.run(6.0)
    assert place(town, "ann", "assigned") == "back"


# --- moving ------------------------------------------------------------------------------------------------


def crowded(settings: BalancingSettings, count: int = 12) -> tuple[Town, dict[str, Any]]:
    """Everybody is at the first broker."""
    town = founded(EDGES, settings)
    states = {}
    for number in range(count):
        town.attach(f"s{number}", "e1", Session(f"s{number}", 500 + number))
        states[f"s{number}"] = subscribe(town, f"s{number}", number)
    return town, states


def traffic(town: Town, rounds: int, begin: int = 100) -> list[int]:
    sent = []
    for number in range(rounds):
        publish(town, begin + number)
        sent.append(begin + number)
        town.drive(rows=50)
        town.run(5.0)
    return sent


def test_subscribers_move_under_traffic_and_miss_nothing() -> None:
    town, states = crowded(msgspec.structs.replace(SETTINGS, mode="on", in_flight=3, cooldown_s=0.0))
    sent = traffic(town, 20)
    balance = coordinator(town)
    assert balance.migrations.moved >= 6 and not balance.migrations.failed
    assert len({to for _, _, to in town.gone}) == 2, "to both of the others"
    assert balance.propose().before["cov"] <= 0.15
    for name, state in states.items():
        assert ids(town, name, state) == [each for each in sent for _ in range(50)], name
    held = [len(town.cores[edge].clients) for edge in EDGES]
    assert sum(held) == 12 + 1, "nobody stays where it was: one of them is the publisher"


def test_mode_plan_moves_nobody_and_apply_does() -> None:
    town, _ = crowded(msgspec.structs.replace(SETTINGS, mode="plan"))
    traffic(town, 5)
    balance = coordinator(town)
    assert balance.proposal is not None and balance.proposal.steps and not town.gone
    body = msgspec.json.decode(verb(town, "plan").body)
    assert body["stage"] == "migrate" and body["cov_after"] <= 0.15 < body["cov"]
    answer = verb(town, "apply", "e3")
    assert answer.outcome == "ok" and msgspec.json.decode(answer.body)["moves"]
    town.run(20.0)
    assert town.gone and balance.migrations.moved == len(town.gone)
    shown = msgspec.json.decode(verb(town, "show").body)
    assert shown["moved"] == len(town.gone) and len(shown["brokers"]) == 4
    assert [row["serves"] for row in shown["brokers"]] == [False, True, True, True]


def test_who_has_other_subscriptions_moves_with_them() -> None:
    """One handover for everything that a client has (adr 0012)."""
    town = founded(EDGES, msgspec.structs.replace(SETTINGS, mode="on", in_flight=3, cooldown_s=0.0))
    states, got = {}, {}
    for number in range(12):
        name = f"s{number}"
        got[name] = deliveries = []

        def take(batch: list[Any], mine: list[int] = deliveries) -> None:
            mine += [each.attributes["id"] for each in batch]

        session = town.attach(name, "e1", Session(name, 500 + number, None, take))
        states[name] = subscribe(town, name, number)
        session.subscribe(parse("class = 'report'"), town.now)
    sent = traffic(town, 20)
    balance = coordinator(town)
    assert balance.migrations.moved >= 6 and not balance.migrations.failed
    for name, state in states.items():
        assert ids(town, name, state) == [each for each in sent for _ in range(50)], name
        assert got[name] == sent, name
    moved = {name for name, _, _ in town.gone}
    assert {town.sessions[name][1] for name in moved} > {"e2"}


def test_who_has_streams_at_its_broker_is_not_planned_for() -> None:
    town, _ = crowded(msgspec.structs.replace(SETTINGS, mode="on"), 4)
    for edge in EDGES:
        reporting(town, edge).fixed = lambda client: True
    traffic(town, 5)
    balance = coordinator(town)
    assert balance.propose().before["cov"] > 0.15 and not town.gone and not balance.migrations.failed
    assert {name for known in balance.registry.brokers.values() for name in known.subscribers} == {
        "s0", "s1", "s2", "s3"
    }  # fmt: skip


def test_the_coordinator_hears_soon_who_stays_and_why() -> None:
    town, states = crowded(msgspec.structs.replace(SETTINGS, mode="on"), 4)
    for edge in ("e2", "e3"):  # they do not say so in their reports
        reporting(town, edge).handovers.attachments.draining = True
    sent = traffic(town, 4)
    migrations = coordinator(town).migrations
    assert migrations.failed and not migrations.moved and not town.gone
    assert all("takes no clients" in why for why in migrations.last), migrations.last
    for name, state in states.items():
        assert ids(town, name, state) == [each for each in sent for _ in range(50)], name


def reporting(town: Town, broker: str) -> Reporting:
    return next(b for b in town.cores[broker].behaviours if isinstance(b, Reporting))


def test_a_coordinator_that_restarts_waits_for_those_it_knew() -> None:
    town, _ = crowded(msgspec.structs.replace(SETTINGS, mode="on"), 6)
    town.run(6.0)
    town.crash("e3")
    town.run(1.0)
    kept = town.kept["back"]["balancing"]
    assert set(kept) == {"back", "e1", "e2", "e3"}
    town.crash("back")
    town.start("back")
    town.run(4.0)
    assert coordinator(town).waits_for(town.now) == ["e3"]
    town.run(40.0)
    assert coordinator(town).waits_for(town.now) == []
    assert set(coordinator(town).registry.brokers) == {"back", "e1", "e2"}


def test_settings_are_checked() -> None:
    town = founded(EDGES, SETTINGS)
    town.run(6.0)
    assert "no such setting: aplha" in verb(town, "set", aplha=1).text
    assert verb(town, "set", mode="perhaps").text == "mode is one of off, plan, on"
    assert verb(town, "set", alpha=0).outcome == "usage"
    assert verb(town, "set", alpha="0.2", mode="plan").outcome == "ok"
    assert coordinator(town).settings.alpha == 0.2 and coordinator(town).settings.mode == "plan"


def test_without_a_coordinator_it_is_said() -> None:
    town = founded(EDGES)
    answer = verb(town, "show")
    assert answer.outcome == "failed" and "there is no coordinator" in answer.text


def test_a_round_is_one_thing_or_the_other() -> None:
    registry = Registry(60.0)
    wanted = {f"s{n}": (n,) for n in range(8)}
    produced = {str(n): 0 for n in range(9)}
    registry.take(report("a", wanted, produced=produced), 0.0)
    registry.take(report("b", {"t": (8,)}), 0.0)
    registry.sample(0.0)
    registry.take(report("a", {}, since=(1, 1), produced={str(n): 600 for n in range(9)}), 60.0)
    registry.sample(60.0)
    due, plan = planned(registry.assignment(), BalancingSettings(beta=1e9, theta=1e9), set())
    assert due == "none", "too little flows"
    loads = registry.assignment()
    due, plan = planned(loads, BalancingSettings(beta=1, theta=1, gamma=5, moves=100), set())
    assert due == "migrate" and loads.at.cov() <= 0.15 and len(plan.moves) in (3, 4)
    loads = registry.assignment()
    due, plan = planned(loads, BalancingSettings(beta=1, theta=1, gamma=0.5), {0, 1})
    assert due == "shuffle" and loads.at.cov() < 0.2 and not {0, 1} & plan.moves.keys()
