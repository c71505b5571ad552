"""Executions that have nothing for a set: whoever is subscribed to it is past them, and is here."""

from __future__ import annotations

import msgspec
import pytest

from grapevine.client.session import Session
from grapevine.wire.channels import BackendSubscribed, Executed
from overlay.channels.backend import BackEnd
from tests.town import Town, founded, ids, publish, subscribe
from tests.unit.test_channel_races import let_go, without
from tests.unit.test_channel_whole import execute, replace

KEEP_S = 600.0


@pytest.fixture
def town() -> Town:
    found = founded(("edge", "other"))
    found.validates = False  # that takes most of the time
    keep(found)
    found.attach("bob", "other")
    subscribe(found, "bob", 0)
    return found


def keep(town: Town) -> None:
    channels = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd)).store.catalog.channels
    channels["Near"] = msgspec.structs.replace(channels["Near"], keep_s=KEEP_S)


def executions_for_others(town: Town) -> None:
    """For longer than results are kept."""
    for number in range(1, 9):
        publish(town, number)
        assert town.drive() is not None
        town.run(100.0)


def test_who_waits_for_longer_than_results_are_kept_has_lost_nothing(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 100)
    executions_for_others(town)
    publish(town, 500)
    town.drive()
    assert (ids(town, "ann", ann), ann.lost) == ([500], 0)


def test_a_result_that_does_not_change_for_long_does_not_come_again() -> None:
    town = founded()
    town.validates = False
    replace(town)
    keep(town)
    for name in ("driver", "ann"):
        town.attach(name, "back" if name == "driver" else "edge")
    ann = subscribe(town, "ann", 0)
    execute(town, [1, 2])
    assert ids(town, "ann", ann) == [1, 2]
    for _ in range(8):
        execute(town, [1, 2])
        town.run(100.0)
    execute(town, [1, 2, 3])
    assert (ids(town, "ann", ann), ann.lost) == ([3], 0)


@pytest.mark.parametrize("broken", ["edge", "back", "link"])
def test_a_break_after_a_long_silence_loses_nothing(town: Town, broken: str) -> None:
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 100)
    executions_for_others(town)
    if broken == "link":
        town.cut("ann")
    else:
        town.crash(broken)
        town.start(broken)
    if broken != "back":
        town.attach("ann", "edge", session)
    if broken != "link":
        del town.sessions["driver"]
        town.attach("publisher", "edge", town.sessions["publisher"][0])
    keep(town)
    town.run(30.0)
    publish(town, 500)
    town.drive()
    assert (ids(town, "ann", ann), ann.lost) == ([500], 0)


@pytest.mark.parametrize("driven", [True, False])
def test_a_name_is_known_from_when_it_leaves_not_from_its_last_row(town: Town, driven: bool) -> None:
    town.attach("ann", "edge")
    subscribe(town, "ann", 100)
    if driven:
        executions_for_others(town)
    town.run(KEEP_S + 100)
    town.cut("ann")
    town.run(100.0)
    publish(town, 500)
    town.drive()
    town.attach("ann", "edge", Session("ann", 999))
    again = subscribe(town, "ann", 100)
    assert (ids(town, "ann", again), again.lost) == ([500], 0)


def test_how_far_a_channel_is_hides_nothing_that_came_while_there_was_no_link(town: Town) -> None:
    town.attach("ann", "edge")
    ann = subscribe(town, "ann", 100)
    without(town, Executed)
    publish(town, 500)
    town.drive()
    held = without(town, BackendSubscribed)
    town.crash("back")
    town.start("back")
    town.run(30.0)
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    backend.tell(Executed("Near", 1, ()), *backend.brokers.values())
    town.run(0.1)
    assert held, "it is not confirmed on this link yet"
    let_go(town, held)
    assert ids(town, "ann", ann) == [500]
