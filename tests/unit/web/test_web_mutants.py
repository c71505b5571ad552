"""Mutants: what the page must never do is done on purpose, and a story has to notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit import test_pubctl_picture as pictures
from tests.unit.web import test_web_engine as engine_stories
from tests.unit.web import test_web_guard as guard_stories
from tools.pubctl import graph, picture
from tools.web import rates
from tools.web.guard import Guard
from tools.web.members import Members


def notices(story: Callable[..., None], *arguments: object) -> None:
    with pytest.raises(AssertionError):
        story(*arguments)


def test_widths_by_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = property(lambda edge: float(edge.down + edge.up))
    pictures.test_widths_are_rates_and_never_totals()
    monkeypatch.setattr(graph.Edge, "rate", totals)
    notices(pictures.test_widths_are_rates_and_never_totals)
    monkeypatch.undo()
    monkeypatch.setattr(picture, "line_width", lambda rate: 1.5 + rate / 1000)
    notices(pictures.test_widths_are_rates_and_never_totals)


def test_rates_across_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: rates.Rates, beats: list[rates.Beat]) -> None:
        self.brokers, self.links = {}, {}
        for beat in beats:
            if (before := self._before.get(beat.name)) is not None:
                self._grow(before, beat)
            self._before[beat.name] = beat

    monkeypatch.setattr(rates.Rates, "take", careless)
    notices(engine_stories.test_there_is_no_rate_across_a_restart)


def test_a_fallen_counter_as_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        rates, "grown", lambda before, now, s: max(0, now - before) / s if before is not None else None
    )
    notices(engine_stories.test_a_counter_that_falls_has_no_rate)


def test_a_forgotten_dead_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Members.take

    def forgetful(self: Members, look: object, now: float) -> list[tuple[str, str, str]]:
        found = taken(self, look, now)  # type: ignore[arg-type]
        self.brokers = {name: broker for name, broker in self.brokers.items() if broker.state != "gone"}
        return found

    monkeypatch.setattr(Members, "take", forgetful)
    with pytest.raises((AssertionError, KeyError, StopIteration)):
        engine_stories.test_nobody_vanishes()


def test_a_missing_host_check(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = guard_stories.Caller().enter()
    story = guard_stories.test_a_foreign_host_is_refused_everywhere
    story(caller, "evil.example", "/api/v1/overlay")
    monkeypatch.setattr(Guard, "check_host", lambda self, host: None)
    notices(story, caller, "evil.example", "/api/v1/overlay")


def test_a_missing_csrf_check(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = guard_stories.Caller().enter()
    monkeypatch.setattr(Guard, "check_csrf", lambda self, session, word: None)
    notices(guard_stories.test_a_post_must_be_the_pages_own, caller)
