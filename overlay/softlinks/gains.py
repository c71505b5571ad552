"""SPEC M5: what a link is worth (paper, 6).

gain(N) = publications sent to N during T x (dist(A, N) - 1) x loadScalingFactor(N). The paper's factor is a
product over the bypassed brokers of 1 + min(0, load - threshold), which can only lower the gain although the
text wants to boost links past overloaded brokers. `boost` takes the maximum instead; `paper` is as printed.
"""

from __future__ import annotations

from collections.abc import Iterable

FACTORS = ("boost", "paper")


def load_scaling_factor(loads: Iterable[float], threshold: float, form: str = "boost") -> float:
    """`loads` are the normalised loads (0 to 1) of the brokers that the link bypasses."""
    factor = 1.0
    for load in loads:
        over = load - threshold
        factor *= 1.0 + (min(0.0, over) if form == "paper" else max(0.0, over))
    return factor


def link_gain(
    publications: int, distance: int, loads: Iterable[float], threshold: float, form: str = "boost"
) -> float:
    return publications * (distance - 1) * load_scaling_factor(loads, threshold, form)
