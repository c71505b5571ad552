"""A gather ends once: by its answers, by lost links, by the deadline, or not at all when abandoned."""

from __future__ import annotations

from random import Random

from overlay.core import Core
from overlay.gather import Gather
from overlay.settings import CoreSettings
from overlay.tree.peer import Peer


def world() -> tuple[Peer, Peer, list[tuple[list[object], int]], Gather]:
    core = Core("b", 1, CoreSettings(), Random(0))
    ends: list[tuple[list[object], int]] = []
    gather = Gather(lambda g, now: ends.append((g.answers, len(g.missing))))
    first, second = Peer(core, 1, "x"), Peer(core, 2, "y")
    return first, second, ends, gather


def test_ends_when_all_have_answered() -> None:
    first, second, ends, gather = world()
    gather.wait_for(first)
    gather.wait_for(second)
    gather.answer(first, "a", 0.0)
    gather.start(0.0)
    assert not ends
    gather.answer(second, "b", 0.0)
    gather.answer(second, "again", 0.0)
    assert ends == [(["a", "b"], 0)]
    assert not first.gathers and not second.gathers


def test_nothing_to_wait_for_ends_at_the_start() -> None:
    _, _, ends, gather = world()
    gather.start(0.0)
    assert ends == [([], 0)]


def test_a_lost_link_discharges_its_part() -> None:
    first, second, ends, gather = world()
    gather.wait_for(first)
    gather.wait_for(second)
    gather.start(0.0)
    gather.answer(second, "b", 0.0)
    gather.lose(first, 0.0)
    assert ends == [(["b"], 1)]


def test_the_deadline_ends_what_is_left() -> None:
    first, _, ends, gather = world()
    gather.wait_for(first)
    gather.start(0.0)
    gather.expire(1.0)
    gather.expire(2.0)
    assert ends == [([], 1)]


def test_an_abandoned_gather_says_nothing() -> None:
    first, _, ends, gather = world()
    gather.wait_for(first)
    gather.start(0.0)
    gather.abandon()
    gather.answer(first, "late", 0.0)
    assert not ends and not first.gathers
