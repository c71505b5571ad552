"""SPEC M4: which links a publication takes, given the working anchors it matches (paper, 2 and 5).

`anchors` are bits over a WorkingOverlayMap's BrokerArr, already without those that lie back where the
publication came from. The results are places in BrokerArr. S0, S1 and S2 are as printed: whoever gets a copy
serves everything beyond itself. SH is S1 above a share of the uplink's capacity and S2 below it. SD is ours:
each anchor's path depends on the links alone, so copies to nearer brokers name the farther ones that are
served directly (DECISIONS 18), and a publisher's order is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from bitarray import bitarray
from bitarray.util import zeros

from overlay.softlinks.working import WorkingOverlayMap

LinkChoice = Callable[[WorkingOverlayMap, bitarray], list[int]]


def choose_links_s0(map: WorkingOverlayMap, anchors: bitarray) -> list[int]:
    """Primary links only: on a map of those alone, every anchor is a neighbour."""
    return list(anchors.search(1))


def choose_links_s1(map: WorkingOverlayMap, anchors: bitarray) -> list[int]:
    """Figure 5: the farthest linked brokers on the intersection of the paths to all anchors."""
    left = anchors.copy()
    intersection = zeros(len(anchors))
    for number in anchors.search(1):
        between = map.between[number]
        if (intersection & between).any():
            intersection &= between | map.behind[number]
        else:
            intersection |= between
    forward = []
    for number in reversed(list(intersection.search(1))):
        beyond = map.beyond[number]
        if (left & beyond).any():
            forward.append(number)
            left &= ~beyond
            if not left.any():
                break
    return forward


def choose_links_s2(map: WorkingOverlayMap, anchors: bitarray) -> list[int]:
    """Figure 6: each anchor directly, but for those behind another anchor."""
    left = anchors.copy()
    forward = []
    number = left.find(1)
    while number >= 0:
        forward.append(number)
        left &= ~map.beyond[number]
        number = left.find(1, number + 1)
    return forward


def choose_links_sh(map: WorkingOverlayMap, anchors: bitarray, use: float, share: float = 0.8) -> list[int]:
    """`use` of the uplink's capacity, 0 to 1; above `share` of it copies are saved."""
    return choose_links_s1(map, anchors) if use >= share else choose_links_s2(map, anchors)


def choose_links_sd(map: WorkingOverlayMap, anchors: bitarray) -> list[tuple[int, list[int]]]:
    """Each anchor directly, whatever else matches; with each link the places that its copy excludes."""
    return [(number, excluded_beyond(map, number)) for number in anchors.search(1)]


def excluded_beyond(map: WorkingOverlayMap, number: int) -> list[int]:
    """The nearest linked brokers beyond this one: they and all behind them have a link of their own. They are
    named whether the publication matches there or not, or a subscription that is on its way to us would get
    it by another path than what was sent before."""
    beyond = map.beyond[number].copy()
    beyond[number] = 0
    return [other for other in beyond.search(1) if (map.between[other] & beyond).count() == 1]
