"""A move's steps at one broker: only forward, one at a time."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from overlay.softlinks.move_state import MoveState, Step

STEPS = list(Step)
FORWARD = set(pairwise(STEPS))


@pytest.mark.parametrize(("step", "next"), product(STEPS, STEPS))
def test_a_step_follows_the_one_before_it_alone(step: Step, next: Step) -> None:
    state = MoveState((1, 1, 1), (1, 2, 3), 1)
    state.step = step
    if (step, next) in FORWARD:
        state.enter(next)
        assert state.step is next
    else:
        with pytest.raises(AssertionError, match=f"{step.value} to {next.value}"):
            state.enter(next)


def test_the_first_on_the_path_waits_for_nobody_behind_it() -> None:
    for place, through in ((0, False), (1, True), (2, False)):
        state = MoveState((1, 1, 1), (1, 2, 3), place)
        state.step = Step.SWITCHED
        assert state.through is through
