"""Brokers of the last protocol among those of this one: they are never sent what they do not know."""

from __future__ import annotations

from random import Random

import pytest

from grapevine.wire.mesh import Loads
from grapevine.wire.messages import PROTOCOL
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate
from tools.simulator.versions import LAST, counted_as_new, protocols


@pytest.mark.parametrize("seed", range(4))
def test_two_versions_in_one_overlay(seed: int) -> None:
    result = simulate(find("mixed-versions"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.owed > 0 and sum(result.faults.values()) > 0


def test_what_is_newer_and_sent_is_seen() -> None:
    result = simulate(find("mixed-versions"), "newer-sent", None, 0)
    assert any("speaks protocol 2, was sent Loads" in violation for violation in result.violations)


def test_two_thirds_are_older() -> None:
    drawn = protocols(9, find("mixed-versions").brokers.older, Random(1))
    assert sorted(drawn) == [LAST] * 6 + [PROTOCOL] * 3
    assert protocols(9, 0.0, Random(1)) == [PROTOCOL] * 9


def test_a_message_is_new_for_the_length_of_a_run() -> None:
    gate = Loads.gate
    with counted_as_new(("Loads",)):
        assert Loads.gate.since == PROTOCOL > gate.since
    assert Loads.gate == gate
