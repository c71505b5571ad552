"""SPEC T6: brokers die beside each other, parts are cut off and come back; more seeds in make proof."""

from __future__ import annotations

import pytest

from grapevine.wire.identity import identify
from overlay.settings import HealingSettings, LinkSettings
from overlay.tree.join import Join
from tests.sim.stories import Story
from tools.simulator.clients import ClientHost
from tools.simulator.digests import small
from tools.simulator.edges import NoCycle
from tools.simulator.mutants import mutated
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate
from tools.simulator.tables import behaviour

HEALING = small(find("healing"))


# In 159 one came back after another had; in 19 nobody dies, and neighbours waited for each other's SyncDone;
# in 118 a subscriber was confirmed by nobody.
@pytest.mark.parametrize("seed", [0, 4, 6, 19, 118, 159])
def test_one_tree_without_a_cycle_and_nothing_lost(seed: int) -> None:
    result = simulate(HEALING, "", None, seed)
    assert result.ok and result.owed > 0, [result.replay(), *result.violations]
    assert result.faults.get("death", 0) > 0 or seed == 19


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


def test_the_third_to_come_back_misses_nothing_either() -> None:
    """Below b1, which dies, three want the same, and b1 told b0 only of b4's. b4 comes back and wants it no
    more; what b1 had told stands for the third all the same when the second comes."""
    story = Story(7, fanout=3, healing=HealingSettings(after_s=1.0, heal_s=20.0)).begin()
    sender = story.publisher("sender", 0)
    readers = [story.client(f"reader{broker}", broker) for broker in (4, 5, 6)]
    wanted = [story.subscribe(reader, "x > 0") for reader in readers]
    story.wait(lambda: all(subscription.confirmed for subscription in wanted))
    for broker, seconds in ((5, 4.2), (6, 6.0)):
        story.wall(story.brokers[broker], readers[broker - 4], seconds=seconds)
    story.crash(story.brokers[1])
    for x in range(1, 101):
        sender.publish({"x": x})
        story.run_for(0.1)
        if x == 35:
            readers[0].unsubscribe(wanted[0])
    story.wait(lambda: sender.idle)
    assert [story.received(reader) for reader in readers[1:]] == [list(range(1, 101))] * 2
    assert not story.judged()


def test_if_what_was_told_is_looked_at_anew_the_third_misses_some() -> None:
    with mutated("healing-covered-anew"), pytest.raises(AssertionError):
        test_the_third_to_come_back_misses_nothing_either()


def _around(above: dict[int, tuple[int, ...]]) -> Story:
    """Broker -> the candidates for its parent."""
    links = LinkSettings(lost_after_s=15.0, ping_s=0.5, greet_s=1.0, redial_s=0.3)
    story = Story(len(above), healing=HealingSettings(after_s=1.0, heal_s=20.0), links=links)
    story._addresses = [tuple(f"sim://b{other}" for other in above[number]) for number in above]
    return story.begin()


def _publish(story: Story, sender: ClientHost) -> list[int]:
    for x in range(1, 101):
        sender.publish({"x": x})
        story.run_for(0.1)
    story.wait(lambda: sender.idle)
    return list(range(1, 101))


@pytest.mark.parametrize("equal", [False, True])
def test_who_was_cut_off_in_the_middle_misses_nothing(equal: bool) -> None:
    """b0 - b1 - b2: b1 is cut off, and b2 goes round it. b0 has never heard what is wanted at b1; b2 tells
    it, also if somebody there wants the same."""
    story = Story(3, healing=HealingSettings(after_s=1.0, heal_s=20.0)).begin()
    sender, reader, beside = (
        story.publisher("sender", 2),
        story.client("reader", 1),
        story.client("beside", 2),
    )
    wanted = [story.subscribe(one, "x > 0") for one in ((reader, beside) if equal else (reader,))]
    story.wait(lambda: all(subscription.confirmed for subscription in wanted))
    story.wall(story.brokers[1], reader, seconds=6.0)
    published = _publish(story, sender)
    assert story.received(reader) == published
    assert not equal or story.received(beside) == published
    assert not story.judged()


def test_who_was_beside_and_comes_later_misses_nothing() -> None:
    """b1 dies, b2 comes to b0 at once, b3 seconds later: what is wanted at b3 only b2 had been told."""
    story = _around({0: (), 1: (0,), 2: (1,), 3: (1,)})
    sender, reader = story.publisher("sender", 2), story.client("reader", 3)
    wanted = story.subscribe(reader, "x > 0")
    story.wait(lambda: wanted.confirmed)
    story.wall(story.brokers[3], reader, seconds=6.0)
    story.crash(story.brokers[1])
    published = _publish(story, sender)
    assert story.received(reader) == published
    assert not story.judged()


