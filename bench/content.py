"""Content workloads: filters over several connections, publications that never repeat, and who must get what.

C1      symbol = and price > and volume between, one in a hundred matches
quotes  DIR/quotes_lowsel where there is one (40,000 filters and 20,000 real stock quotes, with the counts of
        a brute force), else quotes of the same shape from a seed

What must arrive is worked out here by comparing every filter of a symbol with every publication of it, and
each connection's deliveries are compared with it one by one after the clock has stopped.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from operator import eq, ge, gt, le, lt
from pathlib import Path
from random import Random
from typing import NamedTuple

from grapevine.filters.normal import Filter, Op, Predicate, Value, predicate_key

Attributes = dict[str, Value]
Triple = tuple[str, str, Value]
TESTS = {"=": eq, ">": gt, ">=": ge, "<": lt, "<=": le}
SYMBOLS = 25  # of C1: with half of the prices and half of the volumes, one in a hundred matches
QUOTES_MADE_UP = 5_000


class Content(NamedTuple):
    """Filter number f belongs to connection f % connections, under the number f + 1."""

    name: str
    filters: list[list[Triple]]
    connections: int
    publications: list[Attributes]
    matching: list[list[int]]  # of each publication, the filters
    batch: int = 100

    def of(self, connection: int) -> list[int]:
        return list(range(connection, len(self.filters), self.connections))

    def wanted(self, connection: int) -> dict[int, list[int]]:
        """What the connection must get: the publication, and the numbers listed with it."""
        if id(self.matching) not in _SHARES:
            _SHARES.clear()
            _SHARES[id(self.matching)] = _shares(self)
        return _SHARES[id(self.matching)][1][connection]

    @property
    def copies(self) -> int:
        """One per publication and connection."""
        return sum(len({f % self.connections for f in filters}) for filters in self.matching)

    @property
    def matches(self) -> int:
        """One per publication and filter."""
        return sum(map(len, self.matching))

    def first(self, publications: int) -> Content:
        return self._replace(
            publications=self.publications[:publications], matching=self.matching[:publications]
        )


# Of the workload asked last (kept, so that its identity is its own), what each connection must get.
_SHARES: dict[int, tuple[list[list[int]], list[dict[int, list[int]]]]] = {}


def _shares(content: Content) -> tuple[list[list[int]], list[dict[int, list[int]]]]:
    shares: list[dict[int, list[int]]] = [{} for _ in range(content.connections)]
    for number, filters in enumerate(content.matching):
        for f in filters:
            shares[f % content.connections].setdefault(number, []).append(f + 1)
    return content.matching, shares


def text(triples: Iterable[Triple]) -> str:
    """In our filter language, which for these is also the selectors' of JMS."""
    return " and ".join(f"{name} {operator} {_literal(value)}" for name, operator, value in triples)


def form(triples: Iterable[Triple]) -> Filter:
    """What our parser makes of the text, without its time: 40,000 filters are read in every round."""
    predicates, ranges = [], {}
    for name, operator, value in triples:
        if operator == "=":
            predicates.append(Predicate(name, Op.EQ, value))
            continue
        low, high, low_open, high_open = ranges.get(name, (None, None, False, False))
        if operator[0] == ">":
            ranges[name] = (value, high, operator == ">", high_open)
        else:
            ranges[name] = (low, value, low_open, operator == "<")
    predicates += [Predicate(name, Op.RANGE, bounds) for name, bounds in ranges.items()]
    return Filter((tuple(sorted(predicates, key=predicate_key)),))


def _literal(value: Value) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)


