"""User placement by similarity (DYNATOPS 4, algorithm 1).

Utility of broker b for user u: |S_b & s_u| / |s_u| - w_l L_b. L_b is b's share of the cluster's
subscriptions: the paper divides by all users, which with a hundred brokers makes w_l mean nothing below 10
(D-2); `everywhere` is for that form. At home S_b holds the user's own topics (D-3, as printed). Ties go to
home, then to less load, then to the lower id. A move must be better than home by more than the margin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from typing import NamedTuple


class Candidate(NamedTuple):
    broker: int
    topics: Set[int]
    load: int  # sum over its users of how many topics they ask for


class Tally(NamedTuple):
    """What users and brokers have changed since the start: subscriptions begun or ended by a user, and topics
    that brokers joined or left for it or to move it; and the same of users who are never moved."""

    placed: int = 0
    placed_topics: int = 0
    pinned: int = 0
    pinned_topics: int = 0

    def counted(self, pinned: bool, by_user: bool, topics: int) -> Tally:
        if pinned:
            return self._replace(pinned=self.pinned + by_user, pinned_topics=self.pinned_topics + topics)
        return self._replace(placed=self.placed + by_user, placed_topics=self.placed_topics + topics)

    def placed_rate(self) -> float:
        return round(self.placed_topics / self.placed, 3) if self.placed else 0.0

    def pinned_rate(self) -> float:
        return round(self.pinned_topics / self.pinned, 3) if self.pinned else 0.0


ENOUGH = 100  # changes of either kind, to say anything


def costs_more(tally: Tally) -> bool:
    """Whether brokers change more for users who are placed than for those who are not."""
    enough = min(tally.placed, tally.pinned) >= ENOUGH
    return enough and tally.placed_topics * tally.pinned > tally.pinned_topics * tally.placed


def similarity(user: Collection[int], topics: Set[int]) -> float:
    """1 for a user who asks for nothing: every broker serves that."""
    return sum(1 for topic in user if topic in topics) / len(user) if user else 1.0


def utility(user: Collection[int], candidate: Candidate, total_load: int, load_weight: float) -> float:
    load = candidate.load / total_load if total_load else 0.0
    return similarity(user, candidate.topics) - load_weight * load


def choose(
    user: Collection[int],
    cluster: Iterable[Candidate],
    home: int | None,
    load_weight: float = 0.0,
    margin: float = 0.0,
    everywhere: int | None = None,
) -> int | None:
    """The broker for this user; `everywhere` is the load of all clusters (the paper's L_b)."""
    candidates = list(cluster)
    total = everywhere if everywhere is not None else sum(candidate.load for candidate in candidates)
    ranked = [(utility(user, one, total, load_weight), one) for one in candidates]
    if not ranked:
        return home
    best = max(value for value, _ in ranked)
    at_home = next((value for value, one in ranked if one.broker == home), None)
    if at_home is not None and best - at_home <= margin + 1e-12:
        return home
    tied = [one for value, one in ranked if value >= best - 1e-12]
    return min(tied, key=lambda one: (one.load, one.broker)).broker
