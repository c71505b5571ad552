"""Overlays of two versions: some brokers speak the last protocol only, and the others must respect it.

An older broker says so in its greeting, refuses what is newer, and the watcher takes every newer message that
reaches one for a violation. While the code has no message that is new, a scenario names some that its
brokers can do without and that count as new for the length of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from grapevine.wire.messages import MESSAGES, PROTOCOL, Message

LAST = PROTOCOL - 1


def protocols(count: int, older: float, random: Random) -> list[int]:
    """Of each broker: `older` of them, rounded to the next, speak the last protocol."""
    chosen = random.sample(range(count), round(count * older))
    return [LAST if number in chosen else PROTOCOL for number in range(count)]


@contextmanager
def counted_as_new(names: tuple[str, ...]) -> Iterator[None]:
    by_name: dict[str, type[Message]] = {message.__name__: message for message in MESSAGES}
    before = {by_name[name]: by_name[name].gate for name in names}
    try:
        for message, gate in before.items():
            message.gate = gate._replace(since=PROTOCOL)
        yield
    finally:
        for message, gate in before.items():
            message.gate = gate
