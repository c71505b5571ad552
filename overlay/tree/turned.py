"""A subscriber turns up behind another neighbour: what is on its way to the former one is cut and told.

Brokers on the former way may have restarted and forgotten it; they settle what comes as if it were for
nobody. Only where both ways part is it known that this was for a subscriber who is elsewhere by now, and
perhaps has not got it. (Were it sent there as well, newer ones might be there before it.) What is not settled
waits until it has been looked through, once for all that turn in a burst.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.filters.normal import Filter
from grapevine.wire import decode_attributes
from grapevine.wire.messages import CUT_LINK_LOST, Publication
from matching.interface import Matcher
from overlay.core import Core
from overlay.links.settling import Settling, cuts_of
from overlay.tree.peer import Peer

Held = list[tuple[Settling, list[Publication]]]


class TurnedSubscriptions:
    def __init__(self, matcher: Callable[[], Matcher]) -> None:
        self.matcher = matcher
        self._turning: dict[Peer, Matcher] = {}  # the side that they have left -> those that have

    def attach(self, core: Core) -> None:
        self.core = core

    def turn(self, filter: Filter, left: Peer) -> None:
        filters = self._turning.get(left)
        if filters is None:
            held = _unsettled(left)
            if not held:
                return
            for record, _ in held:
                record.pending += 1
            filters = self._turning[left] = self.matcher()
            self.core.defer(lambda now: self._report(left, held))
        filters.add(len(filters), filter, 0)

    def _report(self, left: Peer, held: Held) -> bool:
        filters = self._turning.pop(left)
        for record, publications in held:
            wanted = (one for one in publications if filters.groups(decode_attributes(one.attributes)))
            record.cuts += cuts_of(wanted, CUT_LINK_LOST)
            record.release()
        return False


def _unsettled(peer: Peer) -> Held:
    out = peer.out
    parts = [(w.record, list(out.between(max(w.first, out.settled + 1), w.last))) for w in out.waits]
    return [(record, publications) for record, publications in parts if publications]
