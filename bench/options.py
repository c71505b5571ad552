"""What the commands of bench/ share: names that must be known, systems that are not installed, and an end that leaves
no broker behind."""  # noqa: E501

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Collection, Iterable

from bench.running import say
from bench.systems.base import System


def names(known: Collection[str]) -> Callable[[str], list[str]]:
    """Of an option: some of the known ones, with commas between; nothing is none of them."""

    def some(text: str) -> list[str]:
        found = [name for name in text.split(",") if name]
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown: {name} (known: {', '.join(known)})")
        return found

    return some


def at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"at least {least}")
        return int(text)

    return number


def absent(systems: Iterable[System]) -> list[dict[str, str]]:
    """Those that are not installed, said once and for the document."""
    reasons = {system.name: reason for system in systems if (reason := system.missing())}
    for name, reason in reasons.items():
        say(f"missing: {name}: {reason}")
    return [{"system": name, "reason": reason} for name, reason in reasons.items()]


def end_tidily() -> None:
    """SIGTERM ends a command as ctrl-C does: the brokers that it started are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
