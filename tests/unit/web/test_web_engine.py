"""Truth of the page: rates that know what they do not know, brokers that never vanish, numbers that stay."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.web.pulses import Script, beat, link, look, report, row
from tools.pubctl.failure import TIMEOUT, Failure
from tools.web.engine import Engine, changed
from tools.web.health import health, troubles
from tools.web.history import POINTS, History
from tools.web.members import Members
from tools.web.model import ABSENT, NO_ANSWER, OLD, SLOW, Event, Overlay, Pulse, SourceState
from tools.web.rates import Rates

TREE = [
    report("b1", None, row("b2")),
    report("b2", "b1", row("b1", True), row("b3")),
    report("b3", "b2", row("b2", True)),
]


def only(documents: list[Any], kind: type) -> Any:
    (found,) = [document for document in documents if isinstance(document, kind)]
    return found


# --- rates ------------------------------------------------------------------------------------------


def rates(*looks: Any) -> Rates:
    made = Rates()
    for one in looks:
        made.take(one.beats)
    return made


def test_a_rate_is_over_the_brokers_own_clock() -> None:
    """However long the answer took."""
    found = rates(
        look(beat("b1", 1000, accepted=10, received=4)), look(beat("b1", 3000, accepted=30, received=6))
    )
    assert found.brokers["b1"].accepted_s == 10.0
    assert found.brokers["b1"].in_s == 11.0


def test_there_is_no_rate_across_a_restart() -> None:
    """Also where the counter of the new life is higher."""
    found = rates(
        look(beat("b1", 1000, accepted=10)), look(beat("b1", 2000, incarnation=2, accepted=5_000_000))
    )
    assert found.brokers["b1"].accepted_s is None
    found.take(look(beat("b1", 3000, incarnation=2, accepted=5_000_040)).beats)
    assert found.brokers["b1"].accepted_s == 40.0


def test_a_counter_that_falls_has_no_rate() -> None:
    found = rates(
        look(beat("b1", 1000, link("b2", 500), delivered=100)),
        look(beat("b1", 2000, link("b2", 3), delivered=90)),
    )
    assert found.brokers["b1"].delivered_s is None
    assert found.brokers["b1"].accepted_s == 0.0
    assert found.links["b1", "b2", "primary"].sent_s is None


def test_a_gap_is_bridged_and_a_repeated_pulse_says_nothing() -> None:
    found = rates(look(beat("b1", 1000, accepted=0)), look(), look(beat("b1", 6000, accepted=50)))
    assert found.brokers["b1"].accepted_s == 10.0
    found.take(look(beat("b1", 6000, accepted=50)).beats)
    assert "b1" not in found.brokers
    found.take(look(beat("b1", 6010, accepted=60)).beats)  # too close to say anything
    assert found.brokers["b1"].accepted_s is None


def test_a_candidate_carries_nothing() -> None:
    found = rates(
        look(beat("b1", 0, link("b3", 5, kind="candidate"))),
        look(beat("b1", 1000, link("b3", 9, kind="candidate"))),
    )
    assert not found.links


# --- who is there -----------------------------------------------------------------------------------


def engine(*looks: Any, reports: list[dict[str, Any]] | None = None) -> Engine:
    return Engine(Script(*looks, reports=TREE if reports is None else reports), 1.0)


def three(t_ms: int, **of_b3: Any) -> Any:
    return look(
        beat("b1", t_ms, link("b2")),
        beat("b2", t_ms, link("b1"), link("b3")),
        beat("b3", t_ms, link("b2"), **of_b3),
    )


def states(made: Engine) -> dict[str, str]:
    return {broker.name: broker.state for broker in made.overlay().brokers}


def test_nobody_vanishes() -> None:
    made = engine(
        three(0),
        look(beat("b1", 1000, link("b2")), missing=("b2",)),  # b3 is behind it, and nobody says so
        look(beat("b1", 2000, link("b2")), missing=("b2",), cut_off=("b3",)),
        look(beat("b1", 3000)),  # forgotten by its neighbour
        three(4000),
    )
    made.look(100.0)
    assert states(made) == {"b1": "ready", "b2": "ready", "b3": "ready"}
    for at in (101.0, 102.0):
        told = made.look(at)
        assert states(made) == {"b1": "ready", "b2": "no answer", "b3": "cut off"}
    pulse = only(told, Pulse)
    flags = {r[0]: r[1] for r in made.whole().b}  # type: ignore[union-attr]
    assert flags[1] & NO_ANSWER and flags[1] & ABSENT and pulse.total.brokers == 3
    made.look(103.0)
    assert states(made)["b2"] == "gone"
    assert next(b for b in made.overlay().brokers if b.name == "b2").since == 103.0
    events = [e for e in made.look(104.0) if isinstance(e, Event)]
    assert states(made) == {"b1": "ready", "b2": "ready", "b3": "ready"}
    assert {(e.broker, e.kind) for e in events} == {("b2", "back"), ("b3", "back")}


def test_who_said_that_it_leaves_has_left() -> None:
    made = engine(three(0, state="leaving"), look(beat("b1", 1000), beat("b2", 1000)))
    made.look(1.0)
    made.look(2.0)
    assert states(made)["b3"] == "left"
    assert made.members.forget("b3")
    assert "b3" not in states(made)
    assert not made.members.forget("b1")


def test_numbers_stay_for_the_life_of_the_process() -> None:
    made = engine(three(0), look(beat("b1", 1000)), look(beat("b9", 2000), beat("b1", 2000)), three(3000))
    for at in range(4):
        made.look(float(at))
    numbers = {broker.name: broker.i for broker in made.overlay().brokers}
    assert numbers == {"b1": 0, "b2": 1, "b3": 2, "b9": 3}
    assert len({one.i for one in made.members.links.values()}) == len(made.members.links)


def test_a_restart_is_an_event() -> None:
    made = engine(three(0), three(1000, incarnation=2))
    made.look(1.0)
    assert [e.kind for e in made.look(2.0) if isinstance(e, Event)] == ["restart"]


def test_the_overlay_is_asked_again_only_when_its_shape_moves() -> None:
    made = engine(three(0), three(1000), three(2000, generation=2), three(3000, generation=2))
    counts = []
    for at in range(4):
        made.look(float(at))
        counts.append(made.source.overlays)  # type: ignore[attr-defined]
    assert counts == [1, 1, 2, 2]


def test_facts_have_an_age() -> None:
    made = engine(three(0), look(beat("b1", 1000), beat("b2", 1000), missing=("b3",)))
    made.look(100.0)
    made.look(110.0)
    rows = {r[0]: r for r in made.whole().b}  # type: ignore[union-attr]
    assert rows[2][1] & OLD and rows[2][17] == 10.0
    assert rows[2][2] is None  # no rate of who does not answer


def test_the_source_is_slow_then_lost_then_back() -> None:
    lost = Failure("nobody listens at tcp://b1", TIMEOUT)
    made = engine(three(0), lost, lost, three(9000))
    made.look(100.0)
    assert only(made.look(101.0), SourceState).state == "slow"
    state = only(made.look(105.0), SourceState)
    assert (state.state, state.age_s) == ("lost", 5.0)
    assert only(made.look(106.0), SourceState).state == "ok"


def test_a_one_hop_member_says_its_segments() -> None:
    made = engine(
        look(beat("b1", 0)),
        reports=[report("b1") | {"segments": {"price": [[None, 5], [9, 12]]}, "roles": ["matcher"]}],
    )
    made.look(1.0)
    (broker,) = made.overlay().brokers
    assert broker.segments == [
        {"dimension": "price", "low": None, "high": 5},
        {"dimension": "price", "low": 9, "high": 12},
    ]
    assert broker.roles == ["matcher"]


def test_a_broker_on_a_ring_says_its_place() -> None:
    """Its links are successors and fingers then; their rates are those of the links all the same."""
    place = {"position": "8000000000000000", "successors": ["b2", "b3"], "fingers": ["b3"], "parent": None}
    reports = [report("b1", None, row("b2"), row("b3")) | place, report("b2"), report("b3")]

    def at(t_ms: int, sent: int) -> Any:
        return look(
            beat("b1", t_ms, link("b2", sent), link("b3", 2 * sent)), beat("b2", t_ms), beat("b3", t_ms)
        )

    made = engine(at(0, 0), at(1000, 30), reports=reports)
    made.look(1.0)
    made.look(2.0)
    overlay = made.overlay()
    kinds = {frozenset((one.a, one.b)): (one.i, one.kind) for one in overlay.links}
    assert kinds[frozenset((0, 1))][1] == "successor" and kinds[frozenset((0, 2))][1] == "finger"
    rates = {values[0]: (values[1] or 0) + (values[2] or 0) for values in made.whole().l}  # type: ignore[union-attr]
    assert rates[kinds[frozenset((0, 1))][0]] == 30 and rates[kinds[frozenset((0, 2))][0]] == 60
    ring = next(b for b in overlay.brokers if b.name == "b1").ring
    assert ring is not None and ring["id"] == "8000000000000000"


# --- links ------------------------------------------------------------------------------------------


def test_each_direction_is_told_by_the_end_that_sends() -> None:
    made = engine(
        look(beat("b1", 0, link("b2", 0, 0)), beat("b2", 5000, link("b1", 0, 0))),
        look(beat("b1", 1000, link("b2", 10, 99)), beat("b2", 7000, link("b1", 40, 88))),
        reports=TREE[:2],
    )
    made.look(1.0)
    made.look(2.0)
    whole = made.whole()
    assert whole is not None
    (found,) = [one for one in made.overlay().links if one.kind == "primary" and {one.a, one.b} == {0, 1}]
    assert (found.a, found.b) == (1, 0)  # the child first
    (values,) = [one for one in whole.l if one[0] == found.i]
    assert values[1:3] == [20.0, 10.0]


def test_bypassed_is_the_share_of_what_brokers_send() -> None:
    reports = [
        report("b1", None, row("b2"), row("b3", kind="soft", bypasses=("b2",))),
        report("b2", "b1", row("b1", True), row("b3")),
        report("b3", "b2", row("b2", True)),
    ]
    made = engine(
        look(beat("b1", 0, link("b2", 0), link("b3", 0, kind="soft")), beat("b2", 0), beat("b3", 0)),
        look(
            beat("b1", 1000, link("b2", 25), link("b3", 75, kind="soft")), beat("b2", 1000), beat("b3", 1000)
        ),
        reports=reports,
    )
    made.look(1.0)
    pulse = only(made.look(2.0), Pulse)
    assert pulse.total.bypassed == 0.75
    soft = next(one for one in made.overlay().links if one.kind == "soft")
    assert (soft.a, soft.b, soft.bypasses) == (0, 2, [1])


# --- what is told -----------------------------------------------------------------------------------


def test_only_what_changed_is_told_and_all_of_it_every_thirtieth_time() -> None:
    made = engine(*(three(1000 * n, accepted=50 * n) for n in range(40)))
    told = [only(made.look(float(n)), Pulse) for n in range(35)]
    assert told[0].whole and told[30].whole and not told[5].whole
    assert {r[0] for r in told[30].b} == {0, 1, 2}
    assert told[5].b == []
    assert changed({1: [1, 0, 100.0]}, {1: [1, 0, 99.0]}, flags=1) == []
    assert changed({1: [1, 0, 100.0]}, {1: [1, 0, 90.0]}, flags=1)
    assert changed({1: [1, 129, 0]}, {1: [1, 128, 0]}, flags=1)  # two per cent of a flag is a flag
    assert changed({1: [1, 0, None]}, {1: [1, 0, 5.0]}, flags=1)


def test_events_of_brokers_become_events_of_the_page() -> None:
    made = engine(three(0))
    made.source.happened = [  # type: ignore[attr-defined]
        {
            "broker": "b2",
            "n": 4,
            "t_ms": 5000,
            "kind": "soft.promoted",
            "level": "info",
            "text": "x",
            "to": "b9",
        }
    ]
    event = next(e for e in made.look(9.0) if isinstance(e, Event))
    assert (event.n, event.t, event.broker, event.fields) == (1, 5.0, "b2", {"to": "b9"})


# --- health -----------------------------------------------------------------------------------------


def test_the_worst_comes_first() -> None:
    members = Members()
    members.take(three(0, slow=2, backlog=7), 0.0)
    assert (health(members).level, health(members).broker) == ("warn", 2)
    assert health(members).text == "2 clients do not keep up, at b3"
    members.take(look(beat("b1", 1, busy=0.97), beat("b3", 1, slow=1), missing=("b2",)), 1.0)
    assert health(members).text == "b2 does not answer"
    assert [t.level for t in troubles(members)] == ["bad", "warn", "warn"]
    fine = Members()
    fine.take(three(0), 0.0)
    assert health(fine).text == "all 3 well"
    assert health(Members()).text == "nobody has answered yet"


def test_a_slow_client_is_a_flag() -> None:
    made = engine(three(0, slow=1))
    made.look(1.0)
    assert {r[0]: bool(r[1] & SLOW) for r in made.whole().b} == {0: False, 1: False, 2: True}  # type: ignore[union-attr]


# --- history ----------------------------------------------------------------------------------------


def test_history_keeps_ten_minutes_and_gaps() -> None:
    history = History(1.0)
    for n in range(POINTS + 50):
        column = history.begin(float(n))
        if n != POINTS:
            history.brokers.write(column, 40, [float(n), 1.0, None, 0.0, 0.0, 0.0])
    times, values = history.series("b:40:in_s", 10_000)
    assert (len(times), times[0], values[0]) == (POINTS, 50.0, 50.0)
    assert values[times.index(float(POINTS))] is None
    assert history.series("b:40:busy", 5)[1] == [None] * 6
    assert history.series("b:900:in_s", 5)[1] == [None] * 6
    for wrong in ("b:x:in_s", "b:1:nothing", "z", "l:1:in_s"):
        with pytest.raises(KeyError):
            history.series(wrong, 5)


def test_the_overlay_document_is_told_when_it_changes() -> None:
    made = engine(three(0), three(1000))
    assert any(isinstance(d, Overlay) for d in made.look(1.0))
    assert not any(isinstance(d, Overlay) for d in made.look(2.0))
