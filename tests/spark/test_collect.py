"""Delivery logs to Parquet: everything once, whatever happens between two runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.delivery_logs import Story, write
from pipeline.collect import collect
from pipeline.collection import Collection
from pipeline.places import under
from pipeline.trouble import NOT_FOUND, Trouble
from tests.spark import plain

pytestmark = pytest.mark.spark


def collected(spark: Any, directory: Path) -> list[dict[str, Any]]:
    table = Collection(directory).events(spark)
    rows = [row.asDict() for row in table.drop("t", "run", "date").collect()]
    return sorted(rows, key=key)


def key(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["t_ns"], event["broker"], event["event"], event["publisher"], event["seq"], event["to"]


def test_every_event_is_there_once_as_it_was(spark: Any, tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "collected"
    lines = write(Story(3000, brokers=5, segment_lines=200), logs)
    done = collect(spark, under([logs]), to)
    assert done.events == done.total == lines
    assert collected(spark, to) == sorted(plain.events(logs), key=key)
    assert {path.name for path in to.glob("run=000001/date=2026-05-28/*")} == {
        f"broker=b{n}" for n in range(1, 6)
    }
    again = collect(spark, under([logs]), to)
    assert (again.events, again.total, again.run) == (0, lines, None)
    write(Story(500, brokers=5, seed=2), tmp_path / "more")
    more = collect(spark, under([logs, tmp_path / "more"]), to)
    assert collected(spark, to) == sorted(
        plain.events(tmp_path / "logs") + plain.events(tmp_path / "more"), key=key
    )
    assert more.total == lines + more.events


def test_logs_that_grow_are_torn_or_damaged(spark: Any, tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "collected"
    write(Story(400, brokers=1, segment_lines=100), logs)
    place = logs / "b1" / "state" / "deliveries"
    first, second, third, *_ = sorted(place.iterdir())
    whole = third.read_text()
    lines = whole.splitlines(keepends=True)
    growing = third.with_suffix(".open")
    third.unlink()
    growing.write_text("".join(lines[:40]) + lines[40][:30])
    first.write_text(first.read_text()[:-20])  # killed while it wrote its last line
    damaged = second.read_text().splitlines(keepends=True)
    damaged[7] = damaged[7][:25] + damaged[8]  # the disk was full for a moment
    del damaged[8]
    damaged[20] = '{"t_ns": "soon", "broker": "b1"}\n'
    second.write_text("".join(damaged))
    done = collect(spark, under([logs]), to)
    assert (done.torn_lines, done.damaged_lines) == (1, 2)
    assert [f"{second}, line {n}: not an event, left out" for n in (8, 21)] == done.damaged
    growing.rename(third)
    third.write_text(whole)
    again = collect(spark, under([logs]), to)
    assert (again.events, again.torn_lines, again.damaged_lines) == (len(lines) - 40, 0, 0)
    expected = []
    for path in sorted(place.iterdir()):
        for line in path.open():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event["t_ns"], int):
                expected.append(event)
    assert collected(spark, to) == sorted(expected, key=key)


def test_a_vanished_broker_is_named_and_the_rest_is_collected(spark: Any, tmp_path: Path) -> None:
    from pipeline.collect import Log

    write(Story(200, brokers=2), tmp_path)
    wanted = [Log("b1", [tmp_path / "b1" / "state" / "deliveries"]), Log("b9", [tmp_path / "b9"])]
    done = collect(spark, wanted, tmp_path / "to")
    assert done.events > 0
    assert done.missing == {"b9": f"b9: {tmp_path / 'b9'}: No such file or directory"}
    with pytest.raises(Trouble, match="b9") as error:
        collect(spark, wanted[1:], tmp_path / "other")
    assert error.value.code == NOT_FOUND


def test_a_broker_named_like_a_number_keeps_its_name(spark: Any, tmp_path: Path) -> None:
    write(Story(50, brokers=1), tmp_path / "logs")
    (path,) = (tmp_path / "logs").rglob("*.jsonl")
    content = path.read_text().replace('"b1"', '"007"')
    path.with_name("007-00000001.jsonl").write_text(content)
    path.unlink()
    collect(spark, under([tmp_path / "logs"]), tmp_path / "to")
    assert {event["broker"] for event in collected(spark, tmp_path / "to")} == {"007"}
