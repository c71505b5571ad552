"""Publications for members that no pointer leads to now: they wait, and are cut if that lasts.

Whoever was not reached is told to the roots of its topics: they forget it, or take it for away (away.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grapevine.wire.messages import CUT_LINK_LOST
from overlay.chord.ways import Stranded
from overlay.links.settling import cuts_of

if TYPE_CHECKING:
    from overlay.chord.path import ChordPath

GONE_S = 2.0  # a member to whom no way leads is waited for so long


def release_stranded(path: ChordPath, now: float) -> None:
    waiting, path.stranded = path.stranded, []
    for one in waiting:
        if one.record.dropped:
            one.record.release()
            continue
        before = len(path.stranded)
        path.down(one.publications, one.targets, one.came, one.record, now)
        for again in path.stranded[before:]:
            again.since = one.since
            if now - one.since >= GONE_S:
                _cut(path, again, now)
        path.hold_used(one.record)
        one.record.release()
    path.stranded = [one for one in path.stranded if one.publications]


def _cut(path: ChordPath, one: Stranded, now: float) -> None:
    one.record.cuts += cuts_of(one.publications, CUT_LINK_LOST)
    topics = {topic for p in one.publications if (topic := path.topic(p.attributes)) is not None}
    for publication in one.publications:
        path.behind.heard(publication, one.targets, CUT_LINK_LOST)
    for target in one.targets:
        incarnation = path.contacts.died_as(path.membership.broker_at(target)) or (1 << 62)
        path.wants.gone(target, incarnation, topics, now)
    one.publications = []
    one.record.release()
