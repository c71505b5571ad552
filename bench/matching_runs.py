"""The measurements of the matching bench, one function for each mode."""

from __future__ import annotations

import gc
import pickle
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from bench.matching_engines import ENGINES, Engine, Ours, without_kernel
from bench.matching_strangers import strangers
from bench.matching_timing import changes_us, longest_us, measured, say
from bench.matching_workloads import WORKLOADS, workload
from grapevine.filters.normal import Filter
from matching.group import warm_up

Row = dict[str, Any]
PUBLICATIONS = 1000
MEASURED_PAUSES = 100_000  # subscriptions; above, the longest insert is not looked for


def match(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    filters, points = workload(name, subscriptions, PUBLICATIONS, data)
    engines: dict[str, Engine] = {}
    inserts: dict[str, float] = {}
    for kind, make in ENGINES.items():
        say(f"{kind}: loading {subscriptions:,}")
        engine = engines[kind] = make()
        inserts[kind] = changes_us(engine.fill, [filters]) / len(filters)
    for point in points[:20]:
        found = {kind: sorted(engine.match(point)) for kind, engine in engines.items()}
        assert all(one == found["scan"] for one in found.values()), f"engines differ on {point}"
    functions = {kind: engine.match for kind, engine in engines.items()}
    times = measured(functions, points, {"grapevine-python": without_kernel})
    rows = []
    for kind, engine in engines.items():
        row = {"engine": kind, "workload": name, "subs": subscriptions} | times[kind]
        row |= {"insert_us": inserts[kind]} | _changes(engine, filters)
        row["bytes_per_sub"] = _bytes(kind, filters)
        row["rtree_mean_x"] = times["rtree"]["best_mean_us"] / times[kind]["best_mean_us"]
        row["rtree_p50_x"] = times["rtree"]["best_p50_us"] / times[kind]["best_p50_us"]
        rows.append(row)
    return rows


def _changes(engine: Engine, filters: list[Filter]) -> Row:
    """Some leave and come again, into free places, as a filter comes: made a moment ago. A tree is loaded in
    bulk and inserts only these."""
    ours = isinstance(engine, Ours)
    chosen = Random(2).sample(range(len(filters)), min(10_000 if ours else 1000, len(filters)))
    removed = changes_us(lambda sid: engine.remove(sid, filters[sid]), chosen)
    made: list[Filter] = pickle.loads(pickle.dumps([filters[sid] for sid in chosen]))
    added = changes_us(lambda change: engine.add(*change), zip(chosen, made))
    return {"remove_us": removed, "reinsert_us" if ours else "insert_us": added}


def _bytes(kind: str, filters: list[Filter]) -> float | None:
    """What Python hands out for the index alone: not the filters, nor the sids, which the caller has. The
    trees allocate behind its back."""
    if kind not in ("grapevine", "grapevine-python", "scan"):
        return None
    return _bytes_of(ENGINES[kind], filters) / len(filters)


def _bytes_of(make: Callable[[], Engine], filters: list[Filter]) -> int:
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


def growth(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    """On all workloads, in steps of ten.

    `slope_us` is what a match costs beyond its share, for each thousand subscriptions. Its share is the cost
    at a tenth of the size, times the matches there are for one there."""
    rows: list[Row] = []
    for kind in WORKLOADS:
        size = 1000
        while size <= subscriptions:
            say(f"{kind}: {size:,}")
            row = _grown(kind, size, data)
            before = rows[-1] if size > 1000 else row
            share = before["best_mean_us"] * max(1, row["matches"] / before["matches"])
            rows.append(row | {"slope_us": (row["best_mean_us"] - share) / (size / 1000)})
            size *= 10
    return rows


def _grown(kind: str, size: int, data: Path | None) -> Row:
    filters, points = workload(kind, size, 500, data)
    engine = Ours()
    insert_us = changes_us(engine.fill, [filters]) / size
    matches = sum(len(engine.match(point)) for point in points) / len(points)
    row = {"workload": kind, "subs": size, "matches": matches}
    row |= measured({"match": engine.match}, points)["match"] | {"insert_us": insert_us}
    if size <= MEASURED_PAUSES:
        again = Ours()
        row["insert_max_us"] = longest_us(lambda sid: again.add(sid, filters[sid]), range(size))
    return row


def churn(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    changes = 100_000
    filters, points = workload(name, 2 * subscriptions, PUBLICATIONS, data)
    churned, live = _churned(filters, subscriptions, changes)
    rest = [filters[sid] for sid in sorted(live)]
    fresh = Ours()
    fresh.fill(rest)
    times = measured({"fresh": fresh.match, "churned": churned.match}, points)
    sizes = {"fresh": _bytes_of(Ours, rest), "churned": _churned_bytes(filters, subscriptions, changes)}
    known = {"workload": name, "subs": len(rest)}
    return [
        {"index": kind}
        | known
        | found
        | {"bytes_per_sub": sizes[kind] / len(rest)}
        | {
            "mean_x": found["best_mean_us"] / times["fresh"]["best_mean_us"],
            "bytes_x": sizes[kind] / sizes["fresh"],
        }
        for kind, found in times.items()
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
    times = measured({"match": engine.index.match, "groups": engine.index.groups}, points)
    known = {"workload": name, "subs": subscriptions, "anchors": 45}
    listing = times["match"]["p99_us"]
    return [
        known | {"question": question} | found | {"p99_of_listing": found["p99_us"] / listing}
        for question, found in times.items()
    ]


def deliveries(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    filters, points = workload(name, subscriptions, PUBLICATIONS, data)
    rows = []
    for clients in (1, 100):
        engine = Ours(groups=clients)
        engine.fill(filters)
        for point in points:
            engine.index.deliveries(point)  # rows are sorted by client when they have come to rest
        times = measured({"deliveries": engine.index.deliveries}, points)["deliveries"]
        rows.append({"workload": name, "subs": subscriptions, "clients": clients} | times)
    return rows


def adversarial(name: str, subscriptions: int, data: Path | None) -> list[Row]:
    """What one filter adds to a match of the publication that is worst for it."""
    filters, _ = workload(name, subscriptions, 1, data)
    engine = Ours()
    engine.fill(filters)
    rows = []
    for kind, (filter, point) in strangers().items():
        without = measured({"match": engine.match}, [point] * 100)["match"]["p50_us"]
        insert_us = changes_us(lambda form: engine.add(-1, form), [filter])
        with_it = measured({"match": engine.match}, [point] * 100)["match"]["p50_us"]
        engine.remove(-1, filter)
        known = {"filter": kind, "conjunctions": len(filter.conjunctions), "insert_us": insert_us}
        rows.append(known | {"p50_us_without": without, "p50_us_with": with_it, "cost_us": with_it - without})
    return rows


warm_up()
