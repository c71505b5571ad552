"""Rates from counters. A rate needs two pulses of one incarnation with counters that did not fall, and is
over the broker's own clock; everything else is not known, which is None and not zero.
"""

from __future__ import annotations

from typing import NamedTuple

from tools.web.model import Beat, LinkBeat, Rate

LEAST_MS = 50  # two pulses that are closer say nothing


class BrokerRates(NamedTuple):
    in_s: Rate
    out_s: Rate
    accepted_s: Rate
    delivered_s: Rate
    forwarded_s: Rate


class LinkRates(NamedTuple):
    """As the broker that reports the link sees it."""

    sent_s: Rate
    received_s: Rate
    sent_bytes_s: Rate
    received_bytes_s: Rate


UNKNOWN = BrokerRates(None, None, None, None, None)
NO_RATE = LinkRates(None, None, None, None)


class Rates:
    def __init__(self) -> None:
        self._before: dict[str, Beat] = {}
        self.brokers: dict[str, BrokerRates] = {}
        self.links: dict[tuple[str, str, str], LinkRates] = {}  # (reporter, peer, kind)

    def take(self, beats: list[Beat]) -> None:
        """Rates of those who answered; who did not has none."""
        self.brokers, self.links = {}, {}
        for beat in beats:
            before = self._before.get(beat.name)
            if before is not None and before.t_ms == beat.t_ms and before.incarnation == beat.incarnation:
                continue
            if before is not None and before.incarnation == beat.incarnation:
                self._grow(before, beat)
            else:
                self.brokers[beat.name] = UNKNOWN
            self._before[beat.name] = beat

    def _grow(self, before: Beat, now: Beat) -> None:
        elapsed_s = (now.t_ms - before.t_ms) / 1000
        if elapsed_s * 1000 < LEAST_MS:
            self.brokers[now.name] = UNKNOWN
            return
        accepted_s = grown(before.accepted, now.accepted, elapsed_s)
        received_s = grown(before.received, now.received, elapsed_s)
        forwarded_s = grown(before.forwarded, now.forwarded, elapsed_s)
        delivered_s = grown(before.delivered, now.delivered, elapsed_s)
        self.brokers[now.name] = BrokerRates(
            added(accepted_s, received_s),
            added(forwarded_s, delivered_s),
            accepted_s,
            delivered_s,
            forwarded_s,
        )
        old = {(link.peer, link.kind): link for link in before.links}
        for link in now.links:
            if (earlier := old.get((link.peer, link.kind))) is not None and link.kind != "candidate":
                self.links[now.name, link.peer, link.kind] = _link(earlier, link, elapsed_s)


def _link(before: LinkBeat, now: LinkBeat, elapsed_s: float) -> LinkRates:
    sent_s, received_s = (
        grown(before.sent, now.sent, elapsed_s),
        grown(before.received, now.received, elapsed_s),
    )
    if now.bytes_out is None:  # a broker that does not count them
        return LinkRates(sent_s, received_s, None, None)
    return LinkRates(
        sent_s,
        received_s,
        grown(before.bytes_out, now.bytes_out, elapsed_s),
        grown(before.bytes_in, now.bytes_in, elapsed_s),
    )


def grown(before: int | None, now: int | None, elapsed_s: float) -> Rate:
    if before is None or now is None or now < before:
        return None
    return round((now - before) / elapsed_s, 1)


def added(*rates: Rate) -> Rate:
    """None if one of them is not known."""
    total = 0.0
    for rate in rates:
        if rate is None:
            return None
        total += rate
    return total


def summed(rates: list[Rate]) -> Rate:
    """Of those that are known; None if none is."""
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 1) if known else None
