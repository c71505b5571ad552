"""Who plays in the demo: three feeds, a dozen subscribers, and what they say.

Content is drawn from a seed, so that two runs publish the same. Brokers are given by number; with fewer
brokers than seven several of the cast share one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

Attributes = dict[str, str | int | float | bool]

SYMBOLS = ("AAPL", "AMZN", "GOOG", "IBM", "MSFT", "NVDA", "ORCL", "SAP", "TSLA", "YHOO")
CITIES = (
    ("Berlin", 52.52, 13.41),
    ("Lisbon", 38.72, -9.14),
    ("Oslo", 59.91, 10.75),
    ("Quito", -0.18, -78.47),
)


class Feed(NamedTuple):
    name: str
    broker: int  # counted from 1
    share: float  # of all publications
    advertisement: str
    make: Callable[[Random], Attributes]


class Seat(NamedTuple):
    name: str
    broker: int
    filter: str


def quote(chance: Random) -> Attributes:
    close = round(chance.lognormvariate(4.5, 0.6), 2)
    return {
        "class": "STOCK",
        "symbol": chance.choice(SYMBOLS),
        "close": close,
        "change": round(chance.gauss(0, 1.5), 2),
        "volume": int(chance.paretovariate(1.1) * 10_000),
    }


def weather(chance: Random) -> Attributes:
    city, lat, lon = chance.choice(CITIES)
    return {
        "class": "WEATHER",
        "city": city,
        "lat": lat,
        "lon": lon,
        "temperature": round(chance.gauss(12, 11), 1),
        "wind": round(chance.weibullvariate(9, 1.6), 1),
    }


def bus(chance: Random) -> Attributes:
    return {
        "class": "BUS",
        "line": chance.randrange(100, 300),
        "lat": round(chance.gauss(52.52, 0.05), 5),
        "lon": round(chance.gauss(13.40, 0.09), 5),
        "speed": max(0, int(chance.gauss(28, 14))),
        "delayed": chance.random() < 0.12,
    }


FEEDS = (
    Feed("quotes", 4, 0.5, "class = 'STOCK'", quote),
    Feed("weather", 7, 0.2, "class = 'WEATHER'", weather),
    Feed("buses", 6, 0.3, "class = 'BUS'", bus),
)

SEATS = (
    Seat("dashboard", 1, "exists class"),
    Seat("big-trades", 5, "class = 'STOCK' and volume > 200000"),
    Seat("yhoo", 5, "class = 'STOCK' and symbol = 'YHOO'"),
    Seat("large-caps", 6, "class = 'STOCK' and symbol in ('AAPL', 'GOOG', 'MSFT') and close > 120"),
    Seat("falling", 7, "class = 'STOCK' and change < -2"),
    Seat("letter-a", 3, "class = 'STOCK' and symbol prefix 'A' and volume > 50000"),
    Seat("storms", 4, "class = 'WEATHER' and wind >= 15"),
    Seat("frost", 5, "class = 'WEATHER' and temperature < 0"),
    Seat("late-buses", 4, "class = 'BUS' and delayed"),
    Seat("station", 7, "class = 'BUS' and within(lat, lon, circle(52.525, 13.369, 1.5))"),
    Seat("speeding", 2, "class = 'BUS' and within(lat, lon, box(52.49, 13.33, 52.55, 13.47)) and speed > 50"),
    Seat("alarms", 6, "(class = 'STOCK' and volume > 2000000) or (class = 'WEATHER' and wind > 22)"),
)

TRACED: Attributes = {"class": "STOCK", "symbol": "YHOO", "close": 131.5, "change": -2.4, "volume": 250_000}
