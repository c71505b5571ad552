"""What a subscriber of a channel hears beside its rows: what it has lost, why executions fail."""

from __future__ import annotations

import pytest

from grapevine.wire.driving import Commit, Failed, Serve, Serving
from grapevine.wire.driving import decode_body as body_of
from tests.town import Town, founded, ids, publish, subscribe


@pytest.fixture
def town() -> Town:
    return founded()


def test_executions_without_a_set_that_nobody_wanted_are_told_as_lost(town: Town) -> None:
    """A subscriber without a name is waited for half a minute, not for ever."""
    session = town.attach("ann", "edge")
    session.channels.kept = False
    town.attach("bob", "edge")
    ann, bob = subscribe(town, "ann", 0), subscribe(town, "bob", 1)
    publish(town, 5)
    town.drive()
    assert ids(town, "ann", ann) == [5] == ids(town, "bob", bob)
    town.cut("ann")
    town.run(100.0)
    for number in (6, 7):
        publish(town, number)
        town.drive()
    session.channels.kept = False
    town.attach("ann", "edge", session)
    publish(town, 8)
    town.drive()
    assert ids(town, "ann", ann) == [8] and ann.lost == 2
    assert ids(town, "bob", bob) == [6, 7, 8] and bob.lost == 0


def test_who_comes_while_a_channel_fails_hears_why(town: Town) -> None:
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    publish(town, 1)
    plan = town.drive(commit=False)
    lease = body_of(town.ask("serve", Serve("d", 1)).body, Serving).lease
    for _ in range(5):
        assert town.ask("failed", Failed(lease, "Near", "division by zero")).outcome == "done"
    assert ann.trouble == "division by zero"
    town.cut("ann")
    town.attach("ann", "edge", session)
    town.attach("bob", "back")
    bob = subscribe(town, "bob", 7)
    assert ann.trouble == bob.trouble == "division by zero"
    assert plan is not None
    assert town.ask("commit", Commit(lease, "Near", 1, plan.execution, 7, 1)).outcome == "done"
    town.run(0.1)
    eve = subscribe(town, "bob", 8)
    assert ann.trouble == bob.trouble == eve.trouble == ""


def test_what_was_lost_is_told_once(town: Town) -> None:
    """Whoever has to ask once more before a row has come."""
    session = town.attach("ann", "edge")
    session.channels.kept = False
    town.attach("bob", "edge")
    ann, _ = subscribe(town, "ann", 0), subscribe(town, "bob", 1)
    town.cut("ann")
    town.run(100.0)
    for number in (6, 7):
        publish(town, number)
        town.drive()
    session.channels.kept = False
    town.attach("ann", "edge", session)
    assert ann.lost == 2
    for place in ("edge", "back"):
        town.crash(place)
        town.start(place)
        town.attach("ann", "edge", session)
        town.run(10.0)
    assert ann.lost == 2
