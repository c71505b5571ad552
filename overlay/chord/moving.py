"""Publications of a plane that is gone go on in the one that the ring is now.

They enter it here as if a client had just published them. Some may have been delivered already, and some come
several times, from a broker that had sent them to several members: duplicates are dropped where they are
delivered. Lanes still only rise: nothing ever goes from the newer plane into the older one.
"""

from __future__ import annotations

from grapevine.wire.messages import Batch
from overlay.chord.path import ChordPath
from overlay.data.reroute import by_publisher, let_go, unsettled
from overlay.links.lane import Lane
from overlay.links.settling import Settling


def adopt(path: ChordPath, lane: Lane, batch: Batch, repeated: int, now: float) -> None:
    """A batch that came by a lane of the old plane."""
    publications = batch.publications[repeated:] if repeated else batch.publications
    lane.received_total += len(publications)
    record = Settling(lane.incoming)
    path.enter(publications, record, now)
    lane.incoming.settle_after(record)
    lane.touch()


def evacuate(old: ChordPath, new: ChordPath, now: float) -> None:
    """All that one path has under way or waiting."""
    lanes = [lane for peer in old.core.peers.values() for lane in old.lanes(peer)]
    for one in by_publisher([one for lane in lanes for one in unsettled(lane)]):
        new.enter([one.publication], one.record, now)
    for lane in lanes:
        let_go(lane)
    waiting = [([publication], record) for way in old.ways.values() for publication, record, _ in way.held]
    waiting += [(one.publications, one.record) for one in old.stranded]
    for several in old.entrance.waiting.values():
        waiting += [([publication for publication, _ in pairs], record) for pairs, record in several]
    for publications, record in waiting:
        new.enter(publications, record, now)
        record.release()
