"""What is not settled on a stream goes another way: taken back oldest first, under the same settle records.

A publication that had been sent carries RESENT from then on. Whoever cannot be served any more is reported as
cut. Nothing newer may be sent to the new hops before; that is the caller's to see to, as a rule by pausing
them. A duplicate is recognised by its publisher's last sequence: newer ones would hide older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from grapevine.wire.messages import CUT_LINK_LOST, RESENT, Publication
from overlay.links.exclusions import Names
from overlay.links.lane import Lane
from overlay.links.settling import Settling, cuts_of


class Unsettled(NamedTuple):
    lane: Lane  # where it was
    publication: Publication  # with RESENT, if it was sent
    names: Names  # its exclude list
    record: Settling
    sent: bool


Send = Callable[[Unsettled], Iterable[Lane]]  # append it somewhere; where


def unsettled(lane: Lane) -> Iterator[Unsettled]:
    """In the order of the stream."""
    out = lane.out
    for wait in out.waits:
        first = max(wait.first, out.settled + 1)
        for position, (publication, names) in enumerate(out.excluding(first, wait.last), first):
            sent = position <= out.sent
            if sent:
                publication = replace(publication, flags=publication.flags | RESENT)
            yield Unsettled(lane, publication, names, wait.record, sent)


def by_publisher(taken: list[Unsettled]) -> list[Unsettled]:
    """Of several streams: each publisher's in its order."""
    return sorted(taken, key=lambda one: _order(one.publication))


def _order(publication: Publication) -> tuple[int, int, int]:
    return publication.publisher, publication.incarnation, publication.sequence


def send_anew(taken: Iterable[Unsettled], send: Send) -> list[Unsettled]:
    """Hand each on; returns what has nowhere to go."""
    nowhere = []
    for one in taken:
        lanes = dict.fromkeys(send(one))
        if not lanes:
            nowhere.append(one)
        for lane in lanes:
            lane.out.hold(one.record)
            lane.touch()
    return nowhere


def cut(taken: Iterable[Unsettled]) -> None:
    """Report these to their publishers as undelivered."""
    by_record: dict[Settling, list[Publication]] = {}
    for one in taken:
        by_record.setdefault(one.record, []).append(one.publication)
    for record, publications in by_record.items():
        record.cuts += cuts_of(publications, CUT_LINK_LOST)


def let_go(lane: Lane) -> None:
    """All that it had waits elsewhere by now."""
    out = lane.out
    waits = list(out.waits)
    out.waits.clear()
    out.forget()
    for wait in waits:
        wait.record.release()


def renew(lanes: Sequence[Lane], send: Send) -> None:
    """Everything that these streams have not settled is sent anew, perhaps to a part of them again: their
    positions do not go on where they were."""
    taken = [one for lane in lanes for one in unsettled(lane)]
    waits = [wait for lane in lanes for wait in lane.out.waits]
    for lane in lanes:
        lane.out.waits.clear()
        lane.out.forget()
    send_anew(by_publisher(taken) if len(lanes) > 1 else taken, send)
    for wait in waits:
        wait.record.release()


def reroute(lanes: Sequence[Lane], send: Send) -> None:
    """Everything that these streams have not settled, another way; what was sent and nobody takes is cut."""
    taken = [one for lane in lanes for one in unsettled(lane)]
    nowhere = send_anew(by_publisher(taken) if len(lanes) > 1 else taken, send)
    cut(one for one in nowhere if one.sent)
    for lane in lanes:
        let_go(lane)
