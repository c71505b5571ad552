"""Random filters of every operator, and publications for them, from one `random.Random`.

A small vocabulary with small domains, so that a filter matches about one publication in ten: often
enough that wrong deliveries show, seldom enough that not everybody gets everything. Values of a
wrong type and missing attributes are part of it. The same generator state gives the same filter under
every hash seed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from grapevine.errors import FilterError
from grapevine.filters.expression import And, Box, Circle, Constant, Expression, Not, Or, Test, Within
from grapevine.filters.normal import NOTHING, Filter, Value
from grapevine.filters.normalise import normalise

Leaf: TypeAlias = Callable[[Random], Expression]

SYMBOLS = ("YHOO", "YHGI", "YGOO", "MSFT", "MSHLW", "ZICA", "ZIGO", "AAPL", "GOO", "O")
PARTS = ("Y", "YH", "M", "Z", "ZI", "O", "OO", "GO", "S", "LW", "A", "")
CLASSES = ("STOCK", "BOND", "FUND")
PRICE_TOP = 20
VOLUME_TOP = 10**16  # above 2**53, where a float loses the last digit
TOWNS = ((51.5, -0.1), (48.9, 2.4), (40.7, -74.0), (-18.1, 178.4), (-13.8, -171.8), (78.2, 15.6))

NAMES = ("class", "symbol", "price", "volume", "halted", "lat", "lon", "note")


def random_filter(rng: Random) -> Filter:
    """One filter in normal form, seldom everything or nothing."""
    while True:
        try:
            form = normalise(random_expression(rng))
        except FilterError:
            continue  # beyond the limits, one in some ten thousands
        if form != NOTHING or rng.random() < 0.05:
            return form


def random_expression(rng: Random) -> Expression:
    """An expression of one to five conditions, now and then joined by `or` or negated as a whole."""
    draw = rng.random()
    if draw < 0.01:
        return Constant(rng.random() < 0.5)
    if draw < 0.15:
        return Or((_conjunction(rng), _conjunction(rng)))
    if draw < 0.18:
        return Not(_conjunction(rng))
    return _conjunction(rng)


def random_attributes(rng: Random) -> dict[str, Value]:
    """What one publication says: most attributes, a few of them of another type."""
    town = rng.choice(TOWNS)
    likely: dict[str, Value] = {
        "class": rng.choice(CLASSES),
        "symbol": rng.choice(SYMBOLS),
        "price": _price(rng),
        "volume": _volume(rng),
        "halted": rng.random() < 0.5,
        "lat": town[0] + rng.uniform(-1, 1),
        "lon": (town[1] + rng.uniform(-2, 2) + 180) % 360 - 180,
        "note": rng.choice(PARTS),
    }
    kept = {name: value for name, value in likely.items() if rng.random() < 0.9}
    if kept and rng.random() < 0.1:
        kept[rng.choice(sorted(kept))] = rng.choice((True, 1, 0.5, "1", ""))
    return kept


def _conjunction(rng: Random) -> Expression:
    parts = tuple(_condition(rng) for _ in range(rng.choice((1, 2, 3, 3, 4, 4, 5))))
    return parts[0] if len(parts) == 1 else And(parts)


def _condition(rng: Random) -> Expression:
    leaf = rng.choice(LEAVES)(rng)
    if rng.random() < 0.12:
        return Not(leaf)
    if rng.random() < 0.1:
        return Or((leaf, rng.choice(LEAVES)(rng)))
    return leaf


def _price(rng: Random) -> Value:
    price = rng.randrange(PRICE_TOP * 4) / 4
    return int(price) if price.is_integer() and rng.random() < 0.5 else price


def _volume(rng: Random) -> int:
    return rng.choice((rng.randrange(10), VOLUME_TOP + rng.randrange(10)))


def _equality(rng: Random) -> Expression:
    name, value = _pair(rng)
    return Test(name, rng.choice(("=", "=", "=", "!=")), (value,))


def _pair(rng: Random) -> tuple[str, Value]:
    options: tuple[tuple[str, Value], ...] = (
        ("class", rng.choice(CLASSES)),
        ("symbol", rng.choice(SYMBOLS)),
        ("price", rng.randrange(PRICE_TOP)),
        ("halted", rng.random() < 0.5),
    )
    return rng.choice(options)


def _membership(rng: Random) -> Expression:
    if rng.random() < 0.3:
        return Test("price", "in", tuple(_price(rng) for _ in range(rng.randint(2, 12))))
    return Test("symbol", "in", tuple(rng.sample(SYMBOLS, rng.randint(1, 5))))


def _comparison(rng: Random) -> Expression:
    name, value = rng.choice(
        (("price", _price(rng)), ("volume", _volume(rng)), ("symbol", rng.choice(SYMBOLS)))
    )
    return Test(name, rng.choice(("<", "<=", ">", ">=")), (value,))


def _between(rng: Random) -> Expression:
    if rng.random() < 0.2:
        return Test("symbol", "between", (rng.choice(SYMBOLS), rng.choice(SYMBOLS)))
    low = rng.randrange(PRICE_TOP)
    return Test("price", "between", (low, low + rng.randrange(PRICE_TOP // 2)))


def _part(rng: Random) -> Expression:
    name = rng.choice(("symbol", "symbol", "note"))
    return Test(name, rng.choice(("prefix", "suffix", "contains")), (rng.choice(PARTS),))


def _presence(rng: Random) -> Expression:
    name = rng.choice((*NAMES, "rare"))
    exists = Test(name, "exists")
    return Not(exists) if rng.random() < 0.3 else exists


def _place(rng: Random) -> Expression:
    latitude, longitude = rng.choice(TOWNS)
    if rng.random() < 0.5:
        return Within("lat", "lon", Circle(latitude, longitude, rng.choice((50, 100, 200, 8000, 15000))))
    reach = rng.choice((1, 5, 60))
    west, east = (
        (longitude - reach + 180) % 360 - 180,
        (longitude + 2 * reach + 180) % 360 - 180,
    )
    box = Box(
        round(max(-90.0, latitude - reach), 3), round(west, 3), min(90.0, latitude + reach), round(east, 3)
    )
    return Within("lat", "lon", box)


LEAVES: tuple[Leaf, ...] = (
    _equality,
    _equality,
    _equality,
    _membership,
    _comparison,
    _comparison,
    _between,
    _part,
    _presence,
    _place,
)
