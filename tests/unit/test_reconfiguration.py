"""What the manager of a ring makes of reports, and the attempt that it leads."""

from __future__ import annotations

from random import Random

import msgspec

from grapevine.wire.chord import RingNode
from grapevine.wire.reconfiguration import (
    RcfgAbort,
    RcfgDone,
    RcfgFinish,
    RcfgInit,
    RcfgOverlay,
    RcfgPubsub,
    Version,
)
from overlay.chord.ring import ideal
from overlay.coordinate.attempt import Attempt, Kept
from overlay.coordinate.interests import QUESTION, Interests, Survey
from overlay.coordinate.planning import Proposal, search
from overlay.settings import ReconfigurationSettings

VERSION = Version(1, 1, 1)


def node(number: int, position: int) -> RingNode:
    return RingNode(position, number, 1 << 16, f"b{number}", (f"tcp://b{number}:1",))


def reports(
    nodes: list[RingNode], wants: dict[int, list[int]], emitted: dict[int, int]
) -> list[dict[str, object]]:
    found = []
    for one in nodes:
        said = Interests(one, 0, False, tuple(wants.get(one.broker, ())), emitted if one is nodes[0] else {})
        row = {"name": one.name, QUESTION: msgspec.to_builtins(said)}
        found.append(msgspec.json.decode(msgspec.json.encode(row)))
    return found


def found_by(survey: Survey, **settings: float) -> Proposal:
    slices = search(survey, ReconfigurationSettings(**settings), 2)  # type: ignore[arg-type]
    while True:
        try:
            next(slices)
        except StopIteration as end:
            proposal: Proposal = end.value
            return proposal


def ring_of(size: int, seed: int) -> tuple[Survey, list[RingNode]]:
    random = Random(seed)
    nodes = [node(number + 1, random.getrandbits(64)) for number in range(size)]
    topics = [random.getrandbits(64) for _ in range(size)]
    wants = {one.broker: random.sample(topics, 3) for one in nodes}
    survey = Survey(0.3)
    survey.take(reports(nodes, wants, dict.fromkeys(topics, 1000)), 1.0)
    return survey, nodes


def test_counts_are_differences_and_the_filter_weighs_the_last_period() -> None:
    survey, nodes = Survey(0.3), [node(1, 5), node(2, 9)]
    survey.take(reports(nodes, {}, {7: 100}), 0.0)
    survey.take(reports(nodes, {}, {7: 130}), 1.0)
    survey.end_period()
    assert survey.rates == {7: 130.0}
    survey.take(reports(nodes, {}, {7: 30}), 2.0)  # it has restarted
    survey.end_period()
    assert survey.rates == {7: 0.7 * 130 + 0.3 * 30}


def test_nothing_is_planned_while_the_ring_is_not_at_rest() -> None:
    survey, nodes = ring_of(4, 1)
    assert "less than 60 s ago" in survey.unfit(2.0, 60.0)
    assert survey.unfit(62.0, 60.0) == ""
    survey.take([*reports(nodes, {}, {}), {"name": "b9", "missing": True}], 70.0)
    assert "b9 did not answer" in survey.unfit(200.0, 60.0)
    first = Survey(0.3)
    assert "nobody has reported yet" in first.unfit(0.0, 0.0)
    first.take([*reports(nodes, {}, {}), {"name": "b9", "missing": True}], 0.0)
    assert "b9 did not answer" in first.unfit(0.0, 0.0), "of the first answers, too"


def test_a_search_ends_with_the_same_positions_and_a_lower_cost() -> None:
    for seed in range(5):
        survey, nodes = ring_of(12, seed)
        proposal = found_by(survey)
        target = proposal.target()
        assert sorted(one.position for one in target) == sorted(one.position for one in nodes)
        assert sorted(one.broker for one in target) == sorted(one.broker for one in nodes)
        assert [one.position for one in target] == sorted(one.position for one in target)
        assert proposal.then <= proposal.now
        moved = {goes.broker for goes, place in proposal.moves}
        before = {one.broker: one.position for one in nodes}
        assert moved == {one.broker for one in target if before[one.broker] != one.position}


def test_an_attempt_waits_for_everybody_and_sees_who_is_between() -> None:
    survey, _ = ring_of(5, 3)
    ring = survey.nodes()
    attempt = Attempt(VERSION, 1, tuple(ring), found_by(survey).target(), 0.0)
    for place, one in enumerate(ring):
        assert attempt.waiting
        assert not attempt.answered(one.broker, RcfgDone(VERSION, RcfgInit.kind, "", one, ring[place - 1]))
    assert not attempt.waiting and attempt.gaps() == ""
    attempt.befores[ring[2].broker] = 99
    assert ring[2].name in attempt.gaps()
    attempt.turn(RcfgOverlay, 1.0)
    said = attempt.message(ring[0].broker, 3, 2)
    assert isinstance(said, RcfgOverlay)
    rank = attempt.target.index(said.node)
    known = ideal(attempt.target, rank, 3, 2)
    assert (said.predecessor, said.successors) == (known.predecessor, known.successors)
    assert "no" in attempt.answered(ring[1].broker, RcfgDone(VERSION, RcfgOverlay.kind, "no"))
    assert attempt.following() is RcfgPubsub


def test_after_a_restart_it_goes_forward_if_it_was_decided() -> None:
    nodes = (node(1, 5), node(2, 9))
    kept = msgspec.json.decode(msgspec.json.encode(Kept(VERSION, 3, nodes, True)), type=Kept)
    forward = Attempt.again(kept, 0.0)
    assert forward.step is RcfgFinish and forward.over and forward.waiting == {1, 2}
    back = Attempt.again(msgspec.structs.replace(kept, decided=False), 0.0)
    assert back.step is RcfgAbort and back.following() is None
