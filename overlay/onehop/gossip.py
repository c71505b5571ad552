"""Gossip of the segment table, by digests (BlueDove III-C, IV-C; as Cassandra does it).

Every round a matcher sends what it knows the versions of to one random member, gets back the entries that are
newer there and sends those that the other lacks. Both rules of the paper for how many members are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, log2
from random import Random
from typing import Literal

from grapevine.wire.onehop import Entry, Version
from overlay.onehop.segments import is_gone, newer

Fanout = Literal[1, "log"]


def digest(entries: Mapping[int, Entry]) -> tuple[Version, ...]:
    return tuple(
        Version(entry.owner, entry.incarnation, entry.version, is_gone(entry))
        for entry in sorted(entries.values(), key=lambda entry: entry.owner)
    )


def entries_for(entries: Mapping[int, Entry], theirs: Iterable[Version]) -> tuple[Entry, ...]:
    """What the sender of a digest lacks."""
    known = {version.owner: version for version in theirs}
    return tuple(entry for entry in entries.values() if _lacks(known.get(entry.owner), entry))


def _lacks(version: Version | None, entry: Entry) -> bool:
    if version is None:
        return True
    ours = entry.incarnation, entry.version, is_gone(entry)
    return ours > (version.incarnation, version.version, version.dead)


def owners_wanted(entries: Mapping[int, Entry], theirs: Iterable[Version]) -> tuple[int, ...]:
    """Owners of which the sender of a digest knows more."""
    found = []
    for version in theirs:
        entry = entries.get(version.owner)
        ours = (-1, -1, False) if entry is None else (entry.incarnation, entry.version, is_gone(entry))
        if (version.incarnation, version.version, version.dead) > ours:
            found.append(version.owner)
    return tuple(found)


def merge(entries: dict[int, Entry], news: Iterable[Entry]) -> list[Entry]:
    """Takes what is newer; returns it."""
    taken = []
    for entry in news:
        if newer(entry, entries.get(entry.owner)):
            entries[entry.owner] = entry
            taken.append(entry)
    return taken


def partners(members: Sequence[int], fanout: Fanout, chance: Random) -> list[int]:
    """With whom to gossip this round: one (IV-C), or log N (III-C; N counts us too)."""
    count = 1 if fanout == 1 else ceil(log2(len(members) + 1))
    return chance.sample(list(members), min(count, len(members)))


def rounds_bar(members: int) -> float:
    """So many rounds must be enough for a change to reach everybody."""
    return 2 * log2(members) + 2
