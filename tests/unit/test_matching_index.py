"""The index answers as the scan does, whatever is added, removed and asked in whatever order.

The sizes at which a list becomes a store, a segment is split and a block is left are made small, so that
a few dozen filters go through all of them, with the compiled kernel (where there is one) and without.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from grapevine.filters.normal import EVERYTHING, NOTHING, Filter, Op, Predicate, Value
from matching import blocks, cuts, group, kernel, slotted
from matching.index import Index
from matching.scan import Scan
from tests import strategies

SIZES = {
    "as it is": {},
    "columns": {(group, "SHORT"): 1, (group, "COLUMNS"): 10_000},
    "columns in python": {(group, "SHORT"): 1, (group, "COLUMNS"): 10_000, (kernel, "module"): None},
    "blocks": {(group, "SHORT"): 1, (group, "COLUMNS"): 2, (cuts, "BOUNDS"): 1},
    "few segments": {
        (kernel, "module"): None,
        (group, "SHORT"): 1,
        (group, "COLUMNS"): 4,
        (cuts, "BOUNDS"): 1,
        (cuts, "MAX_CUTS"): 5,
        (slotted, "SOON"): 2,
        (slotted, "_CHUNK"): 16,
        (slotted, "_SAMPLE"): 20,
        (slotted, "_AT_ONCE"): 2,
        (slotted, "STAGED"): 3,
        (blocks, "_SMALL"): 0,
    },
}


def forms() -> st.SearchStrategy[Filter]:
    plain = st.lists(_numbers_and_names(), min_size=1, max_size=4, unique_by=lambda p: p.attribute)
    return st.one_of(
        strategies.filters(max_leaves=5),
        strategies.checked_filters(),
        plain.map(lambda found: Filter((tuple(sorted(found, key=lambda p: p.attribute)),))),
        st.sampled_from((EVERYTHING, NOTHING)),
    )


def _numbers_and_names() -> st.SearchStrategy[Predicate]:
    """What applications ask most: an equality here, a range of numbers there."""
    edge = st.integers(0, 12) | st.sampled_from((0.5, 2**53, 7.25))
    ranges = st.tuples(edge, edge).map(lambda pair: (min(pair), max(pair) + (pair[0] == pair[1])))
    return st.one_of(
        st.builds(lambda name, pair: Predicate(name, Op.RANGE, (*pair, False, True)), _short, ranges),
        st.builds(lambda name, low: Predicate(name, Op.RANGE, (low, None, True, False)), _short, edge),
        st.builds(lambda name, value: Predicate(name, Op.EQ, value), _short, st.integers(0, 2)),
        st.builds(lambda value: Predicate("b", Op.EQ, value), st.sampled_from(("x", "y", True))),
    )


_short = st.sampled_from(("a", "b", "c"))
_point = st.dictionaries(_short, st.integers(-1, 13) | st.sampled_from((0.5, 2**53 + 1, "x", "y", True)))


class Comparison(RuleBasedStateMachine):
    sizes: str

    @initialize()
    def start(self) -> None:
        self.patch = pytest.MonkeyPatch()
        for (module, name), value in SIZES[self.sizes].items():  # type: ignore[attr-defined]
            self.patch.setattr(module, name, value)
        self.index, self.scan = Index(), Scan()
        self.filters: dict[int, Filter] = {}
        self.next = 0

    def teardown(self) -> None:
        self.patch.undo()

    @rule(filter=forms(), group=st.integers(0, 5), label=st.none() | st.just(1 << 20))
    def add(self, filter: Filter, group: int, label: int | None) -> None:
        sid, self.next = self.next, self.next + 1
        label = label and label + sid
        self.index.add(sid, filter, group, label)
        self.scan.add(sid, filter, group, label)
        self.filters[sid] = filter

    @rule(filters=st.lists(forms(), min_size=3, max_size=12), group=st.integers(0, 2))
    def add_many(self, filters: list[Filter], group: int) -> None:
        for filter in filters:
            self.add(filter, group, None)

    @rule(data=st.data(), count=st.integers(1, 6))
    def remove(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.filters))):
            sid = data.draw(st.sampled_from(list(self.filters)))
            del self.filters[sid]
            self.index.remove(sid)
            self.scan.remove(sid)

    @rule(data=st.data())
    def match_one_that_is_there(self, data: st.DataObject) -> None:
        known = list(self.filters.values()) or [EVERYTHING]
        self.compare_match(data.draw(strategies.attributes_for(data.draw(st.sampled_from(known)))))

    @rule(attributes=_point | strategies.attributes())
    def match(self, attributes: dict[str, Value]) -> None:
        self.compare_match(attributes)

    def compare_match(self, attributes: dict[str, Value]) -> None:
        expected = self.scan.match(attributes)
        assert sorted(self.index.match(attributes)) == expected
        assert self.index.groups(attributes) == self.scan.groups(attributes)
        assert _by_label(self.index.deliveries(attributes)) == _by_label(self.scan.deliveries(attributes))
        assert self.index.explain(attributes).sids == expected

    @rule(data=st.data(), filter=forms())
    def relate(self, data: st.DataObject, filter: Filter) -> None:
        for form in (filter, data.draw(st.sampled_from(list(self.filters.values()) or [filter]))):
            assert self.index.covering(form) == self.scan.covering(form)
            assert self.index.covered(form) == self.scan.covered(form)
            assert self.index.overlapping(form) == self.scan.overlapping(form)

    @rule(budget=st.integers(1, 50))
    def work(self, budget: int) -> None:
        self.index.work(budget)

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "index"):
            assert len(self.index) == len(self.scan) == self.index.statistics().subscriptions


def _by_label(found: list[tuple[int, bytes]]) -> list[tuple[int, list[bytes]]]:
    return [(group, sorted(row[i : i + 4] for i in range(0, len(row), 4))) for group, row in found]


def _case(name: str) -> Any:
    machine = type(name, (Comparison,), {"sizes": name})
    case = machine.TestCase
    case.settings = settings(
        max_examples=400 if os.environ.get("GRAPEVINE_PROOF") else 25,
        stateful_step_count=25,
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    return case


TestAsItIs = _case("as it is")
TestColumns = _case("columns")
TestColumnsInPython = _case("columns in python")
TestBlocks = _case("blocks")
TestFewSegments = _case("few segments")


def test_an_index_emptied_keeps_nothing() -> None:
    index = Index()
    for sid in range(200):
        index.add(sid, Filter(((Predicate("a", Op.RANGE, (sid, sid + 50, False, False)),),)), sid % 7)
    for sid in range(200):
        index.remove(sid)
    assert index.match({"a": 100}) == []
    assert index.statistics().keys == 0
    assert not index._keys.accesses and not index._members


def test_a_disjunction_does_not_reorder_what_others_match() -> None:
    """What one conjunction finds is listed as found: only filters with several are made distinct."""
    sids, index = [(7919 * i) % 100_003 for i in range(3000)], Index()
    for sid in sids:
        index.add(sid, Filter(((Predicate("a", Op.RANGE, (0, 10 + sid % 5, False, False)),),)), sid % 3)
    found, groups = index.match({"a": 5}), index.deliveries({"a": 5})
    assert sorted(found) == sorted(sids) and found != list(set(found))
    several = Filter(((Predicate("a", Op.EQ, 6),), (Predicate("a", Op.RANGE, (6, 7, False, False)),)))
    index.add(200_000, several, 1)
    assert index.match({"a": 5}) == found and index.deliveries({"a": 5}) == groups
    assert index.match({"a": 6}).count(200_000) == 1
    assert sum(len(row) for _, row in index.deliveries({"a": 6})) == 4 * 3001
    index.remove(200_000)
    assert index.match({"a": 6}) == found
