"""The measurements of the matching bench. Engines take turns within a round, so that a busy minute of the
machine hits all of them; each number is the median over the rounds. Times are processor time of the one
thread that works, so that what other programs take away is not counted (what they do to the caches is).
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from statistics import fmean, median
from time import perf_counter_ns, thread_time_ns
from typing import Any

from bench.matching_engines import ENGINES, Engine, Ours
from bench.matching_workloads import WORKLOADS, Attributes, workload
from grapevine.filters import limits
from grapevine.filters.normal import Filter, Op, Predicate, Value
from matching.group import warm_up
from matching.index import Index

Row = dict[str, Any]
Reading = tuple[float, float, float]  # mean, p50, p99 in microseconds
ROUNDS = 5
PUBLICATIONS = 1000
BUDGET_NS = 2_000_000_000  # for one engine in one round


def match(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    filters, points = workload(name, subscriptions, PUBLICATIONS, data)
    engines: dict[str, Engine] = {}
    rows: dict[str, Row] = {}
    for engine_name, make in ENGINES.items():
        say(f"{engine_name}: loading {subscriptions:,}")
        engine = engines[engine_name] = make()
        insert_us = _fill(engine, filters)
        rows[engine_name] = {
            "engine": engine_name,
            "workload": name,
            "subs": subscriptions,
            "insert_us": insert_us,
        }
    _agree(engines, points[:100])
    _rounds(engines, points, rows)
    for engine_name, engine in engines.items():
        rows[engine_name] |= _changes(engine, filters)
        rows[engine_name]["bytes_per_sub"] = _bytes(engine_name, filters)
    return [_ordered(row) for row in rows.values()]


def _fill(engine: Engine, filters: list[Filter]) -> float | None:
    """Mean time of an insert while the engine grows; the trees are loaded in bulk and measured later."""
    _quiet()
    began = thread_time_ns()
    engine.fill(filters)
    spent = (thread_time_ns() - began) / 1e3 / len(filters)
    return spent if isinstance(engine, Ours) else None


def _agree(engines: dict[str, Engine], points: list[Attributes]) -> None:
    for point in points[: 20 if len(points) > 20 else None]:
        found = {name: sorted(engine.match(point)) for name, engine in engines.items()}
        assert all(one == found["scan"] for one in found.values()), f"engines differ on {point}"


def _rounds(engines: dict[str, Engine], points: list[Attributes], rows: dict[str, Row]) -> None:
    readings: dict[str, list[Reading]] = {name: [] for name in engines}
    for number in range(ROUNDS):
        say(f"round {number + 1} of {ROUNDS}")
        for name, engine in engines.items():
            readings[name].append(timed(engine.match, points))
    for name, found in readings.items():
        for place, metric in enumerate(("mean_us", "p50_us", "p99_us")):
            rows[name][metric] = median(reading[place] for reading in found)


def timed(
    function: Callable[[Attributes], object], points: Iterable[Attributes]
) -> tuple[float, float, float]:
    """(mean, p50, p99) in microseconds; stops early when the budget is used up."""
    spent: list[int] = []
    ends = perf_counter_ns() + BUDGET_NS
    _quiet()
    for point in points:
        began = thread_time_ns()
        function(point)
        spent.append(thread_time_ns() - began)
        if perf_counter_ns() > ends:
            break
    spent.sort()
    return fmean(spent) / 1e3, spent[len(spent) // 2] / 1e3, spent[len(spent) * 99 // 100] / 1e3


def _changes(engine: Engine, filters: list[Filter]) -> Row:
    chosen = Random(2).sample(range(len(filters)), min(1000, len(filters)))
    removed = _each(lambda sid: engine.remove(sid, filters[sid]), chosen)
    added = _each(lambda sid: engine.add(sid, filters[sid]), chosen)
    grown = {} if isinstance(engine, Ours) else {"insert_us": added}
    return {"remove_us": removed, "reinsert_us": added} | grown


def _each(function: Callable[[int], None], sids: list[int]) -> float:
    _quiet()
    began = thread_time_ns()
    for sid in sids:
        function(sid)
    return (thread_time_ns() - began) / 1e3 / len(sids)


def _bytes(engine_name: str, filters: list[Filter]) -> float | None:
    """What Python hands out for the index alone: not the filters, nor the sids, which the caller has. The
    trees allocate behind its back."""
    if engine_name not in ("grapevine", "grapevine-python", "scan"):
        return None
    return bytes_of(ENGINES[engine_name], filters) / len(filters)


def bytes_of(make: Callable[[], Engine], filters: list[Filter]) -> int:
    sids = list(range(len(filters)))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    engine = make()
    for sid in sids:
        engine.add(sid, filters[sid])
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used


def _ordered(row: Row) -> Row:
    names = (
        "engine",
        "workload",
        "subs",
        "mean_us",
        "p50_us",
        "p99_us",
        "insert_us",
        "remove_us",
        "bytes_per_sub",
    )
    return {name: row[name] for name in names} | row


def growth(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    rows = []
    for kind in WORKLOADS:
        size = 1000
        while size <= subscriptions:
            say(f"{kind}: {size:,}")
            rows.append(_grown(kind, size, data))
            size *= (
                10 if size * 10 <= subscriptions or size == subscriptions else max(2, subscriptions // size)
            )
    return rows


def _grown(kind: str, size: int, data: Path | None) -> Row:
    filters, points = workload(kind, size, 500, data)
    engine = Ours()
    _quiet()
    longest = total = 0
    for sid, filter in enumerate(filters):
        began = thread_time_ns()
        engine.add(sid, filter)
        spent = thread_time_ns() - began
        total += spent
        longest = max(longest, spent)
    found = sum(len(engine.match(point)) for point in points) / len(points)
    mean, p50, p99 = (median(column) for column in zip(*(timed(engine.match, points) for _ in range(3))))
    return {
        "workload": kind,
        "subs": size,
        "matches": found,
        "mean_us": mean,
        "p50_us": p50,
        "p99_us": p99,
        "insert_us": total / size / 1e3,
        "insert_max_us": longest / 1e3,
    }


def churn(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    changes = 100_000
    filters, points = workload(name, 2 * subscriptions, PUBLICATIONS, data)
    churned, live = _churned(filters, subscriptions, changes)
    rest = [filters[sid] for sid in sorted(live)]
    fresh = Ours()
    fresh.fill(rest)
    readings: dict[str, list[Reading]] = {"fresh": [], "churned": []}
    for _ in range(ROUNDS):
        for kind, engine in (("fresh", fresh), ("churned", churned)):
            readings[kind].append(timed(engine.match, points))
    sizes = {"fresh": bytes_of(Ours, rest), "churned": _churned_bytes(filters, subscriptions, changes)}
    return [
        {
            "index": kind,
            "workload": name,
            "subs": len(rest),
            "mean_us": median(one[0] for one in found),
            "p50_us": median(one[1] for one in found),
            "p99_us": median(one[2] for one in found),
            "bytes_per_sub": sizes[kind] / len(rest),
        }
        for kind, found in readings.items()
    ]


def _churned(filters: list[Filter], subscriptions: int, changes: int) -> tuple[Ours, list[int]]:
    """Random inserts and removes, in equal number, out of twice as many filters as are in."""
    random = Random(3)
    engine = Ours()
    live, out = list(range(subscriptions)), list(range(subscriptions, len(filters)))
    for sid in live:
        engine.add(sid, filters[sid])
    for change in range(changes):
        source, target = (live, out) if change % 2 == 0 else (out, live)
        place = random.randrange(len(source))
        source[place], source[-1] = source[-1], source[place]
        sid = source.pop()
        target.append(sid)
        if change % 2 == 0:
            engine.remove(sid, filters[sid])
        else:
            engine.add(sid, filters[sid])
    return engine, live


def _churned_bytes(filters: list[Filter], subscriptions: int, changes: int) -> int:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    engine, live = _churned(filters, subscriptions, changes)
    lists = sys.getsizeof(live) + 8 * subscriptions + 32 * 2 * subscriptions  # the harness's own
    used = tracemalloc.get_traced_memory()[0] - before - lists
    tracemalloc.stop()
    assert len(engine.index) == len(live)
    return used


def anchors(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    filters, points = workload(name, subscriptions, PUBLICATIONS, data)
    engine = Ours(groups=45)
    engine.fill(filters)
    return _methods(
        engine.index, ("match", "groups"), points, {"workload": name, "subs": subscriptions, "anchors": 45}
    )


def deliveries(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    filters, points = workload(name, subscriptions, PUBLICATIONS, data)
    rows = []
    for clients in (1, 100):
        engine = Ours(groups=clients)
        engine.fill(filters)
        for point in points:
            engine.index.deliveries(point)  # rows are sorted by client when they have come to rest
        known = {"workload": name, "subs": subscriptions, "clients": clients}
        rows += _methods(engine.index, ("deliveries",), points, known)
    return rows


def _methods(index: Any, names: tuple[str, ...], points: list[Attributes], known: Row) -> list[Row]:
    readings: dict[str, list[Reading]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name in names:
            readings[name].append(timed(getattr(index, name), points))
    return [
        known
        | {
            "question": name,
            "mean_us": median(one[0] for one in found),
            "p50_us": median(one[1] for one in found),
            "p99_us": median(one[2] for one in found),
        }
        for name, found in readings.items()
    ]


def adversarial(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    """What one filter adds to a match of the publication that is worst for it."""
    filters, _ = workload(name, subscriptions, 1, data)
    engine = Ours()
    engine.fill(filters)
    rows = []
    for kind, (filter, point) in strangers().items():
        without = median(timed(engine.match, [point] * 200)[1] for _ in range(ROUNDS))
        began = thread_time_ns()
        engine.add(-1, filter)
        added_us = (thread_time_ns() - began) / 1e3
        with_it = median(timed(engine.match, [point] * 200)[1] for _ in range(ROUNDS))
        engine.remove(-1, filter)
        known = {"filter": kind, "conjunctions": len(filter.conjunctions), "insert_us": added_us}
        rows.append(known | {"p50_us_without": without, "p50_us_with": with_it, "cost_us": with_it - without})
    return rows


def strangers() -> dict[str, tuple[Filter, dict[str, Value]]]:
    """The largest filters that the language's limits let through, each with a publication that suits it."""
    most = limits.CONJUNCTIONS
    text = "a" * (limits.ATTRIBUTE_CHARS - 1)
    needles = [f"{'a' * (20 + i % 4)}b{'a' * (i // 4)}" for i in range(28)]
    late = "".join(f"aa{chr(98 + i % 24)}{chr(98 + i // 24)}" for i in range(26))
    found = [
        tuple(Predicate("s", Op.CONTAINS, late[4 * i : 4 * i + 4]) for i in range(start, start + 13))
        for start in (0, 13)
    ]
    return {
        "64 disjuncts of ranges": (
            Filter(tuple((Predicate("d0", Op.RANGE, (i, i + 500, False, False)),) for i in range(most))),
            {"d0": 300.0},
        ),
        "64 disjuncts on 64 attributes each its own": (
            Filter(tuple((Predicate(f"own{i}", Op.EXISTS),) for i in range(most))),
            {f"own{i}": i for i in range(most)},
        ),
        "28 searches in a text made for them": (
            Filter(tuple((Predicate("s", Op.CONTAINS, needle),) for needle in needles)),
            {"s": text},
        ),
        "26 searches that succeed at the end": (
            Filter(tuple((*row, Predicate("t", Op.EXISTS)) for row in found)),
            {"s": text[: -len(late)] + late},
        ),
        "256 values of an in": (
            Filter(((Predicate("d0", Op.IN, tuple(float(i) for i in range(limits.IN_VALUES))),),)),
            {"d0": 255.0},
        ),
        "the largest integers": (
            Filter(((Predicate("n", Op.RANGE, (limits.INT_MIN, limits.INT_MAX, False, False)),),)),
            {"n": limits.INT_MAX},
        ),
        "64 circles": (
            Filter(tuple((Predicate("lat", Op.IN_CIRCLE, ("lon", 0.0, i, 9000)),) for i in range(most))),
            {"lat": 1.0, "lon": -170.0},
        ),
    }


def _quiet() -> None:
    gc.collect()
    gc.freeze()


def say(text: str) -> None:
    print(text, file=sys.stderr)


warm_up()
__all__ = ["Index", "adversarial", "anchors", "churn", "deliveries", "growth", "match"]
