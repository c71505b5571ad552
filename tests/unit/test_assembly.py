"""A broker whose behaviours are in a wrong order does not start."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from overlay.assembly import AssemblyError, Calls, Slot, check_order
from overlay.behaviour import Behaviour, Quiet
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, OverlaySettings


def behaviours() -> list[Behaviour]:
    core = tree_broker("b", 1, CoreSettings(overlay=OverlaySettings(delta=4)), Random(1))
    return list(core.behaviours)


def swapped(one: str, other: str) -> list[Behaviour]:
    found = behaviours()
    places = {type(behaviour).__name__: place for place, behaviour in enumerate(found)}
    found[places[one]], found[places[other]] = found[places[other]], found[places[one]]
    return found


def test_the_tree_is_in_order() -> None:
    check_order(behaviours())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Forwarding", "Planes"),
        ("Announcements", "Sync"),
        ("Publications", "Forwarding"),
        ("Planes", "Numbers"),
        ("Neighbours", "Members"),
        ("Subscriptions", "Sync"),
    ],
)
def test_two_that_are_swapped_are_named(one: str, other: str) -> None:
    with pytest.raises(AssemblyError, match=f"{one}|{other}"):
        check_order(swapped(one, other))


class Early(Quiet):
    before = ("Late",)


class Late(Quiet): ...


def test_who_comes_before_another_says_so() -> None:
    check_order([Early(), Late()])
    with pytest.raises(AssemblyError, match="Early must come before Late"):
        check_order([Late(), Early()])


def test_a_slot_is_filled_once_and_wrapped_by_name() -> None:
    slot: Slot[Callable[[int], int]] = Slot("count")
    with pytest.raises(AssemblyError, match="which nobody fills"):
        slot.wrap(Late(), lambda number: number)
    slot.fill(Early(), lambda number: number + 1)
    with pytest.raises(AssemblyError, match="Late fills count, but Early has"):
        slot.fill(Late(), lambda number: number)
    inner = slot.wrap(Late(), lambda number: 2 * inner(number))
    assert slot.call(3) == 8
    assert slot.takers == ["Early", "Late"]


def test_everybody_is_called_in_order_and_nobody_twice() -> None:
    calls: Calls[Callable[[list[str]], None]] = Calls("heard")
    calls.add(Early(), lambda heard: heard.append("early"))
    calls.add(Late(), lambda heard: heard.append("late"))
    heard: list[str] = []
    for call in calls.calls:
        call(heard)
    assert heard == ["early", "late"]
    with pytest.raises(AssemblyError, match="Late is in heard twice"):
        calls.add(Late(), lambda heard: None)
