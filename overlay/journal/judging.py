"""Torn or rotten? A checksum alone cannot tell.

A record that was being written when the power went is *torn*: nobody was told of it, and the log ends there.
A record that was on disk and has changed since is *rotten*: somebody was told, so the log goes on behind it
and the hole is reported. Cutting a log at its first bad checksum would throw acknowledged records away.

The evidence is what true records, or the mark beside the segments, say was synced before them: damage at a
position up to there is rot. The last group has no later witness: damage in it counts as torn, and is
counted as *ambiguous*.

What is behind torn damage is dropped although it may be whole: nobody was told of it, and a publication
that is kept while the one before it is lost would make that one a duplicate when it comes again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from overlay.journal.record import Header
from overlay.journal.scanning import Damage, Scanned


class Hole(NamedTuple):
    """Positions that were on disk and cannot be read."""

    segment: int
    first: int
    last: int


class Verdict(NamedTuple):
    records: list[Header]  # that items, in order
    holes: list[Hole]
    next: int  # the position that is given next
    torn: int  # bytes that do not items; whether they were acknowledged nobody can tell


def evidence(scans: Iterable[Scanned], mark: int) -> int:
    """Up to which position everything was on disk."""
    return max([mark, *(header.synced for scanned in scans for header in scanned.records)])


def judge_sealed(scanned: Scanned, segment: int, until: int) -> tuple[list[Header], list[Hole]]:
    """A segment that another follows was synced as a whole before that one began: all damage is rot. It
    ended at `until`, the position before its follower's first."""
    holes = []
    for damage in scanned.damages:
        last = until if damage.last is None else damage.last
        if last >= damage.first:
            holes.append(Hole(segment, damage.first, last))
    if scanned.next <= until and not (holes and holes[-1].last == until):
        holes.append(Hole(segment, scanned.next, until))  # its end is not there
    return scanned.records, holes


def judge_tail(scanned: Scanned, segment: int, synced: int) -> Verdict:
    """The last segment: the log goes on behind what is rotten and ends before what is torn."""
    holes: list[Hole] = []
    for damage in scanned.damages:
        if damage.first <= synced:
            last = synced if damage.last is None else min(damage.last, synced)
            if last >= damage.first:
                holes.append(Hole(segment, damage.first, last))
            if damage.last is not None and damage.last <= synced:
                continue
        elif damage.last is not None and damage.last < damage.first:
            continue  # bytes between two records that lack nothing
        return _ended(scanned, damage, holes, synced)
    if scanned.next <= synced:
        holes.append(Hole(segment, scanned.next, synced))
    return Verdict(scanned.records, holes, max(scanned.next, synced + 1), 0)


def _ended(scanned: Scanned, damage: Damage, holes: list[Hole], synced: int) -> Verdict:
    kept = [header for header in scanned.records if header.offset < damage.offset]
    return Verdict(kept, holes, max(damage.first, synced + 1), scanned.size - damage.offset)
