"""What the simulator takes for a way between two brokers."""

from __future__ import annotations

from tools.simulator.reach import Reach

FORMER, BETWEEN, NEW, MOVER, CHILD = range(5)


def ring() -> Reach:
    """The mover has a child, and both its parents, which the path connects."""
    reach = Reach()
    links = [(FORMER, BETWEEN), (BETWEEN, NEW), (FORMER, MOVER), (MOVER, NEW), (MOVER, CHILD)]
    for broker in range(5):
        reach.observe(broker, frozenset(a + b - broker for a, b in links if broker in (a, b)))
    return reach


def test_nothing_passes_a_broker_that_moves_from_one_parent_to_the_other() -> None:
    reach = ring()
    reach.moves(MOVER, FORMER, NEW)
    assert reach.path(BETWEEN, NEW) == ((BETWEEN, NEW),) and reach.held_with(FORMER) == 0b11111
    reach.lose(1.0, BETWEEN, NEW)
    assert reach.path(BETWEEN, NEW) is None and reach.path(NEW, FORMER) is None
    assert reach.held_with(FORMER) == 1 << FORMER | 1 << BETWEEN | 1 << MOVER | 1 << CHILD
    assert reach.held_with(NEW) == 1 << NEW | 1 << MOVER | 1 << CHILD
    assert reach.held_with(CHILD) == 0b11111, "either parent may have something for those below"


def test_a_broker_that_has_moved_and_comes_back_is_passed_again() -> None:
    reach = ring()
    reach.moves(MOVER, FORMER, NEW)
    reach.drop(FORMER, MOVER)
    assert not reach.parents
    reach.observe(MOVER, frozenset((NEW, CHILD)))
    reach.observe(MOVER, frozenset((FORMER, NEW, CHILD)))
    reach.lose(1.0, BETWEEN, NEW)
    assert reach.path(FORMER, NEW) == ((NEW, MOVER), (FORMER, MOVER))
