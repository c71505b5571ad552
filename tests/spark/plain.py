"""The report's figures counted again in plain Python, from the lines as they are. Slow and simple."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from math import ceil
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def events(root: Path) -> list[Event]:
    paths = sorted(root.rglob("*-*.jsonl")) + sorted(root.rglob("*-*.open"))
    return [json.loads(line) for path in paths for line in path.open()]


def counts(found: list[Event]) -> dict[str, Any]:
    kinds = Counter(event["event"] for event in found)
    delivered = [event for event in found if event["event"] == "deliver"]
    return {
        "accepted": kinds["accept"],
        "forwarded": kinds["forward"],
        "pure_forwards": sum(e["event"] == "forward" and e["pure"] for e in found),
        "delivered": len(delivered),
        "delay_p50_us": ranked([e["delay_us"] for e in delivered], 0.5),
        "delay_p99_us": ranked([e["delay_us"] for e in delivered], 0.99),
        "hops": round(sum(e["hops"] for e in delivered) / len(delivered), 3) if delivered else None,
    }


def ranked(values: list[int], share: float) -> int | None:
    return sorted(values)[ceil(share * len(values)) - 1] if values else None


def by(found: list[Event], key: str) -> dict[Any, list[Event]]:
    groups: dict[Any, list[Event]] = defaultdict(list)
    for event in found:
        groups[event[key]].append(event)
    return groups


def by_subscription(found: list[Event]) -> dict[tuple[str, int], list[Event]]:
    groups: dict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in found:
        for number in event["subscriptions"]:
            groups[event["to"], number].append(event)
    return groups


def by_step(found: list[Event], step_s: float) -> dict[int, list[Event]]:
    groups: dict[int, list[Event]] = defaultdict(list)
    for event in found:
        groups[event["t_ns"] // round(step_s * 1e9)].append(event)
    return groups


def lost(found: list[Event]) -> Counter[tuple[str, str]]:
    """By link: publications that were sent over it and appear nowhere at its other end."""
    there = {(e["publisher"], e["seq"], e["broker"]) for e in found}
    sent = {(e["publisher"], e["seq"], e["to"], e["broker"]) for e in found if e["event"] == "forward"}
    return Counter((sender, to) for publisher, seq, to, sender in sent if (publisher, seq, to) not in there)


def lost_by_step(found: list[Event], step_s: float) -> Counter[int]:
    """By the step in which the copy was sent."""
    there = {(e["publisher"], e["seq"], e["broker"]) for e in found}
    sent = {
        (e["publisher"], e["seq"], e["to"]): e["t_ns"] // round(step_s * 1e9)
        for e in found
        if e["event"] == "forward"
    }
    return Counter(step for copy, step in sent.items() if copy not in there)


def doubled(found: list[Event]) -> dict[tuple[str, int, str], int]:
    """By publication and client: deliveries too many."""
    accepted = Counter((e["publisher"], e["seq"]) for e in found if e["event"] == "accept")
    copies = Counter((e["publisher"], e["seq"], e["to"]) for e in found if e["event"] == "deliver")
    more = {key: number - max(1, accepted[key[:2]]) for key, number in copies.items()}
    return {key: number for key, number in more.items() if number > 0}


def duplicates(found: list[Event]) -> int:
    return sum(doubled(found).values())


def duplicates_by_client(found: list[Event]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for (_, _, client), number in doubled(found).items():
        counted[client] += number
    return counted


def duplicates_by_step(found: list[Event], step_s: float) -> Counter[int]:
    """By the step of the last copy."""
    last: Counter[tuple[str, int, str]] = Counter()
    for e in found:
        if e["event"] == "deliver":
            key = (e["publisher"], e["seq"], e["to"])
            last[key] = max(last[key], e["t_ns"] // round(step_s * 1e9))
    counted: Counter[int] = Counter()
    for key, number in doubled(found).items():
        counted[last[key]] += number
    return counted


def reach(found: list[Event]) -> dict[str, tuple[int, int]]:
    """By broker: publications that reached it over a link, and of those the ones that it had a client for."""
    at: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for event in found:
        at[event["broker"], event["publisher"], event["seq"]].add(event["event"])
    reached: Counter[str] = Counter()
    served: Counter[str] = Counter()
    for (broker, _, _), kinds in at.items():
        if "accept" not in kinds:
            reached[broker] += 1
            served[broker] += "deliver" in kinds
    return {broker: (reached[broker], served[broker]) for broker in reached}
