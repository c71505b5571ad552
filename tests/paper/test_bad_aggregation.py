"""BAD 3.1: what is stored and pulled goes by back-end subscriptions and brokers, not by subscribers."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.client.session import Session
from tests.town import Town, founded, publish
from tools.reproduce.bad_prototype import Prototype

EDGES = ("e1", "e2", "e3", "e4", "e5")
REPORTS = 20
SETS, FRONT_END = 600, 2_200


def run(town: Town, wanted: dict[str, set[int]], copies: int) -> tuple[int, int, int]:
    """(rows stored, rows pulled, rows pushed) when each subscriber has so many subscriptions to each set."""
    states = []
    for number, (name, sets) in enumerate(wanted.items()):
        session = town.attach(name, EDGES[number % len(EDGES)], Session(name, 1000 + number))
        session.channels.kept = False
        ask = session.channels.subscribe
        lows = [low for low in sorted(sets) for _ in range(copies)]
        states += [(session, ask("Near", {"low": low}, None, town.now, None)) for low in lows]
    town.run(0.1)
    assert all(state.confirmed for _, state in states)
    publish(town, *range(100_000, 100_000 + REPORTS))
    town.drive()
    town.run(0.1)
    for session, state in states:
        assert len(session.channels.take(state, 1000)) == REPORTS
    back = town.cores["back"]
    status = back.status()["back end"]
    verbs = next(b for b in back.behaviours if type(b).__name__ == "ChannelVerbs")
    stored = verbs.desk.store.executions.progress["Near"].rows  # type: ignore[attr-defined]
    pushed = sum(town.cores[edge].status()["channels"]["pushed_rows"] for edge in EDGES)
    return stored, status["pulled_rows"], pushed


def check(wanted: dict[str, set[int]]) -> None:
    sets = set().union(*wanted.values())
    held = {(number % len(EDGES), low) for number, mine in enumerate(wanted.values()) for low in mine}
    front = sum(map(len, wanted.values()))
    for copies in (1, 4):
        town = founded(EDGES)
        town.validates = False
        stored, pulled, pushed = run(town, wanted, copies)
        assert stored == REPORTS * len(sets), "one row a report and back-end subscription"
        assert pulled == REPORTS * len(held), "once for each broker that holds it"
        assert pushed == REPORTS * front * copies


def test_equal_sets_share_at_the_broker_and_at_the_back_end() -> None:
    check({f"s{n}": {n % 7, (n * 3) % 11} for n in range(20)})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_at_the_papers_size() -> None:
    """6.1.2: 400 subscribers, around 600 back-end and 2,200 front-end subscriptions, five brokers. Drawn as
    the paper says it is a little less; the rest is added at random."""
    prototype = Prototype(1, None)
    mine = {
        f"s{i}": set(prototype.wanted[prototype.start[i] : prototype.start[i + 1]].tolist())
        for i in range(len(prototype.start) - 1)
    }
    chance, names = Random(1), list(mine)
    assert 500 < len(set().union(*mine.values())) <= SETS and 1900 < sum(map(len, mine.values())) < FRONT_END
    while len(sets := set().union(*mine.values())) < SETS:
        mine[chance.choice(names)].add(max(sets) + 1)
    every = sorted(sets)
    while sum(map(len, mine.values())) < FRONT_END:
        mine[chance.choice(names)].add(chance.choice(every))
    check(mine)
