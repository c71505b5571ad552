"""Which candidate is asked (BlueDove III-B). Pure: candidates, what is known of loads, the time, a chance.

* amount: the smallest set. random: any. response: least (q + 1) / mu as last reported. adaptive: the same
  with q extrapolated, q_t = q + (lambda - mu)(t - t'), not below 0. As printed.
* price (ours): least backlog x cost, in seconds each: the work that waits at the matcher by its last report,
  less the time since, plus what this dispatcher has sent since times the number of dispatchers (the others
  send alike), times what this publication costs there. It is the MaxWeight rule; figures about adaptive are
  made with adaptive.
* Equal ones are drawn by the broker's own chance, so that dispatchers do not agree on one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Literal, NamedTuple

from grapevine.wire.onehop import DimensionLoad
from overlay.onehop.segments import Candidate

FLOOR_S = 0.002  # added to every backlog: where nobody waits the cost decides
Policy = Literal["price", "adaptive", "response", "amount", "random"]


class MatcherLoad(NamedTuple):
    """What a dispatcher knows of one matcher."""

    dimensions: Sequence[DimensionLoad]
    at: float  # of the report
    backlog_s: float = 0.0  # work that waited at `backlog_at`
    backlog_at: float = 0.0

    def backlog(self, now: float) -> float:
        return max(0.0, self.backlog_s - (now - self.backlog_at))

    def after_sending(self, work_s: float, now: float) -> MatcherLoad:
        """With so much more work sent; what it has idled away before does not count against it."""
        return MatcherLoad(self.dimensions, self.at, self.backlog(now) + work_s, now)


Loads = Mapping[int, MatcherLoad]
Score = Callable[[Candidate, MatcherLoad, float], float]


def amount_score(candidate: Candidate, load: MatcherLoad, now: float) -> float:
    return load.dimensions[candidate.dimension].size


def response_score(candidate: Candidate, load: MatcherLoad, now: float) -> float:
    of = load.dimensions[candidate.dimension]
    return (of.waiting + 1) / of.mu


def queue_at(load: DimensionLoad, at: float, now: float) -> float:
    """III-B: the linear extrapolation of a queue's length."""
    return max(0.0, load.waiting + (load.arrivals - load.mu) * (now - at))


def adaptive_score(candidate: Candidate, load: MatcherLoad, now: float) -> float:
    of = load.dimensions[candidate.dimension]
    return (queue_at(of, load.at, now) + 1) / of.mu


def price_score(candidate: Candidate, load: MatcherLoad, now: float) -> float:
    return (load.backlog(now) + FLOOR_S) * load.dimensions[candidate.dimension].cost_s


SCORES: dict[str, Score] = {
    "price": price_score,
    "adaptive": adaptive_score,
    "response": response_score,
    "amount": amount_score,
}


def pick_matcher(
    policy: Policy, candidates: Sequence[Candidate], loads: Loads, now: float, chance: Random
) -> Candidate:
    """One of the candidates, of which there must be one. Who has not reported yet is taken to be idle."""
    if policy == "random" or len(candidates) == 1:
        return candidates[chance.randrange(len(candidates))] if len(candidates) > 1 else candidates[0]
    score = SCORES[policy]
    least = 0.0
    best: list[Candidate] = []
    for candidate in candidates:
        load = loads.get(candidate.matcher)
        value = 0.0 if load is None else score(candidate, load, now)
        if not best or value < least:
            least, best = value, [candidate]
        elif value == least:
            best.append(candidate)
    return best[chance.randrange(len(best))] if len(best) > 1 else best[0]
