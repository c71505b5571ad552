"""The largest filters that the language's limits let through, each with a publication that suits it: what one
stranger can make a broker do.
"""

from __future__ import annotations

from grapevine.filters import limits
from grapevine.filters.normal import Filter, Op, Predicate, Value


def strangers() -> dict[str, tuple[Filter, dict[str, Value]]]:
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
        "2 disjuncts that nobody else has, at a publication for many": (
            Filter(tuple((Predicate(f"own{i}", Op.EXISTS),) for i in range(2))),
            {f"d{i}": 125.0 + 250.0 * i for i in range(4)},  # the hot spot of `bluedove`
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
