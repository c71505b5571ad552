"""The report's figures against a plain count, and its page."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from bench.delivery_logs import Story, write
from pipeline.accounting import duplicates
from pipeline.collect import collect
from pipeline.collection import Collection
from pipeline.places import under
from pipeline.report import Reported, Wanted, report
from pipeline.trouble import NOT_FOUND, Trouble
from tests.spark import plain

pytestmark = pytest.mark.spark
STORY = Story(8000, brokers=7, publishers=5, clients=20, rate=800.0, lose=0.004, double=0.003, seed=3)
COUNTS = ("accepted", "forwarded", "pure_forwards", "delivered", "delay_p50_us", "delay_p99_us", "hops")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("logs")
    write(STORY, place)
    return place


@pytest.fixture(scope="module")
def found(logs: Path) -> list[plain.Event]:
    return plain.events(logs)


@pytest.fixture(scope="module")
def reported(spark: Any, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    place = tmp_path_factory.mktemp("report")
    collect(spark, under([logs]), place / "collected")
    return report(spark, Wanted(place / "collected", place / "page.html", place / "tables"))


def picked(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in COUNTS if name in row}


def test_totals(reported: Reported, found: list[plain.Event]) -> None:
    totals = reported.figures.totals
    assert picked(totals) == plain.counts(found)
    assert totals["lost"] == sum(plain.lost(found).values()) > 10
    assert totals["duplicates"] == plain.duplicates(found) > 10
    reach = plain.reach(found).values()
    assert totals["yield"] == round(sum(s for _, s in reach) / sum(r for r, _ in reach), 4)
    assert totals["events"] == len(found)


def test_brokers(reported: Reported, found: list[plain.Event]) -> None:
    rows = {row["broker"]: row for row in reported.figures.brokers}
    groups, reach = plain.by(found, "broker"), plain.reach(found)
    assert list(rows) == [f"b{n}" for n in range(1, 8)]
    for broker, row in rows.items():
        assert picked(row) == plain.counts(groups[broker])
        assert (row["reached"], row["served"]) == reach[broker]


def test_publishers(reported: Reported, found: list[plain.Event]) -> None:
    rows = {row["publisher"]: row for row in reported.figures.publishers}
    groups = plain.by(found, "publisher")
    assert rows.keys() == groups.keys()
    for publisher, row in rows.items():
        mine = groups[publisher]
        assert picked(row) == plain.counts(mine)
        assert (row["lost"], row["duplicates"]) == (sum(plain.lost(mine).values()), plain.duplicates(mine))
        assert row["first_broker"] in {e["broker"] for e in mine if e["event"] == "accept"}


def test_subscriptions(reported: Reported, found: list[plain.Event]) -> None:
    rows = {(row["client"], row["subscription"]): row for row in reported.figures.subscriptions}
    groups = plain.by_subscription(found)
    assert rows.keys() == groups.keys()
    doubled = plain.duplicates_by_client(found)
    for name, row in rows.items():
        assert row["duplicates"] == doubled[name[0]]
        assert picked(row) == {k: v for k, v in plain.counts(groups[name]).items() if k in picked(row)}


def test_links(reported: Reported, found: list[plain.Event]) -> None:
    rows = {(row["broker"], row["to"]): row for row in reported.figures.links}
    sent = plain.by_subscription([])
    for event in found:
        if event["event"] == "forward":
            sent[event["broker"], event["to"]].append(event)
    assert {link: row["forwarded"] for link, row in rows.items()} == {
        link: len(e) for link, e in sent.items()
    }
    assert {link: row["lost"] for link, row in rows.items() if row["lost"]} == plain.lost(found)


def test_steps_in_time(reported: Reported, found: list[plain.Event]) -> None:
    figures = reported.figures
    groups = plain.by_step(found, figures.step_s)
    assert len(groups) > 5
    assert {row["step"]: picked(row) for row in figures.timeline} == {
        step: plain.counts(events) for step, events in groups.items()
    }
    lost = plain.lost_by_step(found, figures.step_s)
    doubled = plain.duplicates_by_step(found, figures.step_s)
    assert len(lost) > 5 and len(doubled) > 5
    assert {row["step"]: row["lost"] for row in figures.timeline if row["lost"]} == lost
    assert {row["step"]: row["duplicates"] for row in figures.timeline if row["duplicates"]} == doubled
    assert sum(row["delivered"] for row in figures.distribution) == figures.totals["delivered"]
    load = {(row["step"], row["broker"]): row["delivered"] for row in figures.load}
    assert sum(load.values()) == figures.totals["delivered"]


def test_the_page_and_the_tables(reported: Reported) -> None:
    page = Path(reported.summary["page"]).read_text()
    assert f"{reported.summary['lost']:,} copies lost" in page
    assert "https://" not in page and "http://" not in page
    for name in ("brokers", "publishers", "subscriptions", "links", "timeline"):
        with open(Path(reported.summary["tables"]) / f"{name}.csv") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(getattr(reported.figures, name))
        assert all(None not in row and None not in row.values() for row in rows)


def test_a_part_of_the_time_and_a_broker_without_a_log(spark: Any, logs: Path, tmp_path: Path) -> None:
    """Only what was asked for is counted, and what cannot be judged is not called lost."""
    collect(spark, [log for log in under([logs]) if log.broker != "b2"], tmp_path / "c")
    done = report(spark, Wanted(tmp_path / "c", tmp_path / "late.html", since="2026-05-28T20:26:41"))
    everything = plain.events(logs)
    since = min(event["t_ns"] for event in everything) // 10**9 * 10**9 + 1_000_000_000
    seen = [event for event in everything if event["broker"] != "b2" and event["t_ns"] >= since]
    gone = plain.lost(seen)
    totals = done.figures.totals
    assert 0 < totals["events"] == len(seen) < len(everything)
    assert picked(totals) == plain.counts(seen)
    assert totals["unseen_brokers"] == ["b2"]
    assert totals["unseen"] == sum(n for (_, to), n in gone.items() if to == "b2") > 0
    assert totals["lost"] == sum(n for (_, to), n in gone.items() if to != "b2")
    assert "There is no log of b2" in (tmp_path / "late.html").read_text()
    with pytest.raises(Trouble, match="no events") as error:
        report(spark, Wanted(tmp_path / "c", tmp_path / "never.html", until="2020-01-01"))
    assert error.value.code == NOT_FOUND
    assert not (tmp_path / "never.html").exists()


def test_a_publisher_that_starts_again_is_not_a_duplicate(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / "logs" / "b1" / "state" / "deliveries"
    write(Story(300, brokers=1), tmp_path / "logs")
    (path,) = place.iterdir()
    (place / "b1-00000002.jsonl").write_text(path.read_text().replace("17800000", "17800100"))
    collect(spark, under([tmp_path / "logs"]), tmp_path / "c")
    doubled = duplicates(Collection(tmp_path / "c").events(spark), 1.0)
    assert doubled is not None and doubled.isEmpty()  # each came twice, and was accepted twice


def test_nothing_collected(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="nothing is collected") as error:
        report(spark, Wanted(tmp_path / "none", tmp_path / "page.html"))
    assert error.value.code == NOT_FOUND
