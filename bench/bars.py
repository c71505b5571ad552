"""What the figures should reach, and whether they do: worked out from a bench.broker document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Rows = dict[tuple[str, str], dict[str, Any]]


class Bar(NamedTuple):
    claim: str
    least: float
    value: Callable[[Rows], float]
    at_most: bool = False


def _ratio(one: tuple[str, str], other: tuple[str, str], of: str = "deliveries_s") -> Callable[[Rows], float]:
    return lambda rows: float(rows[one][of]) / float(rows[other][of])


def _to_nats(workload: str) -> Callable[[Rows], float]:
    return lambda rows: float(rows["grapevine", workload]["ratio_to_nats"])


def _publications(workload: str) -> Callable[[Rows], float]:
    return lambda rows: float(rows["grapevine", workload]["publications_s"])


def _curve(workload: str) -> Callable[[Rows], float]:
    """Of the same clients without it."""
    return _ratio(("grapevine-curve", workload), ("grapevine", workload))


def _ahead(ours: str, peer: str, filters: int) -> Callable[[Rows], float]:
    """Our C1 against the peer's, or against RabbitMQ's C1eq: its headers are equal or not."""
    theirs = "C1eq" if peer == "rabbitmq" else "C1"
    return _ratio((ours, f"C1-{filters}"), (peer, f"{theirs}-{filters}"), "publications_s")


BARS = (
    Bar("T1 of NATS's deliveries/s", 0.8, _to_nats("T1")),
    Bar("T2 of NATS's deliveries/s", 1.1, _to_nats("T2")),
    Bar("T3 of NATS's deliveries/s", 1.1, _to_nats("T3")),
    Bar("T1, attributes that never repeat, of NATS's T1", 0.35, _to_nats("T1-fresh")),
    Bar(
        "p50 at 5,000 a second, of NATS's",
        2.5,
        _ratio(("grapevine", "T1"), ("nats", "T1"), "p50_us"),
        at_most=True,
    ),
    Bar("T1 kept with CURVE", 0.5, _curve("T1")),
    Bar("T2 kept with CURVE", 0.5, _curve("T2")),
    Bar("T3 kept with CURVE", 0.3, _curve("T3")),
    Bar("quotes-10000 kept with CURVE", 0.5, _curve("quotes-10000")),
    Bar(
        "T1, Python client, of nats-py",
        4.0,
        _ratio(("grapevine-py", "T1-clients"), ("nats-py", "T1-clients")),
    ),
    Bar(
        "T2, Python client, of nats-py",
        4.0,
        _ratio(("grapevine-py", "T2-clients"), ("nats-py", "T2-clients")),
    ),
    Bar(
        "T3, Python client, of nats-py",
        6.0,
        _ratio(("grapevine-py", "T3-clients"), ("nats-py", "T3-clients")),
    ),
    Bar("C1-1000, publications/s of ActiveMQ's", 25, _ahead("grapevine", "activemq", 1_000)),
    Bar("C1-10000, publications/s of ActiveMQ's", 120, _ahead("grapevine", "activemq", 10_000)),
    Bar("C1-10000, Python client, of ActiveMQ's", 70, _ahead("grapevine-py", "activemq", 10_000)),
    Bar("C1-1000, publications/s of RabbitMQ's", 25, _ahead("grapevine", "rabbitmq", 1_000)),
    Bar("C1-10000, publications/s of RabbitMQ's", 120, _ahead("grapevine", "rabbitmq", 10_000)),
    Bar("quotes-1000, publications/s", 40_000, _publications("quotes-1000")),
    Bar("quotes-10000, publications/s", 40_000, _publications("quotes-10000")),
    Bar("quotes-40000, publications/s", 25_000, _publications("quotes-40000")),
    Bar("quotes-10000 over 100 clients, publications/s", 10_000, _publications("quotes-10000x100")),
    Bar("quotes-40000 over 100 clients, publications/s", 5_000, _publications("quotes-40000x100")),
    Bar(
        "a chain of three, of one broker's T1",
        0.25,
        _ratio(("grapevine x3", "chain-3"), ("grapevine x1", "chain-1")),
    ),
)


def judge(document: dict[str, Any]) -> list[tuple[Bar, float | None, str]]:
    """Of each bar its value and a word; None where a row is missing."""
    rows: Rows = {(row["system"], row["workload"]): row for row in document["rows"]}
    verdicts: list[tuple[Bar, float | None, str]] = []
    for bar in BARS:
        try:
            value = bar.value(rows)
        except (KeyError, TypeError, ZeroDivisionError):
            verdicts.append((bar, None, "not measured"))
            continue
        met = value <= bar.least if bar.at_most else value >= bar.least
        verdicts.append((bar, value, "met" if met else "missed"))
    return verdicts
