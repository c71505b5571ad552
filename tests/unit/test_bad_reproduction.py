"""BAD's workloads are of the paper's size, and rounds over them do what their figures plot."""

from __future__ import annotations

import numpy as np
import pytest

from overlay.coordinate.plan import Thresholds
from tools.reproduce.bad_prototype import BROKERS, SUBSCRIBERS, Prototype
from tools.reproduce.bad_rounds import CHECK_S, DURATION_S, Policy, run

ALWAYS = Thresholds(0.15, 50e3, 0.5, 50e3)


@pytest.fixture(scope="module")
def prototype() -> Prototype:
    return Prototype(1, None)


def test_the_test_bed_has_the_papers_size(prototype: Prototype) -> None:
    """6.1.2: around 600 back-end and 2,200 front-end subscriptions."""
    assert 500 < len(prototype.sets) < 700
    assert 1900 < len(prototype.wanted) < 2500
    assert len(prototype.rates()) == DURATION_S // CHECK_S
    assert set(prototype.placed("NR")) == set(range(BROKERS))
    assert np.bincount(prototype.placed("RR")).tolist() == [SUBSCRIBERS // BROKERS] * BROKERS


def test_balancing_lowers_what_it_is_to_lower(prototype: Prototype) -> None:
    none = run(prototype, "NR", Policy())
    ldm = run(prototype, "NR", Policy("LDM", False, ALWAYS))
    assert none.moves.sum() == 0 < ldm.moves.sum()
    assert ldm.cov(170) < none.cov(170)
    assert ldm.ended.sum() == SUBSCRIBERS
