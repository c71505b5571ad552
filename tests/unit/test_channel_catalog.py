"""What an administrator does to channels and datasets in use: replace, drop, look; and a disk that fails."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grapevine.client.session import Session
from grapevine.client.session.comparing import read_state
from grapevine.errors import ParameterError
from grapevine.wire.channels import BackendUnsubscribe, Cursors, Pull, position
from grapevine.wire.driving import (
    STATE,
    Commit,
    Failed,
    Plan,
    PlanAsk,
    Put,
    Serve,
    Serving,
    StateAsk,
    run_of,
)
from grapevine.wire.driving import decode_body as body_of
from grapevine.wire.messages import Command
from grapevine.wire.parameters import Parameter
from overlay.channels.backend import BackEnd
from overlay.channels.dataset_log import Read
from overlay.channels.desk import DriverDesk
from overlay.channels.frontend import FrontEnd
from overlay.channels.results import ResultsError
from overlay.channels.verbs import ChannelVerbs, Definitions
from overlay.links.session import Kind
from tests.town import CHANNEL, FEED, Town, founded, ids, publish, subscribe

ADMIN = 9_999_999  # a link


@pytest.fixture
def town() -> Town:
    return founded()


def replace(
    town: Town, *parameters: Parameter, sql: str = "SELECT id FROM Reports WHERE id > :low AND 1 = 1"
) -> None:
    """As `pubctl channel create --replace` asks for it."""
    changed = msgspec.structs.replace(CHANNEL, sql=sql, parameters=parameters or CHANNEL.parameters)
    text = msgspec.json.encode({"datasets": [], "channels": [changed]}).decode()
    command(town, "channel.create", definitions=text, replace=True)


def command(town: Town, verb: str, **arguments: Any) -> Any:
    """What pubctl is answered."""
    core, carried, told = town.cores["back"], town._carry, []

    def carry(place: str, link: int, message: Any) -> None:
        told.append(message) if link == ADMIN else carried(place, link, message)

    town._carry = carry  # type: ignore[method-assign]
    core.link_up(ADMIN, "admin", Kind.ADMIN, town.now)
    core.receive(ADMIN, Command(1, verb, arguments), town.now)
    town.run(0.1)
    core.link_down(ADMIN, town.now)
    town._carry = carried  # type: ignore[method-assign]
    (answer,) = told
    return answer.outcome, msgspec.json.decode(answer.body)


@pytest.mark.parametrize("killed", [False, True])
def test_who_came_after_a_plan_has_what_came_since_though_its_channel_is_replaced(
    town: Town, killed: bool
) -> None:
    """It was told to begin with the next execution; the one that is planned runs anew without it, and over
    no more than it was planned for."""
    for name in ("ann", "bob"):
        town.attach(name, "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    assert town.drive(commit=False) is not None
    bob = subscribe(town, "bob", -5)
    assert bob.since == position(1)
    publish(town, 2)
    replace(town)
    if killed:
        town.crash("back")
        town.sessions.pop("driver")
        town.run(1.0)
        town.start("back")
        town.run(10.0)
    town.drive_version = 2
    plan = town.drive()
    assert plan is not None and (plan.version, plan.execution) == (2, 1)
    assert (ids(town, "ann", ann), ids(town, "bob", bob)) == ([1], [])
    town.drive()
    assert ids(town, "ann", ann) == ids(town, "bob", bob) == [2]


def test_a_channel_that_is_replaced_goes_on(town: Town) -> None:
    """Who is there, who is behind and who is away have every row of both versions, once."""
    for name in ("ann", "bob", "eve"):
        town.attach(name, "edge")
    ann, bob, eve = (subscribe(town, name, 0) for name in ("ann", "bob", "eve"))
    publish(town, 1)
    town.drive()
    assert ids(town, "ann", ann) == ids(town, "bob", bob) == ids(town, "eve", eve) == [1]
    town.run(2.0)
    town.cut("eve")
    publish(town, 2)
    town.drive()
    assert ids(town, "ann", ann) == [2]
    publish(town, 3)  # no execution of the old version sees it
    replace(town)
    town.drive_version = 2
    plan = town.drive()
    assert plan is not None and (plan.version, plan.execution) == (2, 3)
    assert ids(town, "ann", ann) == [3] and ids(town, "bob", bob) == [2, 3]
    town.attach("eve", "back", Session("eve", 77))
    assert ids(town, "eve", subscribe(town, "eve", 0)) == [2, 3]
    town.run(60.0)
    assert town.cores["back"].status()["back end"]["back_end_subscriptions"] == 1, "the old one is gone"
    town.crash("back")
    for name in ("driver", "eve"):
        del town.sessions[name]
    town.run(1.0)
    town.start("back")
    town.run(10.0)
    publish(town, 4)
    town.drive()
    assert ids(town, "ann", ann) == [4]


def test_a_new_version_is_compared_with_the_last_result_of_the_one_before(town: Town) -> None:
    """Of a channel without `new`: else all rows came again, and those that are gone stayed for ever."""
    town.attach("ann", "edge")
    subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    desk = next(b for b in town.cores["back"].behaviours if isinstance(b, DriverDesk))
    (before,) = desk.store.interest.by_be
    read = town.disks.results.read

    def stored(channel: str, execution: int, be: int) -> list[bytes]:
        if (channel, execution, be) == ("Near@1", 1, STATE):
            return [msgspec.msgpack.encode((before, [b"row"]))]
        return read(channel, execution, be)

    town.disks.results.read = stored  # type: ignore[method-assign]
    replace(town)
    (now,) = (be for be, known in desk.store.interest.by_be.items() if known.kept.version == 2)
    state = desk._state(StateAsk("Near", 2, 1, 0), town.now)
    assert now != before and read_state(state.rows) == {now: [b"row"]}
    assert desk._state(StateAsk("Near", 2, 0, 0), town.now).rows == ()


def test_values_that_a_new_version_does_not_take_end_the_subscription(town: Town) -> None:
    town.attach("ann", "edge")
    town.attach("bob", "edge")
    ann, bob = subscribe(town, "ann", 3), subscribe(town, "bob", 30)
    replace(town, Parameter("low", "bigint", maximum=10))
    assert ann.error is None and isinstance(bob.error, ParameterError) and "at most 10" in str(bob.error)
    publish(town, 5)
    town.drive_version = 2
    town.drive()
    assert ids(town, "ann", ann) == [5]


def test_two_sets_that_become_one_lose_nothing(town: Town) -> None:
    """Who is there, who is behind and who is away: each has the rows of its own values of before."""
    lows = {"ann": 11, "bob": 14, "eve": 13, "dan": 14}
    states = {}
    for name, low in lows.items():
        town.attach(name, "edge")
        states[name] = subscribe(town, name, low)
    publish(town, 12)
    town.drive()
    assert ids(town, "ann", states["ann"]) == [12] and ids(town, "bob", states["bob"]) == []
    town.run(2.0)
    town.cut("eve")
    town.cut("dan")
    publish(town, 14, 15)
    town.drive()
    replace(town, Parameter("low", "bigint", snap=10))
    publish(town, 13)
    town.drive_version = 2
    town.drive()
    assert ids(town, "ann", states["ann"]) == [14, 15, 13] and ids(town, "bob", states["bob"]) == [15, 13]
    assert states["ann"].parameters == states["bob"].parameters == {"low": 10}
    replace(town, Parameter("low", "bigint", snap=10), sql="SELECT id FROM Reports WHERE id > :low AND 2 = 2")
    publish(town, 16)
    town.drive_version = 3
    town.drive()
    town.crash("back")
    del town.sessions["driver"]
    town.run(1.0)
    town.start("back")
    town.run(10.0)
    for name, wanted in (("eve", [14, 15, 13, 16]), ("dan", [15, 13, 16])):
        town.attach(name, "back", Session(name, 77))
        assert ids(town, name, subscribe(town, name, lows[name])) == wanted
    town.attach("new", "edge")
    assert ids(town, "new", subscribe(town, "new", 14)) == []
    publish(town, 17)
    town.drive()
    assert ids(town, "ann", states["ann"]) == [16, 17] == ids(town, "bob", states["bob"])


def test_a_set_that_was_left_before_its_channel_was_replaced_leaves(town: Town) -> None:
    """The broker lingers on it, and will not ask for it again."""
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    session.channels.unsubscribe(ann)
    town.run(1.0)
    assert town.cores["back"].status()["back end"]["back_end_subscriptions"] == 1
    replace(town)
    town.run(100.0)
    assert town.cores["back"].status()["back end"]["back_end_subscriptions"] == 0


def test_what_a_broker_says_of_a_set_that_was_replaced_counts(town: Town) -> None:
    """Its word and the change have crossed."""
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    assert ids(town, "ann", ann) == [1]
    town.run(2.0)
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    front = next(b for b in town.cores["edge"].behaviours if isinstance(b, FrontEnd))
    (old,) = front.wanted
    replace(town)
    (edge,) = (each for each in backend.brokers.values() if each.name == "edge")
    backend.on_cursors(edge, Cursors("ann", ((old, position(7)),)), town.now)
    interest = backend.store.interest
    assert {be for be, known in interest.by_be.items() if known.cursors} == {interest.later[old]}
    assert interest.by_be[interest.later[old]].cursors["ann"].position == position(7)
    backend.on_unsubscribe(edge, BackendUnsubscribe(old, "ann"), town.now)
    assert not any(known.cursors for known in interest.by_be.values())
    assert session.channels.by_number, "and it is still served"


def test_a_channel_that_is_dropped_during_its_execution(town: Town) -> None:
    """What its driver still says is refused; made again, it begins with what comes then."""
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    town.attach("driver", "back")
    serving = body_of(town.ask("serve", Serve("d", 1)).body, Serving)
    plan = body_of(town.ask("plan", PlanAsk(serving.lease, "Near", 1)).body, Plan)
    assert command(town, "channel.drop", name="Near")[0] == "failed", "it has a subscriber"
    assert command(town, "channel.drop", name="Near", force=True)[0] == "ok"
    assert "was dropped" in str(ann.error)
    where = (serving.lease, "Near", plan.version, plan.execution, 5)
    assert town.ask("put", Put(*where, 0, [run_of(7, [b"x"])])).outcome == "again"
    assert town.ask("commit", Commit(*where, 1)).outcome == "version"
    text = msgspec.json.encode({"datasets": [], "channels": [CHANNEL]}).decode()
    assert command(town, "channel.create", definitions=text)[0] == "ok"
    again = subscribe(town, "ann", 0)
    publish(town, 2)
    town.drive_version = 2
    town.drive()
    assert ids(town, "ann", again) == [2]


def test_another_default_counts_for_who_comes_then(town: Town) -> None:
    """Who was there goes on with what it was told, and has its rows of before."""
    replace(town, Parameter("low", "bigint", default=5))
    town.drive_version = 2
    for name in ("ann", "bob"):
        town.attach(name, "edge")
    ann = town.sessions["ann"][0].channels.subscribe("Near", {}, None, town.now, 5.0)
    town.run(0.1)
    assert ann.confirmed and ann.parameters == {"low": 5}
    publish(town, 4, 6)
    town.drive()
    replace(town, Parameter("low", "bigint", default=3))
    town.drive_version = 3
    bob = town.sessions["bob"][0].channels.subscribe("Near", {}, None, town.now, 5.0)
    town.run(0.1)
    publish(town, 4, 8)
    town.drive()
    assert ids(town, "ann", ann) == [6, 8] and ids(town, "bob", bob) == [4, 8]
    assert (ann.parameters, bob.parameters) == ({"low": 5}, {"low": 3})


def test_a_damaged_file_costs_its_execution_and_nothing_else(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    results, read = town.disks.results, town.disks.results.read

    def damaged(channel: str, execution: int, be: int) -> list[bytes]:
        if execution == 1:
            raise ResultsError("1.rows is damaged")
        return read(channel, execution, be)

    results.read = damaged  # type: ignore[method-assign]
    for number in (1, 2):
        publish(town, number)
        town.drive()
    assert ids(town, "ann", ann) == [2]
    assert command(town, "channel.results", name="Near", execution=1)[0] == "failed"


def test_a_failing_channel_that_is_dropped_and_made_again_is_not_failing(town: Town) -> None:
    desk = next(b for b in town.cores["back"].behaviours if isinstance(b, DriverDesk))
    desk.failures["Near"] = (7, "no such column")
    replace(town)
    assert desk.failures == {}
    desk.failures["Near"] = (7, "no such column")
    assert command(town, "channel.drop", name="Near")[0] == "ok"
    assert desk.failures == {} and not desk._failed(Failed(desk.lease, "Near", "gone"), town.now)


def test_rows_that_an_open_plan_sees_stay(town: Town) -> None:
    """Who runs it again long after sees what it saw."""
    town.attach("ann", "edge")
    subscribe(town, "ann", 0)
    publish(town, 1)
    store = next(b for b in town.cores["back"].behaviours if isinstance(b, DriverDesk)).store
    channel = msgspec.structs.replace(store.catalog.channels["Near"], new=())
    store.executions.progress["Near"].cuts = {}
    assert store.executions.plan(channel, town.now) is not None
    town.run(2 * FEED.keep_s)
    assert store.log.start("Reports") == 1
    store.executions._void("Near")
    town.run(20.0)
    assert store.log.start("Reports") == 2


def test_an_old_row_is_looked_at_once(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk drops whole segments: 27 MB of old rows held the back end up for half a second every ten."""
    store = next(b for b in town.cores["back"].behaviours if isinstance(b, DriverDesk)).store
    publish(town, 1, 2, 3)
    assert town.drive() is None, "nobody is subscribed: the channel leaves them behind"
    monkeypatch.setattr(store.log, "trim", lambda dataset, before: None)
    town.run(2 * FEED.keep_s)
    reads: list[int] = []
    read = store.log.read

    def counted(dataset: str, after: int, up_to: int, most_bytes: int) -> list[Read]:
        found = read(dataset, after, up_to, most_bytes)
        reads.extend(each.position for each in found)
        return found

    monkeypatch.setattr(store.log, "read", counted)
    town.run(60.0)
    assert reads == []
    publish(town, 4)
    town.drive()
    town.run(60.0)
    assert set(reads) == {4}


