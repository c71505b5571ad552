"""How much work a match does, counted and not timed, and how much an index holds."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tracemalloc
from itertools import islice
from pathlib import Path
from random import Random
from timeit import timeit

import pytest

from bench.matching_strangers import strangers
from bench.matching_workloads import workload
from grapevine.filters import limits, parse
from grapevine.filters.checking import check
from grapevine.filters.normal import Filter, Op, Predicate, predicate_key
from matching.check import satisfied
from matching.group import SHORT, warm_up
from matching.index import Index


def filled(filters: list[Filter], groups: int = 1) -> Index:
    index = Index()
    for sid, filter in enumerate(filters):
        index.add(sid, filter, sid % groups)
    return index


def test_one_equality_is_looked_up_and_the_rest_is_left_alone() -> None:
    filters, points = workload("quotes", 5_000, 50, None)
    index = filled(filters)
    for point in points:
        explanation = index.explain(point)
        asked = sum(step.rows for step in explanation.steps)
        same_symbol = sum(Predicate("symbol", Op.EQ, point["symbol"]) in f.conjunctions[0] for f in filters)
        assert asked <= same_symbol + SHORT


def test_bits_leave_few_candidates_to_check() -> None:
    filters, points = workload("bluedove", 4_000, 200, None)
    index = filled(filters)
    found = sum(len(index.match(point)) for point in points)
    left = sum(step.candidates for point in points for step in index.explain(point).steps)
    assert found < left < 1.5 * found + 5 * len(points)


def test_ten_thousand_attributes_are_not_asked_about() -> None:
    index = filled([parse(f"common > {i % 10} and own{i} > 5") for i in range(10_000)])
    explanation = index.explain({"common": 100, "own7": 6})
    assert explanation.sids == [7]
    assert explanation.checked < 300


def test_a_thousand_disjuncts_are_refused_by_the_language() -> None:
    with pytest.raises(ValueError, match="conjunctions"):
        parse(" or ".join(f"(a{i} > 1 and b{i} < 2)" for i in range(1000)))


@pytest.mark.parametrize("kind", list(strangers()))
def test_a_strangers_largest_filter_costs_bounded_work(kind: str) -> None:
    filter, point = strangers()[kind]
    index = filled(workload("bluedove", 500, 1, None)[0])
    before = index.explain(point).checked
    index.add(-1, filter, 0)
    rows = index.statistics().rows
    assert rows <= 500 + limits.CONJUNCTIONS * 16
    assert index.explain(point).checked - before <= limits.CONJUNCTIONS
    index.remove(-1)
    assert index.statistics().rows == 500


@pytest.mark.parametrize("kind", list(strangers()))
def test_strangers_filters_are_within_the_limits(kind: str) -> None:
    forms = [tuple(sorted(form, key=predicate_key)) for form in strangers()[kind][0].conjunctions]
    check(Filter(tuple(sorted(forms, key=lambda form: tuple(map(predicate_key, form))))))


def test_a_search_takes_time_with_the_sum_of_two_strings() -> None:
    part, text = "a" * 90 + "b" + "a" * 8, "a" * limits.ATTRIBUTE_CHARS
    predicates = (Predicate("s", Op.NOT_CONTAINS, part),)
    quick = min(timeit(lambda: satisfied(predicates, {"s": text}), number=10) for _ in range(5))
    plain = min(timeit(lambda: part in text, number=10) for _ in range(5))
    assert quick < plain / 3


def test_a_small_index_is_a_few_kilobytes_without_arrays() -> None:
    filters = workload("quotes", 20, 1, None)[0]
    warm_up()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    indexes = [filled(filters) for _ in range(100)]
    used = (tracemalloc.get_traced_memory()[0] - before) / len(indexes)
    empty = [Index() for _ in range(100)]
    alone = (tracemalloc.get_traced_memory()[0] - before) / len(empty) - used
    tracemalloc.stop()
    assert all(index.statistics().stores == 0 for index in indexes)
    assert used < 20 * 700 and alone < 1500


def test_memory_of_a_subscription() -> None:
    filters = workload("bluedove", 10_000, 1, None)[0]
    sids = list(range(len(filters)))
    warm_up()
    tracemalloc.start()
    index = Index()
    for sid in sids:
        index.add(sid, filters[sid], 0)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used / len(filters) <= 450  # 400 at 40,000; the last step of growth weighs more here


def test_churn_leaves_a_small_index_after_a_large_one() -> None:
    filters = workload("bluedove", 6_000, 1, None)[0]
    index = filled(filters)
    large = index.statistics().store_bytes
    order = list(range(len(filters)))
    Random(1).shuffle(order)
    for sid in order[300:]:
        index.remove(sid)
    while index.work(100):
        pass
    assert index.statistics().store_bytes < large / 3
    point = {f"d{i}": 500.0 for i in range(4)}
    assert index.match(point) == sorted(sid for sid in order[:300] if _inside(filters[sid], point))


def _inside(filter: Filter, point: dict[str, float]) -> bool:
    bounds = ((point[p.attribute], *p.operand) for p in filter.conjunctions[0])  # type: ignore[misc]
    return all(low <= value <= high for value, low, high, _, _ in bounds)


def test_one_history_gives_one_answer_under_any_hash_seed() -> None:
    script = (
        "import hashlib; from bench.matching_workloads import workload; from matching.index import Index\n"
        "index = Index(); digest = hashlib.sha256()\n"
        "filters, points = workload('quotes', 2000, 100, None)\n"
        "for sid, f in enumerate(filters): index.add(sid, f, sid % 9)\n"
        "for sid in range(0, 2000, 3): index.remove(sid)\n"
        "say = lambda *found: digest.update(repr(found).encode())\n"
        "for p in points: say(index.match(p), index.groups(p), index.deliveries(p))\n"
        "for f in filters[:50]: say(index.covering(f), index.covered(f), index.overlapping(f))\n"
        "print(digest.hexdigest(), index.statistics())"
    )
    root = Path(__file__).parents[2]
    answers = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}:{root / 'client'}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(answers) == 1


@pytest.mark.parametrize("count", [1_000, 10_000, 40_000])
def test_counts_of_real_quotes(count: int) -> None:
    folder = Path(os.environ.get("GRAPEVINE_DATA", "")) / "quotes_lowsel"
    if not os.environ.get("GRAPEVINE_DATA") or not folder.is_dir():
        pytest.skip("GRAPEVINE_DATA names no directory with quotes_lowsel")
    publications = 20_000 if os.environ.get("GRAPEVINE_PROOF") else 2_000
    filters, points = workload("quotes", count, publications, folder.parent)
    index = filled(filters, groups=100)
    with gzip.open(folder / "expected_lowsel.jsonl.gz", "rt") as lines:
        expected = [json.loads(line)[f"n{count}"] for line in islice(lines, publications)]
    assert [len(index.match(point)) for point in points] == expected
    assert [sum(len(row) for _, row in index.deliveries(point)) // 4 for point in points] == expected
