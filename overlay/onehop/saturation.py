"""When a cluster is saturated: response times grow linearly, and nobody is idle (BlueDove IV-B, IV-E)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

FIT = 0.8  # R squared: grows by a line, not by chance
BACKLOG_S = 0.1  # at the matcher with the least
SAMPLES_MIN = 6


def trend(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(slope, R squared) of the least-squares line through (time, value)."""
    count = len(samples)
    if count < 2:
        return 0.0, 0.0
    mean_x = sum(x for x, _ in samples) / count
    mean_y = sum(y for _, y in samples) / count
    xx = sum((x - mean_x) ** 2 for x, _ in samples)
    yy = sum((y - mean_y) ** 2 for _, y in samples)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in samples)
    if xx <= 0 or yy <= 0:
        return 0.0, 0.0
    return xy / xx, xy * xy / (xx * yy)


def saturated(responses: Sequence[tuple[float, float]], backlogs_s: Iterable[float]) -> bool:
    """By mean response times of the last seconds and every serving matcher's work that waits."""
    slope, fit = trend(responses)
    enough = len(responses) >= SAMPLES_MIN
    return enough and slope > 0 and fit > FIT and min(backlogs_s, default=0.0) > BACKLOG_S
