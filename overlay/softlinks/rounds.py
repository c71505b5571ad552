"""SPEC M6: a round looks at what each link was worth and decides which to keep, promote, discard, explore.

At most `fanout` primary and soft links, at most `maxlinks` with the candidates (paper, 6). Soft and candidate
links are ranked by gain; a candidate takes a soft link's place only if it is clearly better, or the two would
swap every round. New candidates are the neighbours of the links that carried most: those past slow links and
loaded brokers first. A candidate that was not promoted makes room and is not tried again until the others
have been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

CLEARLY = 1.1  # times the gain of the link it replaces


class Round(NamedTuple):
    promote: list[int]
    discard: list[int]
    explore: list[int]  # all candidates of the next round


def rank_links(soft: Mapping[int, float], candidates: Mapping[int, float]) -> list[int]:
    """By gain, the best first; a soft link counts a little more than a candidate."""
    worth = {broker: gain for broker, gain in candidates.items() if gain > 0}
    worth |= {broker: gain * CLEARLY for broker, gain in soft.items() if gain > 0}
    return sorted(worth, key=lambda broker: (-worth[broker], broker))


def decide_round(
    primary: Iterable[int],
    soft: Mapping[int, float],
    candidates: Mapping[int, float],
    wanted: Iterable[int],
    fanout: int,
    maxlinks: int,
) -> Round:
    """`soft` and `candidates` by gain; `wanted` are brokers to explore, the most promising first."""
    count = len(set(primary))
    kept = rank_links(soft, candidates)[: max(0, fanout - count)]
    promote = [broker for broker in kept if broker not in soft]
    discard = [broker for broker in soft if broker not in kept]
    room = max(0, maxlinks - max(fanout, count + len(kept)))
    explore = [broker for broker in dict.fromkeys(wanted) if broker not in kept and broker not in candidates]
    again = [b for b in sorted(candidates, key=lambda b: (-candidates[b], b)) if b not in kept]
    return Round(promote, discard, (explore + again)[:room])


def explore_from(
    carried: Mapping[int, float],
    beside: Callable[[int], Iterable[int]],
    linked: Callable[[int], bool],
    hurry: Callable[[int], float],
) -> list[int]:
    """Neighbours of the links that carried most, without a link yet. `hurry` is how slow and loaded the way
    to a broker is; it decides among the neighbours of one link."""
    found: dict[int, None] = {}
    for broker in sorted(carried, key=lambda b: (-carried[b], b)):
        if carried[broker] > 0:
            fresh = [other for other in beside(broker) if not linked(other)]
            found |= dict.fromkeys(sorted(fresh, key=lambda other: (-hurry(other), other)))
    return list(found)