def test_another_filter_of_a_dataset_counts_at_once(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    session = town.sessions["publisher"][0]
    verbs = next(b for b in town.cores["back"].behaviours if isinstance(b, ChannelVerbs))
    publish(town, 1)
    verbs.create(Definitions([msgspec.structs.replace(FEED, filter="class = 'other'")], []), True, town.now)
    town.run(1.0)
    publish(town, 2)
    session.publish({"class": "other", "id": 3})
    town.run(0.1)
    town.drive()
    assert ids(town, "ann", ann) == [1, 3]


def test_a_driver_that_dies_is_told_and_nothing_is_lost(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    town.drive()
    town.run(20.0)
    _, said = command(town, "channel.ls")
    assert said["driver"] == "d/1" and said["driver_silent_s"] >= 20 and said["no_driver_for_s"] is None
    assert said["channels"][0]["state"] == "ready"
    publish(town, 2)
    town.run(45.0)
    _, said = command(town, "channel.ls")
    assert said["driver"] is None and said["no_driver_for_s"] >= 5
    assert said["channels"][0]["state"] == "no driver"
    publish(town, 3)
    town.drive()
    assert ids(town, "ann", ann) == [1, 2, 3]


@pytest.mark.parametrize("given", [{"execution": "abc"}, {"execution": -5}, {"name": 7}, {}])
def test_whatever_an_administrator_asks_is_answered(town: Town, given: dict[str, Any]) -> None:
    for verb in ("channel.results", "dataset.show", "channel.show", "channel.drop", "dataset.drop"):
        outcome, _ = command(town, verb, **{"name": "Near", "rows": "many", **given})
        assert outcome in ("ok", "usage", "failed", "not-found"), verb
        if verb == "channel.drop" and outcome == "ok":
            break
    assert command(town, "channel.create", definitions='{"datasets": [["D", "class = "]]}')[0] == "usage"
    assert command(town, "channel.create", definitions="[")[0] == "usage"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../etc"},
        {"name": "a/b"},
        {"name": ""},
        {"name": "x" * 65},
        {"period_s": -1.0},
        {"period_s": 1e-9},
        {"period_s": 1e300},
        {"keep_s": 0.0},
        {"keep_s": -5.0},
        {"parameters": (Parameter("low", "bigint", snap=-1),)},
        {"parameters": (Parameter("low", "blob"),)},
    ],
)
def test_definitions_that_no_file_would_give_are_refused(town: Town, change: dict[str, Any]) -> None:
    """An administrator's own program may send anything: names are files, times are timers."""
    channel = msgspec.structs.replace(CHANNEL, **{"name": "Other", **change})
    text = msgspec.json.encode({"datasets": [], "channels": [channel]}).decode()
    assert command(town, "channel.create", definitions=text)[0] == "failed"
    assert town.cores["back"].status()["back end"]["channels"] == 1


def test_a_pull_of_more_executions_than_can_be_is_answered(town: Town) -> None:
    town.attach("ann", "edge")
    subscribe(town, "ann", 0)
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    (edge,) = (each for each in backend.brokers.values() if each.name == "edge")
    (be,) = backend.store.interest.by_be
    backend.on_pull(edge, Pull(999, 2**63 - 1, ((be, 0), (1, 0)), 1 << 20), town.now)
    town.run(0.1)
