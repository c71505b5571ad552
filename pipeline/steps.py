"""Steps in time: of a table by minutes, of a picture, and moments as one writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from pipeline.trouble import USAGE, Trouble

STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600)
MINUTE_S = 60.0
SHORT_S = 600.0  # below, a minute is too coarse to see anything
SHORT_STEPS = 60
LONG_STEPS = 4000
COLUMNS = 96  # of the picture of the load


def nice(seconds: float) -> float:
    """The shortest step of a clock that is not shorter than this."""
    return float(next((step for step in STEPS_S if step >= seconds), STEPS_S[-1]))


def timeline_step_s(span_s: float) -> float:
    """A minute, unless the run is so short or so long that nothing would be seen."""
    if span_s < SHORT_S:
        return min(MINUTE_S, nice(span_s / SHORT_STEPS))
    return max(MINUTE_S, nice(span_s / LONG_STEPS))


def load_step_s(span_s: float) -> float:
    return nice(span_s / COLUMNS)


def moment_ns(text: str, option: str) -> int:
    """Of a time as 2026-05-01T12:00, in UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Trouble(f"{option} {text}: write a time as 2026-05-01T12:00", USAGE) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e9)
