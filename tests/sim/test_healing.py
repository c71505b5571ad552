"""SPEC T6: brokers die beside each other, parts are cut off and come back; more seeds in make proof."""

from __future__ import annotations

import pytest

from overlay.settings import HealingSettings
from tests.sim.stories import Story
from tools.simulator.digests import small
from tools.simulator.mutants import mutated
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate

HEALING = small(find("healing"))


@pytest.mark.parametrize("seed", [0, 4, 6])
def test_one_tree_without_a_cycle_and_nothing_lost(seed: int) -> None:
    result = simulate(HEALING, "", None, seed)
    assert result.ok and result.owed > 0 and result.faults["death"] > 0, [result.replay(), *result.violations]


def test_what_is_held_must_not_be_forgotten() -> None:
    assert any(not simulate(HEALING, "healing-held-forgotten", None, seed).ok for seed in (4, 6, 8))


def test_who_comes_back_later_than_one_that_wanted_the_same_misses_nothing() -> None:
    """b1 dies; below it b3 and b4 want the same, and b1 told b0 only of one. b3 comes back to b0 at once, b4
    seconds later: what is published meanwhile is held for b4, though nobody has ever told b0 of it."""
    story = Story(5, fanout=2, healing=HealingSettings(after_s=1.0, heal_s=20.0)).begin()
    sender = story.publisher("sender", 0)
    readers = [story.client("left", 3), story.client("right", 4)]
    wanted = [story.subscribe(reader, "x > 0") for reader in readers]
    story.wait(lambda: all(subscription.confirmed for subscription in wanted))
    story.wall(story.brokers[4], readers[1], seconds=4.0)
    story.crash(story.brokers[1])
    for x in range(1, 101):
        sender.publish({"x": x})
        story.run_for(0.1)
    story.wait(lambda: sender.idle)
    assert [story.received(reader) for reader in readers] == [list(range(1, 101))] * 2
    assert not story.judged()


def test_without_what_covering_hid_the_later_one_misses_some() -> None:
    with mutated("healing-covered-forgotten"), pytest.raises(AssertionError):
        test_who_comes_back_later_than_one_that_wanted_the_same_misses_nothing()
