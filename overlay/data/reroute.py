"""What is not settled on a stream goes another way: taken back oldest first, under the same settle records.

A publication that had been sent carries RESENT from then on. Whoever cannot be served any more is reported as
cut. Nothing newer may be sent to the new hops before; that is the caller's to see to, as a rule by holding
them. A duplicate is recognised by its publisher's last sequence: newer ones would hide older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from grapevine.wire.messages import CUT_LINK_LOST, RESENT, Publication
from overlay.links.exclusions import Names
from overlay.links.lane import Lane
from overlay.links.outgoing import Outgoing
from overlay.links.settling import Settling, cuts_of


class Unsettled(NamedTuple):
    publication: Publication  # with RESENT, if it was sent
    names: Names  # its exclude list
    record: Settling
    sent: bool


Send = Callable[[Unsettled], Iterable[Lane]]  # append it somewhere; where


def unsettled(out: Outgoing) -> Iterator[Unsettled]:
    """In the order of the stream."""
    for wait in out.waits:
        first = max(wait.first, out.settled + 1)
        for position, (publication, names) in enumerate(out.excluding(first, wait.last), first):
            sent = position <= out.sent
            if sent:
                publication = replace(publication, flags=publication.flags | RESENT)
            yield Unsettled(publication, names, wait.record, sent)


def by_publisher(taken: list[Unsettled]) -> list[Unsettled]:
    """Of several streams: each publisher's in its order."""
    return sorted(taken, key=lambda one: _order(one.publication))


def _order(publication: Publication) -> tuple[int, int, int]:
    return publication.publisher, publication.incarnation, publication.sequence


def send_anew(taken: Iterable[Unsettled], send: Send) -> None:
    """Hand each on; what was sent before and has nowhere to go now is cut."""
    for one in taken:
        lanes = dict.fromkeys(send(one))
        if one.sent and not lanes:
            one.record.cuts += cuts_of([one.publication], CUT_LINK_LOST)
        for lane in lanes:
            lane.out.hold(one.record)
            lane.touch()


def let_go(out: Outgoing) -> None:
    """All that it had is held elsewhere by now."""
    waits = list(out.waits)
    out.waits.clear()
    out.forget()
    for wait in waits:
        wait.record.release()


def reroute(lane: Lane, send: Send) -> None:
    """Everything that one stream has not settled, another way."""
    send_anew(list(unsettled(lane.out)), send)
    let_go(lane.out)
