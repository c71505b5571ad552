"""What the back end answers late, and what has happened meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from grapevine.wire.channels import BackendSubscribed, ChannelRows, SubscribeChannel
from overlay.channels.backend import BackEnd
from tests.town import Town, founded, ids, publish, subscribe


@pytest.fixture
def town() -> Town:
    return founded()


def troubled(town: Town) -> None:
    """Brokers are to ask once more where their subscribers go on."""
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    backend.troubled("Near", "replaced", "")
    town.run()


def without(town: Town, *kinds: type[Any]) -> list[Any]:
    """Messages of these kinds are held; what `_carry` was is in the town's class."""
    held: list[Any] = []

    def carry(place: str, link: int, message: Any) -> None:
        if isinstance(message, kinds):
            held.append((place, link, message))
        else:
            Town._carry(town, place, link, message)

    town._carry = carry  # type: ignore[method-assign]
    return held


def let_go(town: Town, held: list[Any]) -> None:
    del town._carry  # type: ignore[attr-defined]
    for each in held:
        town._carry(*each)
    town.run(0.1)


def test_a_set_that_one_leaves_while_another_asks_for_it_stays(town: Town) -> None:
    for name in ("ann", "bob"):
        town.attach(name, "edge").channels.kept = False
    subscribe(town, "ann", 7)  # the back end is known
    first, second = (town.sessions[name][0].channels for name in ("ann", "bob"))
    first.unsubscribe(first.subscribe("Near", {"low": 0}, None, town.now, 5.0))
    bob = second.subscribe("Near", {"low": 0}, None, town.now, 5.0)
    town.run(0.1)
    assert bob.confirmed
    town.run(40.0)
    publish(town, 1)
    town.drive()
    assert ids(town, "bob", bob) == [1]


def test_a_set_that_is_let_go_of_when_one_asks_for_it_stays(town: Town) -> None:
    for name in ("ann", "bob"):
        town.attach(name, "edge").channels.kept = False
    ann = subscribe(town, "ann", 0)
    town.sessions["ann"][0].channels.unsubscribe(ann)
    town.run(29.0)
    held = without(town, BackendSubscribed)
    bob = subscribe(town, "bob", 0)
    town.run(2.0)
    let_go(town, held)
    assert bob.confirmed
    publish(town, 1)
    town.drive()
    assert ids(town, "bob", bob) == [1]


def test_an_answer_to_what_was_asked_before_a_break_hides_no_loss(town: Town) -> None:
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    lost = without(town, ChannelRows)
    publish(town, 1)
    town.drive()
    assert lost
    held = without(town, ChannelRows, BackendSubscribed)
    troubled(town)
    town.cut("ann")
    town.attach("ann", "edge", session)
    let_go(town, held)
    assert ids(town, "ann", ann) == [1]


def test_an_answer_between_a_resume_and_the_clients_word_hides_no_loss(town: Town) -> None:
    session = town.attach("ann", "edge")
    ann = subscribe(town, "ann", 0)
    without(town, ChannelRows)
    publish(town, 1)
    town.drive()
    town.cut("ann")
    held = without(town, SubscribeChannel)
    town.attach("ann", "edge", session)
    troubled(town)
    assert held
    let_go(town, held)
    assert ids(town, "ann", ann) == [1]


def test_only_who_is_behind_is_asked_for_when_results_expire(town: Town) -> None:
    town.attach("ann", "edge")
    ann, others = subscribe(town, "ann", 0), [subscribe(town, "ann", low) for low in range(100, 108)]
    publish(town, *range(10, 50))
    town.drive(rows=4_000)
    town.run(0.1)
    backend = next(b for b in town.cores["back"].behaviours if isinstance(b, BackEnd))
    backend.store.executions.drop_results("Near@1", 1)
    asked = counted(town, BackendSubscribed)
    while town.sessions["ann"][0].channels.take(ann, 1 << 20):
        town.run(0.1)
    assert ann.lost == 1 and len(asked) == 1
    assert [other.lost for other in others] == [0] * 8


def counted(town: Town, kind: type[Any]) -> list[Any]:
    found: list[Any] = []

    def carry(place: str, link: int, message: Any) -> None:
        found.extend([message] if isinstance(message, kind) else [])
        Town._carry(town, place, link, message)

    town._carry = carry  # type: ignore[method-assign]
    return found
