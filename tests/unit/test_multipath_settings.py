"""The other settings of the soft links' paper: their numbers, wall posts, fanouts, uplinks that suffice."""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tools.reproduce.multipath_covering import Covered, covering_rows
from tools.reproduce.multipath_datasets import CALIBRATED, DATASETS, WALL, WALL_SET
from tools.reproduce.multipath_experiment import Outcome, experiment
from tools.reproduce.multipath_fanout import fanout_rows, sweep
from tools.reproduce.multipath_pictures import draw
from tools.reproduce.multipath_rows import congested, rows_of
from tools.reproduce.multipath_wall import FILE, WallWorkload, read_posts
from tools.reproduce.multipath_workload import Tree, Workload, scaled_to

SMALL = replace(DATASETS["C1/DT1"], brokers=40, minutes=3, capped_s=4.0)
MAKE = partial(Workload, scale=2.0, exponent=0.9, seed=1)


def test_deliveries_are_the_shares_that_the_paper_prints() -> None:
    shares = {name: 100 * d.deliveries / d.brokers for name, d in (DATASETS | {WALL: WALL_SET}).items()}
    assert CALIBRATED == ("C1/DT1", "C1/DT2")
    assert shares["C1/DT1"] == pytest.approx(8, abs=0.1)
    assert shares["C2/DT3"] == pytest.approx(9) and shares["CPL/DT4"] == pytest.approx(9)
    assert shares[WALL] == pytest.approx(6.5)
    assert shares["CPL/DT5"] / shares["C1/DT2"] == pytest.approx(54 / 53)


def test_others_take_the_exponent_and_set_their_own_deliveries() -> None:
    dataset = DATASETS["CPL/DT4"]
    workload = scaled_to(Tree(dataset.brokers), dataset.deliveries, 0.9, 1, 1500)
    drawn = workload.draw(4000)
    assert workload.exponent == 0.9
    assert sum(len(p.wanted) for p in drawn) / 4000 == pytest.approx(dataset.deliveries, rel=0.1)


def test_posts_go_where_friends_live(tmp_path: Path) -> None:
    """Four posts between two make friends, in whichever direction; three do not, nor posts to oneself."""
    lines = [
        "sender,receiver,hour",
        "1,2,0.1",
        "2,1,0.2",
        "1,2,0.3",
        "1,2,0.4",
        *["1,3,1.0"] * 3,
        *["4,4,2.0"] * 5,
    ]
    with gzip.open(tmp_path / FILE, "wt") as file:
        file.write("\n".join(lines) + "\n")
    workload = WallWorkload(Tree(120), read_posts(tmp_path), 1)
    home = workload.home
    assert len(set(home.values())) == 4
    drawn = workload.draw(14)
    assert [p.source for p in drawn[:5]] == [home["1"], home["2"], home["1"], home["1"], home["1"]]
    assert drawn[0].wanted == {home["2"]} and drawn[1].wanted == {home["1"]}
    assert drawn[8].wanted == frozenset()
    assert drawn[12:] == drawn[:2]


def test_a_wider_fanout_keeps_more_links_and_delivers_more() -> None:
    narrow, wide = (sweep("C1/DT1", SMALL, fanout, MAKE, 0.3) for fanout in (3, 20))
    assert narrow.links < wide.links
    assert narrow.delivered["S0"] == wide.delivered["S0"] < wide.delivered["S2"]
    assert narrow.delivered["S2"] < wide.delivered["S2"]
    found = {row.setting: row.ours for row in fanout_rows([narrow, wide])}
    assert found["C1/DT1 S2 fanout=20"] == wide.delivered["S2"]


def test_the_least_uplink_that_delivers_all() -> None:
    capped = {0.25: (40, 3.0), 0.5: (97, 3.0), 0.7: (98, 3.0), 1.0: (100, 3.0)}
    done = {("CPL/DT4", "S0"): Outcome(capped=capped, due=100, need=50.0), ("C1/DT1", "S0"): Outcome()}
    (row,) = congested(done)
    assert (row.setting, row.ours) == ("CPL/DT4 S0", 0.7)
    assert row.note == "then 10 KB/s carry 286 bytes a message"


def test_paths_grow_with_distance() -> None:
    outcome = experiment(SMALL, "S2", MAKE, 0.3)
    assert outcome.paths[1] == 1 < outcome.paths[4] < outcome.paths[7]
    assert set(experiment(SMALL, "S0", MAKE, 0.1).paths.values()) == {1}


def test_rows_and_pictures_of_all_settings(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plain, short = (experiment(SMALL, strategy, MAKE, 0.1) for strategy in ("S0", "S2"))
    names = [*DATASETS, WALL]
    done = {(name, s): outcome for name in names for s, outcome in (("S0", plain), ("S2", short))}
    rows = [*rows_of(done), *covering_rows([Covered(5, 1.0, 1.0, 1.0, 1.0), Covered(10, 2.0, 2.0, 2.0, 2.0)])]
    assert {row.figure for row in rows} >= {"Table 2", "1", "8", "9", "10", "11", "12", "13", "14"}
    more = {row.setting: row for row in rows if row.metric == "most deliveries over S0, per cent"}
    assert more[f"{WALL} S2"].paper == 115.0 and more["C2/DT3 S2"].paper is None
    without = [row for row in rows if not row.setting.startswith(WALL)]
    named = [{path.stem for path in draw(some, tmp_path)} for some in (rows, without)]
    assert named[0] - named[1] == {"multipath-wall"} and len(named[0]) == 9
