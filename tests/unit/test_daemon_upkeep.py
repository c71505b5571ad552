"""The daemon gives its indexes their turns until nothing is left."""

from __future__ import annotations

from daemon.upkeep import LATER_S, SOON_S, Upkeep
from grapevine.filters.normal import Filter, Op, Predicate


def test_what_was_put_off_is_done_in_turns() -> None:
    upkeep = Upkeep()
    index = upkeep.index()
    assert upkeep(10.0) == 10.0 + LATER_S
    for sid in range(3000):
        bounds = (float(sid), sid + 50.0, False, False)
        index.add(sid, Filter(((Predicate("a", Op.RANGE, bounds),),)), 0)
    now, turns = 20.0, 0
    while (due := upkeep(now)) == now + SOON_S:
        now, turns = due, turns + 1
        assert turns < 100
    assert turns > 0 and due == now + LATER_S
    assert sorted(index.match({"a": 100.0})) == list(range(50, 101))
