"""Scratch buffers say of slots what comparing their cells one by one says, for every width and number."""

from __future__ import annotations

import numpy as np
import pytest

from matching.scratch import ROWS, scratch


@pytest.mark.parametrize("width", [0, 2, 4, 6, 8, 12, 16])
@pytest.mark.parametrize("count", [0, 1, 7, ROWS, ROWS + 1, 1000])
def test_below(width: int, count: int) -> None:
    random = np.random.default_rng(width * 10_000 + count)
    table = random.integers(0, 20, (500, width)).astype(np.float64)
    slots = random.integers(0, 500, count)
    point = np.full(width, 18.0)
    expected = [all(cell <= 18 for cell in table[slot]) for slot in slots]
    assert scratch(width).below(table, slots, point.tobytes()).tolist() == expected
    if width and count > ROWS:
        assert 0 < sum(expected) < count


def test_one_cell_above_is_enough_wherever_it_is() -> None:
    table = np.zeros((9, 8)) + 8 * np.eye(9, 8)
    assert scratch(8).below(table, np.arange(9), np.ones(8).tobytes()).tolist() == [False] * 8 + [True]
