"""Topic-connected overlays (TCO): every topic's brokers are connected without relays.

Links are added until that holds, each time the one that joins most topics' components among those that do
not raise the largest degree; if none does, the degree may rise by one (MinMax-ODA, the low-degree kind that
the paper's DCB-M divides and conquers). Ties at random: it knows no delay. A rerun drops the links of
brokers that changed and adds what is missing; an incremental one keeps everything and adds what is missing
(D-14). An event floods its topic's subgraph; a publisher's broker outside of it hands it in by one hop.
"""

from __future__ import annotations

import numpy as np

from overlay.coordinate.cost import Matrix
from tools.reproduce.dynatops_overlays import Notified

UNREACHED = 1 << 14


class Components:
    """Of each topic's subgraph; `label` [topic, broker], equal for connected ones."""

    def __init__(self, wanted: Matrix) -> None:
        self.wanted = np.ascontiguousarray(wanted.T)
        topics, brokers = self.wanted.shape
        self.label = np.broadcast_to(np.arange(brokers, dtype=np.int16), (topics, brokers)).copy()

    def joined_by(self, one: int, other: int) -> Matrix:
        """Topics that a link between the two would connect."""
        both = self.wanted[:, one] & self.wanted[:, other]
        found: Matrix = np.flatnonzero(both & (self.label[:, one] != self.label[:, other]))
        return found

    def join(self, one: int, other: int) -> None:
        topics = self.joined_by(one, other)
        if len(topics):
            rows = self.label[topics]
            gone, kept = rows[:, other][:, None], rows[:, one][:, None]
            self.label[topics] = np.where(rows == gone, kept, rows)


def connect(wanted: Matrix, links: Matrix, chance: np.random.Generator) -> Matrix:
    """These links and those that are missing."""
    links = links.copy()
    components = Components(wanted)
    brokers = len(wanted)
    for one, other in zip(*np.nonzero(np.triu(links)), strict=True):
        components.join(int(one), int(other))
    gain = _gains(components, brokers)
    gain += np.where(gain > 0, chance.random((brokers, brokers)) * 0.9, 0)
    degree = links.sum(1)
    while gain.max() >= 1:
        found = _best(components, gain, degree)
        if found is None:
            break
        one, other = found
        components.join(one, other)
        links[one, other] = links[other, one] = True
        degree[[one, other]] += 1
        gain[one, other] = gain[other, one] = 0
    return links


def _gains(components: Components, brokers: int) -> Matrix:
    """[broker, broker] above the diagonal: topics that a link would connect."""
    gain = np.zeros((brokers, brokers))
    for one in range(brokers):
        both = components.wanted & components.wanted[:, one][:, None]
        apart = components.label != components.label[:, one][:, None]
        gain[one] = (both & apart).sum(0)
    return np.triu(gain, 1)


def _best(components: Components, gain: Matrix, degree: Matrix) -> tuple[int, int] | None:
    """Gains only fall, so the largest known one is looked at again before it is believed."""
    limit = max(int(degree.max()), 1)
    while True:
        free = degree < limit
        masked = np.where(free[:, None] & free[None], gain, 0)
        while True:
            one, other = divmod(int(masked.argmax()), len(gain))
            if masked[one, other] < 1:
                break
            known, fresh = int(masked[one, other]), len(components.joined_by(one, other))
            if fresh >= known:
                return one, other
            gain[one, other] = masked[one, other] = fresh + (masked[one, other] - known if fresh else 0)
        if limit > degree.max():
            return None
        limit += 1


def rerun(wanted: Matrix, before: Matrix, links: Matrix, chance: np.random.Generator) -> Matrix:
    """Links anew for the brokers whose subscriptions differ from `before`."""
    changed = (wanted != before).any(1)
    return connect(wanted, links & ~changed[:, None] & ~changed[None], chance)


def changed_links(one: Matrix, other: Matrix) -> int:
    return int((one != other).sum() // 2)


def flooded(users: Matrix, links: Matrix, publishers: Matrix, chance: np.random.Generator) -> Notified:
    """`users` [broker, topic], `publishers` [topic]: the broker of an event's publisher."""
    wanted = users.T > 0
    topics = len(wanted)
    rows = np.arange(topics)
    outside = ~wanted[rows, publishers]
    random_member = (chance.random(wanted.shape) * wanted).argmax(1)
    start = np.where(outside, random_member, publishers)
    hops = np.full(wanted.shape, UNREACHED, np.int16)
    served = wanted.any(1)
    hops[rows[served], start[served]] = outside[served]
    front = np.zeros(wanted.shape, np.float32)
    front[rows[served], start[served]] = 1
    near, step = links.astype(np.float32), 1
    while front.any():
        reached = (front @ near > 0) & wanted & (hops == UNREACHED)
        hops[reached] = np.broadcast_to((step + outside)[:, None], hops.shape)[reached]
        front, step = reached.astype(np.float32), step + 1
    got = hops < UNREACHED
    assert (got == wanted)[served].all(), "a topic is not connected"
    weight = np.where(got, users.T, 0)
    return Notified(
        float((got.sum(1) - served + (outside & served)).mean()),
        0.0,
        float((np.where(got, hops, 0) * weight).sum() / weight.sum()),
        float(np.where(got, hops, 0).sum() / got.sum()),
    )
