"""GRAPE's records: what a broker notes of one trace session, and what it answers when asked (GRAPE 4.1).

A session is `threshold` consecutive publications of one publisher; each carries the session's id and its
own index. A broker keeps one bit per publication delivered to local subscribers, and their number.
"""

from __future__ import annotations

from bitarray import bitarray

from grapevine.wire.relocation import BrokerTrace, NeighbourDelay, SessionId, Way


class SessionTrace:
    """One publisher's session at one broker. `sent` are the ways to those who got at least one of it from
    here."""

    __slots__ = ("bits", "deliveries", "id", "sent")

    def __init__(self, id: SessionId) -> None:
        self.id = id
        self.bits = bitarray()
        self.deliveries = 0
        self.sent: set[Way] = set()

    def delivered(self, index: int, subscribers: int) -> None:
        """Publication `index` of the session went to so many local subscribers; once, if it comes again."""
        if not subscribers:
            return
        if index >= len(self.bits):
            self.bits.extend([False] * (index + 1 - len(self.bits)))
        if not self.bits[index]:
            self.bits[index] = True
            self.deliveries += subscribers

    def answer(
        self,
        broker: int,
        name: str,
        addresses: tuple[str, ...],
        neighbours: tuple[NeighbourDelay, ...],
        report: dict[str, float],
    ) -> BrokerTrace:
        return BrokerTrace(
            broker,
            name,
            addresses,
            neighbours,
            self.bits.tobytes(),
            self.deliveries,
            max(report.get("queue_delay_s", 0.0), 0.0),
            max(report.get("matching_delay_s", 0.0), 0.0),
            max(report.get("client_delay_s", 0.0), 0.0),
        )
