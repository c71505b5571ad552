"""No cycle of edges, one change at a time, a tree in the end: all states of three brokers here, of four in
make proof."""

from __future__ import annotations

import pytest

from tests.model.join import RULES, explore, stuck


def test_no_cycle_with_all_rules() -> None:
    states, trail = explore(3, 3)
    assert trail is None and states > 4_000


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_missed(rule: str) -> None:
    """By a cycle, by two changes at once, or by a root that is never free again."""
    if rule == "lease":
        assert stuck(3, 2, (rule,))[1] is not None
    else:
        assert explore(4, 2, (rule,))[1] is not None


def test_one_tree_remains_within_reach() -> None:
    states, trapped = stuck(3, 3)
    assert trapped is None and states > 3_000