def c1(filters: int, publications: int, connections: int = 100, seed: int = 1) -> Content:
    random = Random(seed)
    wanted: list[list[Triple]] = []
    for _ in range(filters):
        low = random.randrange(5_000)
        wanted.append(
            [
                ("symbol", "=", f"S{random.randrange(SYMBOLS):03}"),
                ("price", ">", round(random.uniform(0, 100), 2)),
                ("volume", ">=", low),
                ("volume", "<=", low + 5_000),
            ]
        )
    published: list[Attributes] = [
        {
            "symbol": f"S{random.randrange(SYMBOLS):03}",
            "price": round(random.uniform(0, 100), 4),
            "volume": random.randrange(10_000),
        }
        for _ in range(publications)
    ]
    return Content(f"C1-{filters}", wanted, connections, published, brute_force(wanted, published))


def c1_equality(filters: int, publications: int, connections: int = 100, seed: int = 1) -> Content:
    random = Random(seed)
    wanted: list[list[Triple]] = [[("symbol", "=", f"S{random.randrange(100):03}")] for _ in range(filters)]
    published: list[Attributes] = [{"symbol": f"S{random.randrange(100):03}"} for _ in range(publications)]
    return Content(f"C1eq-{filters}", wanted, connections, published, brute_force(wanted, published))


def quotes(filters: int, publications: int, connections: int, data: Path | None) -> Content:
    name = f"quotes-{filters}" + (f"x{connections}" if connections > 1 else "")
    if data is not None and (data / "quotes_lowsel").is_dir():
        folder = data / "quotes_lowsel"
        wanted: list[list[Triple]] = [
            [(a, "=" if operator == "eq" else operator, value) for a, operator, value in line["preds"]]
            for line in _lines(folder / "subs_lowsel.jsonl.gz", filters)
        ]
        published = [line["attrs"] for line in _lines(folder / "publications.jsonl.gz", publications)]
        matching = brute_force(wanted, published)
        _agree(matching, folder, filters)
    else:
        random = Random(filters)
        wanted = [_made_up_filter(random) for _ in range(filters)]
        published = [_made_up_quote(random) for _ in range(min(publications, QUOTES_MADE_UP))]
        matching = brute_force(wanted, published)
    return Content(name, wanted, connections, published, matching)


def brute_force(filters: list[list[Triple]], publications: list[Attributes]) -> list[list[int]]:
    """Every filter has `symbol =`: others of its symbol only are compared."""
    by_symbol: dict[Value, list[tuple[int, list[Triple]]]] = defaultdict(list)
    for number, triples in enumerate(filters):
        symbol = next(value for name, _, value in triples if name == "symbol")
        by_symbol[symbol].append((number, triples))
    return [
        [
            number
            for number, triples in by_symbol[publication["symbol"]]
            if all(TESTS[operator](publication[name], value) for name, operator, value in triples)
        ]
        for publication in publications
    ]


def _agree(matching: list[list[int]], folder: Path, filters: int) -> None:
    """The folder's own counts were made by another brute force."""
    for line in _lines(folder / "expected_lowsel.jsonl.gz", len(matching)):
        count = line.get(f"n{filters}")
        assert count is None or count == len(matching[line["pub"]]), f"publication {line['pub']}: {count}"


def _lines(path: Path, count: int) -> list[dict]:  # type: ignore[type-arg]
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in islice(lines, count)]


def _made_up_quote(random: Random) -> Attributes:
    low = round(random.lognormvariate(2.5, 0.8), 2)
    spread = random.uniform(0, 0.1)
    return {
        "class": "STOCK",
        "symbol": f"S{random.randrange(100):03}",
        "low": low,
        "high": round(low * (1 + spread), 2),
        "close": round(low * (1 + spread * random.random()), 2),
        "volume": int(random.lognormvariate(12, 2)),
    }


def _made_up_filter(random: Random) -> list[Triple]:
    quote = _made_up_quote(random)
    triples: list[Triple] = [("class", "=", "STOCK"), ("symbol", "=", quote["symbol"])]
    names = random.sample(("low", "high", "close", "volume"), random.choice((0, 1, 1, 1, 2)))
    return triples + [(name, random.choice("<>"), quote[name]) for name in names]
