"""A share of the ring's seeds: everything once and in order for each publisher and topic, and a mistake that
must be seen. A seed that fails here prints its own command line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


@pytest.mark.parametrize("seed", range(3))
def test_a_ring_on_the_best_of_days(seed: int) -> None:
    result = simulate(find("chord-calm"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.owed > 0


# 1 a resent publication that was overtaken on another lane; 25 a broker that restarted behind one that left;
# 36 somebody who came between a leaver and its successor; 55 what was gathered to rebuild a root; 6, 10 a
# founder that did not hear that the ring had begun.
@pytest.mark.parametrize("seed", [0, 1, 2, 6, 10, 25, 36, 55])
def test_a_ring_under_faults(seed: int) -> None:
    result = simulate(find("chord-quick"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.owed > 0 and sum(result.faults.values()) > 0


def test_a_root_whose_successors_are_all_new_is_found_in_a_copy_further_behind() -> None:
    """Four brokers had come behind a root that died before it had copied to them; it was rebuilt."""
    result = simulate(find("chord-reconfigure"), "", None, 34)
    assert result.ok, [result.replay(), *result.violations]


# 17: what a publisher had sent again settled between its stand-in's.
@pytest.mark.parametrize("seed", [6, 17])
def test_durable_publications_on_a_ring(seed: int) -> None:
    result = simulate(find("chord-durable"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.faults["publisher and broker"] > 0


def test_who_cannot_be_heard_for_a_while_is_owed_all_the_same() -> None:
    """A root forgot members behind a slow link before that link was given up, and settled without them."""
    result = simulate(find("chord-links"), "", None, 3)
    assert result.ok, [result.replay(), *result.violations]


def test_a_ring_with_links_to_its_roots() -> None:
    result = simulate(find("chord-direct"), "", None, 1)
    assert result.ok, [result.replay(), *result.violations]


def test_links_to_roots_make_ways_short() -> None:
    calm = find("chord-calm")
    direct = replace(calm, chord=replace(calm.chord, direct=True, base=16))
    hops = [simulate(scenario, "", None, 2).messages for scenario in (calm, direct)]
    assert hops[1] < hops[0]


# Each with a scenario that has what it takes: routes that change under publications, windows of a few, roots
# that die.
@pytest.mark.parametrize(
    ("mutant", "scenario", "seed"),
    [
        ("ring-lost-not-resent", "chord-quick", 0),
        ("ring-way-not-settled", "chord-turns", 2),
        ("ring-one-lane", "chord-lanes", 2),
        ("ring-founding-told-once", "chord-quick", 6),
        ("ring-root-without-copy", "chord-quick", 0),
    ],
)
def test_a_mistake_is_seen(mutant: str, scenario: str, seed: int) -> None:
    assert not simulate(find(scenario), mutant, None, seed).ok
