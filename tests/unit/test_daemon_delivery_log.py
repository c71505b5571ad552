"""The delivery log: lines as documented, segments that never change once closed."""

from __future__ import annotations

import json
from pathlib import Path

from daemon.delivery_log import DeliveryLog
from overlay.outbox import Event


def event(number: int, kind: str = "deliver") -> Event:
    return Event(1.5, kind, "p7", number, "c1", (1, 2), 3, 250, False, "")


def write(directory: Path, events: int, segment_bytes: int = 1 << 20) -> DeliveryLog:
    log = DeliveryLog(directory, "b1", segment_bytes)
    log.start()
    for number in range(events):
        log.put([event(number)])
    log.close()
    return log


def lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(directory.glob("*.jsonl")) for line in path.open()]


def test_a_line_says_what_the_interface_promises(tmp_path: Path) -> None:
    write(tmp_path, 1)
    assert lines(tmp_path) == [
        {
            "t_ns": 1_500_000_000,
            "broker": "b1",
            "event": "deliver",
            "publisher": "p7",
            "seq": 0,
            "to": "c1",
            "subscriptions": [1, 2],
            "hops": 3,
            "delay_us": 250,
            "pure": False,
            "reason": "",
        }
    ]


def test_segments_rotate_and_go_on_after_a_restart(tmp_path: Path) -> None:
    write(tmp_path, 100, segment_bytes=4096)
    closed = {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    assert len(closed) > 3
    write(tmp_path, 50, segment_bytes=4096)
    assert [line["seq"] for line in lines(tmp_path)] == [*range(100), *range(50)]
    assert all((tmp_path / name).read_bytes() == content for name, content in closed.items())
    assert not list(tmp_path.glob("*.open"))


def test_a_segment_of_a_killed_daemon_is_kept(tmp_path: Path) -> None:
    (tmp_path / "b1-00000001.open").write_text('{"seq": 1}\n')
    write(tmp_path, 1)
    assert [line["seq"] for line in lines(tmp_path)] == [1, 0]


def test_nothing_is_left_of_an_empty_segment(tmp_path: Path) -> None:
    write(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


def test_what_the_writer_cannot_follow_is_counted(tmp_path: Path) -> None:
    log = DeliveryLog(tmp_path, "b1", 1 << 20)
    log.put([event(1)] * 600_000)
    log.put([event(2)])
    log.start()
    log.close()
    assert (log.left_out, log.written) == (600_000, 1)
