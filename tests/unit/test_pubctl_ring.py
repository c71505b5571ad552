"""What pubctl prints of a ring: its own words, and no table of a tree with nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tools.pubctl.channel import Reply
from tools.pubctl.link import link_rows
from tools.pubctl.reconfigure import NOTHING_KNOWN
from tools.pubctl.running import run
from tools.pubctl.status import overview
from tools.pubctl.subscribing import line_of

PLAN = {
    "brokers": 4, "topics": 1, "cost": 63.0, "cost_after": 0.0, "reconfiguration_cost": 16.0,
    "worth": True, "pays": True, "moves": [{"broker": "r1", "to": "07", "place_of": "r2"}],
}  # fmt: skip
Answers = Callable[[dict[str, Any]], list[str]]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Has every channel answer by its verb; what was asked."""

    def set_up(bodies: dict[str, Any]) -> list[str]:
        asked: list[str] = []

        class Channel:
            timeout_s = 1.0

            def ask(self, verb: str, **arguments: Any) -> Reply:
                asked.append(verb)
                return Reply("ok", bodies[verb], "")

        @contextmanager
        def opened(broker: str = "") -> Iterator[Channel]:
            yield Channel()

        for module in ("subs", "reconfigure", "broker"):
            monkeypatch.setattr(f"tools.pubctl.{module}.opened", opened)
        return asked

    return set_up


def headings(rows: list[dict[str, Any]]) -> list[str]:
    return [column.key for column in overview(Reply("ok", {"brokers": rows}, "")).columns]


def test_where_a_broker_is_on_a_ring_is_its_position_and_successor() -> None:
    rows = [{"name": "r1", "state": "ready", "position": "07", "successors": ["r2", "r3"]}]
    shown = overview(Reply("ok", {"brokers": rows}, ""))
    assert headings(rows)[:4] == ["name", "state", "position", "successor"]
    assert shown.rows[0]["successor"] == "r2" and "parent" not in headings(rows)
    assert headings([{"name": "b1", "state": "ready", "parent": None}])[2] == "parent"
    assert headings([{"name": "d1", "state": "ready", "segments": {}}])[2] == "clients", "neither"


def test_broker_ls_has_no_depth_on_a_ring(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "r1", "state": "ready", "position": "07", "successors": ["r2"], "addresses": []}]
    answers({"broker.ls": {"brokers": rows}})
    assert run(["broker", "ls"]) == 0
    head = capsys.readouterr().out.splitlines()[0].split()
    assert head == ["broker", "state", "position", "successor", "links", "addresses"]


def test_a_link_has_the_role_that_the_broker_says() -> None:
    links = [{"name": "r2", "parent": True, "kind": "primary", "role": "successor"}]
    links += [{"name": "r3", "parent": False, "kind": "primary", "role": ""}]
    assert [row["role"] for row in link_rows([{"name": "r1", "rows": links}])] == ["successor", ""]
    of_a_tree = [{"name": "b2", "parent": parent, "kind": "primary"} for parent in (True, False)]
    assert [row["role"] for row in link_rows([{"name": "b1", "rows": of_a_tree}])] == ["parent", "child"]


def test_topics_of_subscriptions(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"client": "desk", "number": 1, "subscription": "r1/1", "filter": "topic = 'us'"}
    answers({"subs.ls": {"brokers": [{"name": "r1", "total": 1, "rows": [row | {"topics": ["'us'"]}]}]}})
    assert run(["subs", "ls"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split()[-1] == "topics" and said[2].split()[-1] == "'us'"
    answers({"subs.ls": {"brokers": [{"name": "b1", "total": 1, "rows": [row]}]}})
    assert run(["subs", "ls"]) == 0
    assert "topics" not in capsys.readouterr().out


def planned(**changes: Any) -> dict[str, Any]:
    manager = {"computing": False, "unfit": "", "proposal": PLAN | changes}
    return {"reconfigure.plan": {"manager": manager}}


def test_a_plan_without_topics_says_what_is_missing(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(planned(topics=0, cost=0.0, pays=False, moves=[]))
    assert run(["reconfigure", "plan"]) == 0
    assert NOTHING_KNOWN in capsys.readouterr().err
    assert run(["reconfigure", "apply", "--anyway", "--yes"]) == 1
    assert NOTHING_KNOWN in capsys.readouterr().err


def test_brokers_that_are_where_they_should_be_are_no_failure(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answers(planned(moves=[], pays=False))
    assert run(["reconfigure", "apply", "--yes"]) == 0
    assert "1 topic: every broker is where it should be" in capsys.readouterr().err
    assert "reconfigure.apply" not in asked


def test_one_is_not_several(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers(planned())
    assert run(["reconfigure", "plan"]) == 0
    assert "1 topic: cost 63 -> 0" in capsys.readouterr().err
    row = {"publisher": "p", "sequence": 1, "broker": "r1", "hops": 1, "payload": "", "attributes": {"x": 1}}
    assert line_of(row) == "p#1 from r1, 1 hop: x=1"