def test_if_nobody_tells_what_was_told_both_miss_some() -> None:
    with mutated("healing-told-not-relayed"):
        with pytest.raises(AssertionError):
            test_who_was_cut_off_in_the_middle_misses_nothing(equal=False)
        with pytest.raises(AssertionError):
            test_who_was_beside_and_comes_later_misses_nothing()


def test_who_comes_in_the_place_of_two_gets_what_was_held_for_both() -> None:
    """b0 - b1 - b2 - b3: b2 dies, and b1 while b3 exchanges tables with it: what b2 was to have goes on."""
    story = _around({0: (), 1: (0,), 2: (1,), 3: (2,)})
    sender, reader = story.publisher("sender", 3), story.client("reader", 0)
    wanted = story.subscribe(reader, "x > 0")
    story.wait(lambda: wanted.confirmed)
    story.crash(story.brokers[2])
    sender.publish({"x": 1})
    story.wait(lambda: any(peer.name == "b1" and peer.link for peer in story.peers(3)))
    story.crash(story.brokers[1])
    for x in range(2, 101):
        sender.publish({"x": x})
        story.run_for(0.1)
    story.wait(lambda: sender.idle)
    assert story.received(reader) == list(range(1, 101))
    assert not story.judged()


def test_a_subscriber_is_confirmed_when_those_who_publish_are_back() -> None:
    """b1 dies. Below it b2, with the subscriber, comes to b0; b3, with the publisher, is cut off for a while:
    b0 knows of the publisher, and that nobody has told it."""
    story = _around({0: (), 1: (0,), 2: (1,), 3: (1,)})
    sender, reader = story.publisher("sender", 3), story.client("reader", 2)
    story.wall(story.brokers[3], sender, seconds=4.0)
    story.crash(story.brokers[1])
    story.run_for(0.5)
    wanted = story.subscribe(reader, "x > 0")
    for x in range(1, 101):
        sender.publish({"x": x})
        story.run_for(0.1)
        if not wanted.confirmed:
            missed = x
    story.wait(lambda: sender.idle)
    assert 30 <= missed < 60 and len(story.received(reader)) >= 99 - missed  # it hears of it a moment later
    assert not story.judged()


def test_confirmed_by_who_was_not_asked_it_misses_some() -> None:
    with mutated("healing-confirmed-unasked"), pytest.raises(AssertionError):
        test_a_subscriber_is_confirmed_when_those_who_publish_are_back()


def _crosswise() -> Story:
    """b1 is below b0 and b3 below b2; b0 is below b6 and b2 below b5, and these below b4. The three of them
    die. Then b0 is configured to join at b3 and b2 at b1, and both dial at once."""
    story = Story(7, healing=HealingSettings(after_s=1.0, heal_s=20.0))
    above = {0: (6,), 1: (0,), 2: (5,), 3: (2,), 4: (), 5: (4,), 6: (4,)}
    story._addresses = [tuple(f"sim://b{other}" for other in above[number]) for number in range(7)]
    NoCycle(story)
    story.begin()
    joins = {number: behaviour(story.cores()[number], Join) for number in (0, 2)}
    for join in joins.values():
        join.candidates = ()
    for broker in story.brokers[4:]:
        story.crash(broker)
    story.wait(lambda: len(story.peers(0)) == len(story.peers(2)) == 1)
    for number, other in ((0, 3), (2, 1)):
        joins[number].candidates = (f"sim://b{other}",)
        joins[number].try_again(story.brokers[number].clock())
        story.brokers[number].wake()
    return story


def test_a_root_whose_candidates_are_dead_takes_another_root() -> None:
    """b0 dies for good, and of those below it the one with the higher id restarts and knows nobody else: it
    dials b0 for ever, and is found by the other."""
    story = _around({0: (), 1: (0,), 2: (0,)})
    story.crash(story.brokers[0])
    high = max(story.brokers[1:], key=lambda broker: identify(broker.name))
    story.crash(high)
    high.start()
    story.run_for(1.2)  # nobody has answered
    join = behaviour(story.cores()[high is story.brokers[2]], Join)
    asks: list[bool] = []
    story.wait(lambda: asks.append(join.asks) is None and story.oracle.reach.is_tree(2), 30.0)
    assert not any(asks)


def test_two_roots_that_ask_in_each_others_half_become_one_tree() -> None:
    """Each would come below the other: the one that grants asks no more."""
    story = _crosswise()
    story.run_for(30.0)
    assert not story.oracle.violations
    assert story.oracle.reach.is_tree(4)


def test_a_root_that_grants_while_it_dials_makes_a_cycle() -> None:
    with mutated("healing-root-grants-while-dialling"), pytest.raises(AssertionError, match="on a cycle"):
        test_two_roots_that_ask_in_each_others_half_become_one_tree()
