"""From outcomes to rows, bars and pictures: the arithmetic behind `pubctl reproduce grape`."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from overlay.settings import RelocationSettings
from tools.reproduce.grape import planned
from tools.reproduce.grape_bars import bars
from tools.reproduce.grape_counted import counted
from tools.reproduce.grape_experiment import Experiment, Outcome
from tools.reproduce.grape_pictures import draw
from tools.reproduce.grape_placing import Setting
from tools.reproduce.grape_rows import Done, orders, rows, waits
from tools.reproduce.grape_selection import Evaluated
from tools.reproduce.kept import Kept
from tools.reproduce.quotes import generated_symbols
from tools.reproduce.row import Row

NOTHING = Outcome(1.0, 0.01, 500.0, 8.0, 0.0, 0, 0, 0.0, [], [])
# name -> (message rate, input, delay, hops): as the paper's text has them in order
FAITHFUL = {
    "baseline": (10.0, 0.10, 500.0, 8.0),
    "POP": (1.4, 0.032, 170.0, 4.0),
    "load100": (1.0, 0.030, 300.0, 5.0),
    "delay100": (1.5, 0.040, 150.0, 3.0),
}


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a selection takes is a measurement's business."""
    monkeypatch.setattr("tools.reproduce.grape_rows.timed", lambda seed, brokers: Evaluated(1.0, 0.5, 2))


def outcome(rate: float, used: float, delay_ms: float, hops: float) -> Outcome:
    return replace(NOTHING, message_rate=rate, input_utilisation=used, delay_ms=delay_ms, hops=hops)


def clustered(*all_x: int) -> Done:
    return {("clustered", name, x): outcome(*values) for x in all_x for name, values in FAITHFUL.items()}


def found(rows: list[Row], figure: str) -> dict[tuple[str, str], float]:
    return {(row.setting, row.metric): row.ours for row in rows if row.figure == figure}


def test_reductions_are_of_the_best_x() -> None:
    done = clustered(2, 4)
    done["clustered", "load100", 4] = outcome(0.5, 0.030, 300.0, 5.0)
    made = rows(done)
    assert found(made, "headline")["load100", "message_rate"] == pytest.approx(95.0)
    assert any("at X=4" in row.note for row in made if row.figure == "headline")


def test_an_order_that_fails_at_one_x_is_named() -> None:
    done = clustered(1, 2, 4, 8, 16)
    assert all(row.ours == 100.0 for row in orders(done))
    done["clustered", "delay100", 8] = outcome(1.5, 0.040, 400.0, 3.0)
    failed = {row.setting: row for row in orders(done) if row.ours < 100.0}
    assert failed["delay100 lowest"].ours == pytest.approx(75.0)
    assert failed["delay100 lowest"].note.endswith("not at X=8")


def test_pauses_are_by_the_length_of_the_path() -> None:
    done = {("clustered", "POP", 2): replace(NOTHING, pauses=[(2, 0.1), (2, 0.3), (5, 0.9)])}
    assert [(row.setting, row.ours) for row in waits(done)] == [("2 hops", 0.2), ("5 hops", 0.9)]


def test_bars_hold_for_faithful_figures_and_break_for_others() -> None:
    """But for the one that is measured on this machine while it tests."""
    done = clustered(2, 4)
    assert all(bar.ok for bar in bars(rows(done)) if "piece_ms" not in bar.what)
    done["clustered", "POP", 4] = done["clustered", "POP", 2] = outcome(0.5, 0.09, 600.0, 9.0)
    broken = {bar.what for bar in bars(rows(done)) if not bar.ok}
    assert "headline POP: delay_ms" in broken and "orders load100 lowest: message_rate" in broken


def test_sent_and_counted_are_held_against_each_other() -> None:
    one, other = outcome(*FAITHFUL["load100"]), outcome(1.2, 0.030, 300.0, 5.0)
    done = clustered(2, 4) | {("simulated", "load100", 4): one, ("matched", "load100", 4): other}
    apart = found(rows(done), "agreement")
    assert apart["load100 X=4", "message_rate"] == pytest.approx(20.0)
    assert [bar.what for bar in bars(rows(done)) if not bar.ok] == ["agreement load100 X=4: message_rate"]


def test_what_was_kept_is_not_measured_again(tmp_path: Path) -> None:
    path, setting = tmp_path / "kept", Setting("POP", 4, "clustered")
    Kept(path, False).add(setting, replace(NOTHING, pauses=[(2, 0.1)]))
    assert Kept(path, False).find(setting) == replace(NOTHING, pauses=[(2, 0.1)])
    assert Kept(path, True).find(setting) is None  # the data were others
    assert Kept(path, False).find(replace(setting, holders=5)) is None


def test_every_x_is_planned() -> None:
    plan = list(planned(False))
    counted_x = {s.holders for part, s in plan if (s.name, part) == ("POP", "clustered")}
    assert counted_x == set(range(1, 64))
    assert {s.publishers for _, s in plan} == {40} and {s.publishers for _, s in planned(True)} == {8}
    assert len({s for _, s in plan}) == len(plan)
    sent = {(s.name, s.holders) for part, s in plan if part == "simulated"}
    assert sent == {(s.name, s.holders) for part, s in plan if part == "matched"}


SMALL: dict[str, Any] = {"brokers": 7, "seconds": 100.0, "measured_s": 20.0, "seed": 5}


def relocation(name: str) -> RelocationSettings | None:
    return next(s.relocation for part, s in planned(True) if (part, s.name) == ("simulated", name))


def test_a_small_experiment_moves_its_publisher() -> None:
    """Seven brokers, one publisher, subscribers at one broker: it ends up there and hops fall."""
    quotes = generated_symbols(Random(1), 1, days=200)
    baseline = Experiment(Setting("baseline", 1, "clustered", publishers=1, **SMALL), quotes, None).run()
    setting = Setting("load100", 1, "clustered", relocation("load100"), publishers=1, **SMALL)
    moved = Experiment(setting, quotes, None).run()
    assert moved.moves == 1 and moved.hops == 1.0 < baseline.hops
    assert moved.selections and moved.memory > baseline.memory


@pytest.mark.parametrize("workload", ["clustered", "random"])
@pytest.mark.parametrize("name", ["baseline", "load100", "delay100", "POP"])
def test_counting_comes_to_what_sending_does(name: str, workload: str) -> None:
    quotes = generated_symbols(Random(1), 3, days=200)
    settings = relocation(name)
    if settings is not None:  # every publication is traced, so that chance has no part in it
        settings = replace(settings, threshold=40, traces_max=1_000_000)
    setting = Setting(name, 4, workload, settings, publishers=3, **SMALL)
    sent, told = Experiment(setting, quotes, None).run(), counted(setting, quotes, None)
    assert told.moves == sent.moves
    assert told.input_utilisation == pytest.approx(sent.input_utilisation, rel=0.03)
    assert (told.hops, told.delay_ms) == pytest.approx((sent.hops, sent.delay_ms), rel=0.03)
    assert told.control_rate == pytest.approx(sent.control_rate, rel=0.03)


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = clustered(2, 4) | {("clustered", "POP", 8): replace(NOTHING, pauses=[(2, 0.1)])}
    done["clustered", "baseline", 8] = NOTHING
    names = {path.name for path in draw(rows(done), tmp_path)}
    assert {"grape-5a.svg", "grape-5c.svg", "grape-reductions.svg", "grape-6c.svg"} <= names
    assert all((tmp_path / name).stat().st_size > 5_000 for name in names)
