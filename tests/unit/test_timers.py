"""Deadlines: their order, what is due, and what a cancelled one leaves behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.timers import Timers

TIMES = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=60)


@given(TIMES, st.integers(0, 20))
def test_due_ones_are_called_by_time_and_then_by_age(times: list[tuple[int, bool]], now: int) -> None:
    timers, called = Timers(), list[int]()
    made = [
        timers.at(when, lambda _, number=number: called.append(number))
        for number, (when, _) in enumerate(times)
    ]
    for timer, (_, cancelled) in zip(made, times, strict=True):
        if cancelled:
            timer.cancel()
    left = sorted((when, number) for number, (when, cancelled) in enumerate(times) if not cancelled)
    assert len(timers) == len(left)
    assert timers.next() == (left[0][0] if left else None)
    timers.run(now)
    assert called == [number for when, number in left if when <= now]
    assert len(timers) == len(left) - len(called)


def test_one_that_is_due_may_cancel_the_next_and_set_another() -> None:
    timers, called = Timers(), list[str]()

    def first(now: float) -> None:
        called.append("first")
        second.cancel()
        timers.at(now, lambda _: called.append("third"))

    timers.at(1.0, first)
    second = timers.at(1.0, lambda _: called.append("second"))
    timers.run(2.0)
    assert called == ["first"]
    timers.run(2.0)
    assert called == ["first", "third"]
    second.cancel()
    assert len(timers) == 0
