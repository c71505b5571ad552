"""What `pubctl top` shows, from the page's own engine: rows, their order, and a recording that reads back."""

from __future__ import annotations

from pathlib import Path

from tests.unit.web.pulses import beat, link, look
from tests.unit.web.test_web_engine import engine, three
from tests.web.recordings import binary, write
from tools.web import views
from tools.web.engine import Engine
from tools.web.source_replay import Recorder, opened


def test_rows_say_what_the_page_says() -> None:
    made = engine(
        three(0),
        look(
            beat("b1", 1000, link("b2"), accepted=30),
            beat("b2", 1000, link("b1"), link("b3"), slow=1, backlog=9),
            missing=("b3",),
        ),
    )
    made.look(1.0)
    made.look(2.0)
    rows = {row.key: row for row in views.brokers(made).rows}
    assert rows["b1"].cells[:4] == ("b1", "ready", "", "30")
    assert rows["b2"].trouble and rows["b2"].cells[7:9] == ("9", "1")
    assert rows["b3"].cells[1:5] == ("no answer", "b2", "–", "–") and rows["b3"].trouble
    assert [row.cells[0] for row in views.tree(made).rows] == ["b1", "  b2", "    b3"]
    assert "b3 does not answer" in views.headline(made)


def test_rows_are_ordered_and_narrowed() -> None:
    made = engine(*(three(1000 * n, accepted=70 * n) for n in range(2)))
    made.look(1.0)
    made.look(2.0)
    found = views.brokers(made)
    assert next(row.key for row in views.ordered(found, 3, True, "", False)) == "b3"
    assert [row.key for row in views.ordered(found, 0, False, "B2", False)] == ["b2", "b3"]  # b3's parent
    assert views.ordered(found, 0, False, "", True) == []
    assert {row.cells[2] for row in views.links(made, "b1").rows} == {"primary"}


def test_sparks() -> None:
    assert views.spark([0.0, 5.0, 10.0, None]) == "▁▅█ "
    assert views.spark([0.0, None]) == "▁ "


def test_a_recording_of_a_recording_is_the_same(tmp_path: Path) -> None:
    first = write(tmp_path / "one.jsonl", 6, binary(5))
    recorder = Recorder(opened(first, 0.0), tmp_path / "two.jsonl")
    made = Engine(recorder, 1.0)
    for _ in range(6):
        made.look(0.0)
    recorder.close()
    again = Engine(opened(tmp_path / "two.jsonl", 0.0), 1.0)
    for _ in range(6):
        again.look(0.0)
    assert again.total is not None and again.total == made.total
    assert again.total.accepted_s == 50
    assert views.brokers(again) == views.brokers(made)
    assert again.look(0.0)[-1].state == "ended"
