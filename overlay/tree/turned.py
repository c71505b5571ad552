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


class Turning:
    """Of one side: those that have left it in this burst, and what was under way to it when they did."""

    __slots__ = ("filters", "held", "last")

    def __init__(self, filters: Matcher) -> None:
        self.filters = filters
        self.held: Held = []
        self.last = 0  # the last position that was looked at


class TurnedSubscriptions:
    def __init__(self, matcher: Callable[[], Matcher]) -> None:
        self.matcher = matcher
        self._turning: dict[Peer, Turning] = {}

    def attach(self, core: Core) -> None:
        self.core = core

    def turn(self, filter: Filter, left: Peer) -> None:
        turning = self._turning.get(left)
        seen = 0 if turning is None else turning.last
        held = _unsettled(left, seen) if left.out.counted > seen else []  # also what was sent since another
        if turning is None:
            if not held:
                return
            turning = self._turning[left] = Turning(self.matcher())
            self.core.defer(lambda now: self._report(left))
        turning.last = left.out.counted
        turning.held += held
        for record, _ in held:
            record.pending += 1
        turning.filters.add(len(turning.filters), filter, 0)

    def _report(self, left: Peer) -> bool:
        turning = self._turning.pop(left)
        groups = turning.filters.groups
        for record, publications in turning.held:
            wanted = (one for one in publications if groups(decode_attributes(one.attributes)))
            record.cuts += cuts_of(wanted, CUT_LINK_LOST)
            record.release()
        return False


def _unsettled(peer: Peer, after: int) -> Held:
    out = peer.out
    begin = max(out.settled, after) + 1
    parts = [(w.record, list(out.between(max(w.first, begin), w.last))) for w in out.waits if w.last >= begin]
    return [(record, publications) for record, publications in parts if publications]
