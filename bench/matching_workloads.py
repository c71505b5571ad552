"""What the matching bench asks: subscriptions and publications of three kinds, from a seed or from a file.

bluedove   four attributes of length 1,000, in each a range 250 wide placed by a cropped normal (sd 250)
           around a hot spot; publications uniform (the BlueDove paper's evaluation)
quotes     an equality on the symbol and a few comparisons, from DIR/quotes_lowsel if there is one
topics     an equality on one of N / 10 topics, which are drawn by Zipf's law
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

from grapevine.filters.normal import Filter, Op, Predicate, Value, predicate_key

Attributes = dict[str, Value]
Workload = tuple[list[Filter], list[Attributes]]

LENGTH, WIDTH, DEVIATION, DIMENSIONS = 1000.0, 250.0, 250.0, 4
_COMPARISONS = {">": (True, True), ">=": (True, False), "<": (False, True), "<=": (False, False)}


def workload(name: str, subscriptions: int, publications: int, data: Path | None, seed: int = 1) -> Workload:
    return WORKLOADS[name](subscriptions, publications, data, Random(seed))


def _bluedove(subscriptions: int, publications: int, data: Path | None, random: Random) -> Workload:
    spots = [LENGTH * (i + 0.5) / DIMENSIONS for i in range(DIMENSIONS)]
    filters = []
    for _ in range(subscriptions):
        ranges = []
        for dimension, spot in enumerate(spots):
            low = _cropped(random, spot) - WIDTH / 2
            ranges.append(Predicate(f"d{dimension}", Op.RANGE, (low, low + WIDTH, False, False)))
        filters.append(Filter((tuple(ranges),)))
    points = [{f"d{i}": random.uniform(0, LENGTH) for i in range(DIMENSIONS)} for _ in range(publications)]
    return filters, points  # type: ignore[return-value]


def _cropped(random: Random, spot: float) -> float:
    while True:
        place = random.gauss(spot, DEVIATION)
        if 0 <= place <= LENGTH:
            return place


def _quotes(subscriptions: int, publications: int, data: Path | None, random: Random) -> Workload:
    if data is not None and (data / "quotes_lowsel").is_dir():
        folder = data / "quotes_lowsel"
        forms = [
            _quote_filter(line["preds"]) for line in _lines(folder / "subs_lowsel.jsonl.gz", subscriptions)
        ]
        while len(forms) < subscriptions:  # more than the file has: the same with other bounds
            forms.append(_shaken(forms[len(forms) % 40_000], random))
        points = [line["attrs"] for line in _lines(folder / "publications.jsonl.gz", publications)]
        return forms, points
    return [_made_up_filter(random) for _ in range(subscriptions)], [
        _made_up_quote(random) for _ in range(publications)
    ]


def _lines(path: Path, count: int) -> list[dict]:  # type: ignore[type-arg]
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in islice(lines, count)]


def _quote_filter(triples: list[list[Value]]) -> Filter:
    predicates = [_predicate(str(name), str(operator), operand) for name, operator, operand in triples]
    return Filter((tuple(sorted(predicates, key=predicate_key)),))


def _predicate(name: str, operator: str, operand: Value) -> Predicate:
    if operator in ("eq", "="):
        return Predicate(name, Op.EQ, operand)
    below, is_open = _COMPARISONS[operator]
    return Predicate(
        name, Op.RANGE, (operand, None, is_open, False) if below else (None, operand, False, is_open)
    )


def _shaken(form: Filter, random: Random) -> Filter:
    predicates = []
    for predicate in form.conjunctions[0]:
        if predicate.op == Op.RANGE:
            low, high, low_open, high_open = predicate.operand  # type: ignore[misc]
            factor = random.uniform(0.9, 1.1)
            low, high = (None if end is None else end * factor for end in (low, high))
            predicate = Predicate(predicate.attribute, Op.RANGE, (low, high, low_open, high_open))
        predicates.append(predicate)
    return Filter((tuple(predicates),))


def _made_up_quote(random: Random) -> Attributes:
    low = round(random.lognormvariate(2.5, 0.8), 2)
    spread = random.uniform(0, 0.1)
    return {
        "class": "STOCK",
        "symbol": f"S{int(random.random() ** 2 * 100):03}",
        "low": low,
        "high": round(low * (1 + spread), 2),
        "open": round(low * (1 + spread * random.random()), 2),
        "close": round(low * (1 + spread * random.random()), 2),
        "volume": int(random.lognormvariate(12, 2)),
    }


def _made_up_filter(random: Random) -> Filter:
    quote = _made_up_quote(random)
    triples: list[list[Value]] = [["class", "eq", "STOCK"], ["symbol", "eq", quote["symbol"]]]
    names = random.sample(("low", "high", "open", "close", "volume"), random.choice((0, 1, 1, 1, 2)))
    triples += [[name, random.choice("<>"), quote[name]] for name in names]
    return _quote_filter(triples)


def _topics(subscriptions: int, publications: int, data: Path | None, random: Random) -> Workload:
    count = max(1, subscriptions // 10)
    weights = [1 / rank for rank in range(1, count + 1)]
    subscribed = random.choices(range(count), weights, k=subscriptions)
    filters = [Filter(((Predicate("topic", Op.EQ, f"t{topic}"),),)) for topic in subscribed]
    return filters, [{"topic": f"t{random.randrange(count)}"} for _ in range(publications)]


WORKLOADS: dict[str, Callable[[int, int, Path | None, Random], Workload]] = {
    "bluedove": _bluedove,
    "quotes": _quotes,
    "topics": _topics,
}
