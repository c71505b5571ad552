"""A channel without `new`: who comes when its set has a result already begins with the whole of it."""

from __future__ import annotations

import msgspec
import pytest

from grapevine.client.session.comparing import compared, read_state
from grapevine.wire.channels import WHOLE, in_whole, position
from grapevine.wire.driving import (
    Commit,
    Plan,
    PlanAsk,
    Put,
    Serve,
    Serving,
    Sets,
    SetsAsk,
    State,
    StateAsk,
    run_of,
)
from grapevine.wire.driving import decode_body as body_of
from overlay.channels.backend import BackEnd
from overlay.channels.verbs import ChannelVerbs, Definitions
from tests.town import CHANNEL, Town, founded, ids, subscribe

LOW = 0


@pytest.fixture
def town() -> Town:
    """The channel gives changes from its second version on."""
    found = founded(("edge", "other"))
    replace(found)
    found.attach("driver", "back")
    return found


def replace(town: Town) -> None:
    verbs = next(b for b in town.cores["back"].behaviours if isinstance(b, ChannelVerbs))
    town.drive_version += 1
    sql = f"{CHANNEL.sql} AND {town.drive_version} > 0"
    other = msgspec.structs.replace(CHANNEL, new=(), sql=sql)
    verbs.create(Definitions([], [other]), True, town.now)
    town.run(0.1)


def execute(town: Town, result: list[int]) -> Plan:
    """An execution in which every set has this result."""
    version = town.drive_version
    lease = body_of(town.ask("serve", Serve("d", 1)).body, Serving).lease
    plan = body_of(town.ask("plan", PlanAsk(lease, "Near", version)).body, Plan)
    sets = body_of(town.ask("sets", SetsAsk("Near", version, plan.generation)).body, Sets)
    state = body_of(town.ask("state", StateAsk("Near", version, plan.execution - 1)).body, State)
    rows = [msgspec.msgpack.encode((plan.at, {"id": each})) for each in result]
    bes = [be for be, _ in sets.sets]
    runs = compared(read_state(state.rows), [run_of(be, rows) for be in bes], bes, plan.at)
    where = (lease, "Near", version, plan.execution, 7)
    assert town.ask("put", Put(*where, 0, runs)).outcome == "done"
    assert town.ask("commit", Commit(*where, 1)).outcome == "done"
    town.run(0.1)
    return plan


@pytest.mark.parametrize("broker", ["edge", "other"])
def test_who_comes_later_has_everything_and_then_changes(town: Town, broker: str) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", LOW)
    execute(town, [1, 2])
    execute(town, [2, 3])
    town.attach("bob", broker)
    bob = subscribe(town, "bob", LOW)
    assert in_whole(bob.since)
    assert ids(town, "bob", bob) == [2, 3], "not 1, which is gone, and nothing of how it came to this"
    execute(town, [2, 3, 4])
    assert ids(town, "bob", bob) == [4]
    assert ids(town, "ann", ann) == [1, 2, 3, 1, 4], "1 as added and as removed"
    back = town.cores["back"].status()["back end"]
    assert back["back_end_subscriptions"] == 1


def test_who_comes_before_the_first_execution_has_each_row_once(town: Town) -> None:
    states = {}
    for name in ("ann", "bob"):
        town.attach(name, "edge")
        states[name] = subscribe(town, name, LOW)
    execute(town, [1, 2])
    assert all(ids(town, name, state) == [1, 2] for name, state in states.items())


def test_a_break_in_the_middle_repeats_nothing_and_loses_nothing(town: Town) -> None:
    """More than a pull brings: it goes on at another broker where it was, though the result has changed."""
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", LOW)
    many = list(range(1, 60_001))
    execute(town, many)
    town.attach("bob", "edge")
    bob = subscribe(town, "bob", LOW)
    first = town.sessions["bob"][0].channels.take(bob, 1000)
    assert first and in_whole(first[-1].position)
    execute(town, many[1:])
    town.attach("bob2", "other")
    again = subscribe(town, "bob2", LOW, first[-1].position)
    found = [each.row["id"] for each in first]
    while more := ids(town, "bob2", again):
        found += more
    assert found == [*many, 1], "and the one that is gone by now, as removed"
    assert ann.confirmed


def test_a_result_of_an_earlier_version_is_the_result(town: Town) -> None:
    town.attach("ann", "edge")
    subscribe(town, "ann", LOW)
    execute(town, [1, 2])
    replace(town)
    town.attach("bob", "edge")
    bob = subscribe(town, "bob", LOW)
    assert ids(town, "bob", bob) == [1, 2]
    execute(town, [2])
    assert ids(town, "bob", bob) == [1], "removed"


def test_who_was_away_for_longer_than_results_are_kept_begins_anew(town: Town) -> None:
    town.attach("ann", "edge")
    subscribe(town, "ann", LOW)
    execute(town, [1])
    first = execute(town, [1, 2])
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    for result in ([2], [2, 3], [3]):
        last = execute(town, result)
    backend.store.executions.drop_results(f"Near@{last.version}", last.execution - 1)
    town.attach("bob", "edge")
    bob = subscribe(town, "bob", LOW, position(first.execution))
    assert (bob.lost, bob.since) == (2, position(last.execution, WHOLE))
    assert ids(town, "bob", bob) == [3]
    town.attach("eve", "edge")
    eve = subscribe(town, "eve", LOW, position(first.execution, WHOLE + 1))
    assert eve.lost == 3 and ids(town, "eve", eve) == [3], "also from the middle of an older whole"


def test_who_is_too_slow_for_what_is_kept_hears_it_and_begins_anew(town: Town) -> None:
    """It is in the midst of an execution that expires: the rest of it was passed over in silence."""
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", LOW)
    many = list(range(1, 60_001))
    execute(town, many)
    second = execute(town, [2])
    for result in ([2, 3], [3]):
        last = execute(town, result)
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    backend.store.executions.drop_results(f"Near@{last.version}", last.execution - 1)
    found: list[int] = []
    while more := ids(town, "ann", ann):
        found += more
    removed = found[60_000:-1]
    assert found[:60_000] == many and 0 < len(removed) < 59_999 and found[-1] == 3
    assert ann.lost == last.execution - second.execution
    execute(town, [3, 4])
    assert ids(town, "ann", ann) == [4], "and then changes, as before"


def test_who_had_all_of_what_has_expired_has_lost_nothing(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", LOW)
    first = execute(town, [1, 2])
    assert ids(town, "ann", ann) == [1, 2]
    last = execute(town, [1, 2, 3])
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    backend.store.executions.drop_results(f"Near@{last.version}", first.execution)
    assert ann.taken == position(first.execution)
    town.attach("ann", "other")
    again = subscribe(town, "ann", LOW, ann.taken)
    assert again.lost == 0 and ids(town, "ann", again) == [3]
