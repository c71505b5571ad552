"""Rule F: what was under way to a broker that is lost goes another way, oldest first, before anything newer.

Each publication goes back to the way it was on, in front of what waits there: that came later. By which lane
it came decides which it goes on by; on another it would be overtaken. What came from a side that is lost too
is dropped: who sent it sends it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlay.chord.ways import Held, Way
from overlay.data.reroute import Unsettled, let_go, unsettled
from overlay.links.incoming import Incoming
from overlay.links.lane import Lane
from overlay.links.session import Session

if TYPE_CHECKING:
    from overlay.chord.path import ChordPath

Came = tuple[int, int | None]  # by which lane, from which broker
FROM_HERE: Came = (-1, None)  # a client's, or another plane's


def lose_hop(path: ChordPath, session: Session, now: float) -> None:
    session.lost = True  # no way leads there any more
    sides = _sides(path, session)
    waiting: dict[Way, list[Held]] = {}
    for lane in path.lanes(session):
        for one in list(unsettled(lane)):
            if not one.record.dropped:
                came, sender = sides.get(one.record.incoming, FROM_HERE)
                if path.goes_down(lane):
                    _down(path, one, came, now)
                else:
                    _up(path, one, came, sender, waiting)
        let_go(lane)
    for way, older in waiting.items():
        way.held[:0] = older
    if waiting:
        path.release_held(now)
        path.look_soon(now)
    session.lost = False


def _sides(path: ChordPath, session: Session) -> dict[Incoming | None, Came]:
    peers = (*path.core.peers.values(), session)
    lanes: list[tuple[Lane, int]] = [(lane, peer.id) for peer in peers for lane in path.lanes(peer)]
    return {lane.incoming: (path.number(lane), broker) for lane, broker in lanes}


def _down(path: ChordPath, one: Unsettled, came: int, now: float) -> None:
    path.down_again([one.publication], one.names, came, one.record, now)
    path.hold_used(one.record)


def _up(
    path: ChordPath, one: Unsettled, came: int, sender: int | None, waiting: dict[Way, list[Held]]
) -> None:
    topic = path.topic(one.publication.attributes)
    if topic is not None:
        _, way = path.way(topic, came, sender)
        way.last = {lane: last for lane, last in way.last.items() if not lane.session.lost}
        one.record.pending += 1
        waiting.setdefault(way, []).append((one.publication, one.record, came))
