"""The delivery logs of all brokers, counted."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

EVENTS = ("accept", "forward", "deliver", "drop")


class Line(msgspec.Struct):
    broker: str
    event: str
    pure: bool = False


def awaited(directory: Path, accepted: int, delivered: int, within_s: float = 10.0) -> None:
    """Until the logs hold as much, or no more comes: their writers are threads of their own."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        events = collect(directory)["events"]
        if events["accept"] >= accepted and events["deliver"] >= delivered:
            return
        time.sleep(0.1)


def collect(directory: Path) -> dict[str, Any]:
    """Events by broker; `pure` are publications that a broker passed on without a subscriber of its own."""
    decoder = msgspec.json.Decoder(Line)
    brokers: dict[str, Counter[str]] = {}
    for path in sorted(directory.glob("*/state/deliveries/*")):
        with open(path, "rb") as file:
            for text in file:
                if text.endswith(b"\n"):
                    line = decoder.decode(text)
                    counts = brokers.setdefault(line.broker, Counter())
                    counts[line.event] += 1
                    counts["pure"] += line.pure and line.event == "forward"
    return {
        "events": {event: sum(counts[event] for counts in brokers.values()) for event in EVENTS},
        "pure_forwards": sum(counts["pure"] for counts in brokers.values()),
        "brokers": {name: dict(counts) for name, counts in sorted(brokers.items())},
    }
