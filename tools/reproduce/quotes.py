"""Stock quotes as the POP and GRAPE paper uses them: real ones if given, else generated, each calibrated.

The printed *low* predicate matches 7 % of the real quotes and the printed *medium* one 11 %, not the 10 and
50 % that the text states. Here the thresholds of highLow%Diff are the symbol's own 90th and 50th percentile.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from random import Random

from grapevine.filters import parse
from grapevine.filters.normal import Filter, Value

QUOTES_FILE = "stockquotes_padres.csv.gz"
DIFF = "highLow%Diff"
Quote = dict[str, Value]


class Symbol:
    """One stock: its quotes in order, and the subscriptions that sink a tenth, half and all of them."""

    def __init__(self, name: str, quotes: list[Quote]) -> None:
        self.name = name
        self.quotes = quotes
        ranked = sorted(float(quote[DIFF]) for quote in quotes)
        self._low = ranked[int(len(ranked) * 0.9)]
        self._medium = ranked[len(ranked) // 2]

    def advertisement(self) -> Filter:
        return parse(f"class = 'STOCK' and symbol = '{self.name}'")

    def subscription(self, rating: str) -> Filter:
        base = f"class = 'STOCK' and symbol = '{self.name}'"
        if rating == "high":
            return parse(base)
        threshold = self._low if rating == "low" else self._medium
        return parse(f"{base} and {DIFF} > {threshold!r}")

    def quote(self, number: int) -> Quote:
        return self.quotes[number % len(self.quotes)]


def quote(symbol: str, opened: float, high: float, low: float, close: float, volume: float) -> Quote:
    return {
        "class": "STOCK",
        "symbol": symbol,
        "open": opened,
        "high": high,
        "low": low,
        "close": close,
        "volume": volume,
        DIFF: round((high - low) / low, 6) if low else 0.0,
        "openClose%Diff": round(abs(opened - close) / opened, 6) if opened else 0.0,
    }


def real_symbols(path: Path, count: int, most: int = 2_000) -> list[Symbol]:
    found: dict[str, list[Quote]] = {}
    with gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            mine = found.setdefault(row["symbol"], [])
            if len(mine) < most:
                opened, high, low, close = (float(row[key]) for key in ("open", "high", "low", "close"))
                mine.append(quote(row["symbol"], opened, high, low, close, float(row["volume"])))
    symbols = [Symbol(name, quotes) for name, quotes in sorted(found.items()) if len(quotes) >= 200]
    return symbols[:count]


def generated_symbols(random: Random, count: int, days: int = 1_000) -> list[Symbol]:
    """Random walks; highs and lows around them."""
    symbols = []
    for number in range(count):
        name, price, quotes = f"SYM{number}", random.uniform(10, 100), []
        for _ in range(days):
            opened = price
            price = max(1.0, price * (1 + random.gauss(0, 0.02)))
            high = max(opened, price) * (1 + abs(random.gauss(0, 0.01)))
            low = min(opened, price) * (1 - abs(random.gauss(0, 0.01)))
            values = tuple(round(value, 2) for value in (opened, high, low, price))
            quotes.append(
                quote(
                    name, values[0], values[1], values[2], values[3], random.randrange(1_000, 3_000_000, 100)
                )
            )
        symbols.append(Symbol(name, quotes))
    return symbols


def symbols(data: Path | None, random: Random, count: int) -> list[Symbol]:
    if data is not None and (data / QUOTES_FILE).is_file():
        return real_symbols(data / QUOTES_FILE, count)
    return generated_symbols(random, count)
