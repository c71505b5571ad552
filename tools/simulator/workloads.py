"""What clients publish and ask for.

A workload makes advertisements, publications inside one of them, and subscriptions, all from the chance it
is handed. `quotes` looks like stock quotes (equality on the symbol, comparisons beside it), `zipf` like
topics of unequal fame, `ranges` like points and boxes in a space of k dimensions, `random` uses every
operator.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from itertools import accumulate
from random import Random
from typing import Any, Protocol

from grapevine.filters.evaluate import matches
from grapevine.filters.normal import EVERYTHING, Conjunction, Filter, Op, Predicate, Value, predicate_key
from tools.simulator.random_filters import random_attributes, random_filter

Attributes = Mapping[str, Value]


class Workload(Protocol):
    def advertisement(self, random: Random) -> Filter: ...
    def publication(self, random: Random, advertisement: Filter) -> Attributes: ...
    def subscription(self, random: Random) -> Filter: ...


def conjunction(*predicates: Predicate) -> Conjunction:
    return tuple(sorted(predicates, key=predicate_key))


def _equal(attribute: str, value: Value) -> Predicate:
    return Predicate(attribute, Op.EQ, value)


def _between(attribute: str, low: float | None, high: float | None) -> Predicate:
    return Predicate(attribute, Op.RANGE, (low, high, False, False))


class Quotes:
    """One publisher publishes one symbol's quotes."""

    def __init__(self, symbols: int = 6) -> None:
        self.symbols = [f"{a}{b}{c}" for a in "AFKPUZ" for b in "BGLQV" for c in "CHMRW"][:symbols]

    def advertisement(self, random: Random) -> Filter:
        symbol = random.choice(self.symbols)
        return Filter((conjunction(_equal("class", "STOCK"), _equal("symbol", symbol)),))

    def publication(self, random: Random, advertisement: Filter) -> Attributes:
        symbol = next(p.operand for p in advertisement.conjunctions[0] if p.attribute == "symbol")
        assert isinstance(symbol, str)
        opened = round(random.uniform(10, 100), 2)
        low = round(opened * random.uniform(0.9, 1.0), 2)
        high = round(opened * random.uniform(1.0, 1.1), 2)
        return {
            "class": "STOCK",
            "symbol": symbol,
            "open": opened,
            "high": high,
            "low": low,
            "close": round(random.uniform(low, high), 2),
            "volume": random.randrange(1_000, 3_000_000, 100),
        }

    def subscription(self, random: Random) -> Filter:
        symbol = random.choice(self.symbols)
        predicates = [_equal("class", "STOCK")]
        if random.random() < 0.1:
            predicates.append(Predicate("symbol", Op.PREFIX, symbol[:2]))
        else:
            predicates.append(_equal("symbol", symbol))
        kind = random.randrange(3)
        if kind == 0:
            predicates.append(_between("volume", random.randrange(0, 3_000_000, 250_000), None))
        elif kind == 1:
            low = random.randrange(10, 90, 10)
            predicates.append(_between("close", low, low + random.choice((10, 20, 40))))
        return Filter((conjunction(*predicates),))


class Zipf:
    """Topics by popularity: the i-th has weight 1 / i ** exponent."""

    def __init__(self, topics: int = 1_000, exponent: float = 1.0) -> None:
        self._weights = list(accumulate(1.0 / (i + 1) ** exponent for i in range(topics)))

    def topic(self, random: Random) -> int:
        return bisect(self._weights, random.random() * self._weights[-1])

    def advertisement(self, random: Random) -> Filter:
        return Filter(((Predicate("topic", Op.EXISTS),),))

    def publication(self, random: Random, advertisement: Filter) -> Attributes:
        return {"topic": self.topic(random)}

    def subscription(self, random: Random) -> Filter:
        return Filter(((_equal("topic", self.topic(random)),),))


class Topics(Zipf):
    """A few topics, with something beside them that filters ask for as well."""

    def __init__(self) -> None:
        super().__init__(12, 0.7)

    def publication(self, random: Random, advertisement: Filter) -> Attributes:
        return {"topic": f"t{self.topic(random)}", "price": random.randrange(10)}

    def subscription(self, random: Random) -> Filter:
        topics = sorted({f"t{self.topic(random)}" for _ in range(random.choice((1, 1, 2, 4)))})
        asked = _equal("topic", topics[0]) if len(topics) == 1 else Predicate("topic", Op.IN, tuple(topics))
        if random.random() < 0.3:
            return Filter((conjunction(asked, _between("price", random.randrange(8), None)),))
        return Filter(((asked,),))


class Ranges:
    """Points uniform in k dimensions of length 1,000; a subscription is a box, a quarter wide by default."""

    def __init__(self, dimensions: int = 4, width: float = 250.0) -> None:
        self._names = [f"d{i}" for i in range(dimensions)]
        self._width = width

    def advertisement(self, random: Random) -> Filter:
        name = random.choice(self._names)
        low = random.choice((0.0, 500.0))
        return Filter(((_between(name, low, low + 500.0),),))

    def publication(self, random: Random, advertisement: Filter) -> Attributes:
        point: dict[str, Value] = {name: round(random.uniform(0, 1_000), 3) for name in self._names}
        for predicate in advertisement.conjunctions[0]:
            operand: Any = predicate.operand
            low, high = operand[:2]
            point[predicate.attribute] = round(random.uniform(low, high), 3)
        return point

    def subscription(self, random: Random) -> Filter:
        box = []
        for name in self._names:
            low = round(random.uniform(0, 1_000 - self._width), 3)
            box.append(_between(name, low, round(low + self._width, 3)))
        return Filter((conjunction(*box),))


class Random_:
    """Filters of every operator over few attributes and values, so that they meet and cover each other."""

    def advertisement(self, random: Random) -> Filter:
        """Everything, or a filter that some publications match: who advertises means to publish."""
        if random.random() < 0.3:
            return EVERYTHING
        while True:
            filter = random_filter(random)
            if sum(matches(filter, random_attributes(random)) for _ in range(20)) >= 2:
                return filter

    def publication(self, random: Random, advertisement: Filter) -> Attributes:
        for _ in range(40):
            attributes = random_attributes(random)
            if matches(advertisement, attributes):
                return attributes
        return random_attributes(random)  # outside: the client is told so

    def subscription(self, random: Random) -> Filter:
        return random_filter(random)


def workload(kind: str) -> Workload:
    kinds: dict[str, type[Workload]] = {
        "quotes": Quotes,
        "zipf": Zipf,
        "topics": Topics,
        "ranges": Ranges,
        "random": Random_,
    }
    if kind not in kinds:
        raise ValueError(f"workload is one of {', '.join(kinds)}, not {kind!r}")
    return kinds[kind]()
