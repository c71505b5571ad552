"""No cycle of edges, whatever breaks: all states of three brokers here, of four in make proof."""

from __future__ import annotations

import pytest

from tests.model.join import RULES, explore


def test_no_cycle_with_all_rules() -> None:
    states, trail = explore(3, 3)
    assert trail is None and states > 4_000


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_missed(rule: str) -> None:
    assert explore(4, 2, (rule,))[1] is not None
