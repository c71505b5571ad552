"""A ring of real daemons: topics are refused and served as the guide says, and a root that is killed with -9
under traffic costs a pause and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grapevine
from overlay.chord.ring import owner
from overlay.chord.topics import key_of
from tests.system.overlay import Daemon, Overlay, eventually

TOPICS = [f"t{number}" for number in range(12)]


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[list[Daemon]]:
    with Overlay(
        tmp_path, overlay={"kind": "chord"}, chord={"stabilise_s": 0.5, "lost_after_s": 3.0}
    ) as overlay:
        daemons = [overlay.add(f"r{number}") for number in range(6)]
        members = [daemon.address for daemon in daemons[:4]]
        for daemon in daemons:
            daemon.sections.setdefault("chord", {})["members"] = members
            daemon.configure(daemon.sections)
            daemon.start()
        for daemon in daemons:
            daemon.ready()
        yield daemons


def root_of(topic: str, daemons: list[Daemon]) -> Daemon:
    from grapevine.wire.identity import identify
    from overlay.chord.ring import Node

    nodes = sorted(Node(identify(daemon.name), number, 1) for number, daemon in enumerate(daemons))
    return daemons[owner(nodes, key_of(f"'{topic}'")).broker]


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_root_is_killed_under_traffic(ring: list[Daemon]) -> None:
    reader_at, writer_at = ring[0], ring[1]
    victim = next(d for t in TOPICS if (d := root_of(t, ring)) not in (reader_at, writer_at))
    keys = ring[0].keys
    with (
        grapevine.connect(reader_at.address, name="reader", keys=keys) as reader,
        grapevine.connect(writer_at.address, name="writer", keys=keys) as writer,
    ):
        with pytest.raises(grapevine.FilterError, match="routes by topic"):
            reader.subscribe("topic prefix 't'")
        names = ", ".join(f"'{topic}'" for topic in TOPICS)
        wanted = reader.subscribe(f"topic in ({names}) and even = true")
        published = []
        for number in range(1500):
            topic = TOPICS[number % len(TOPICS)]
            sequence = writer.publish({"topic": topic, "even": number % 2 == 0})
            published.append((topic, sequence, number % 2 == 0))
            if number == 400:
                victim.kill()
            time.sleep(0.004)
        writer.flush(timeout=60)
        due = [(topic, sequence) for topic, sequence, even in published if even]
        got: list[tuple[object, int]] = []

        def all_here() -> bool:
            got.extend((m.attributes["topic"], m.sequence) for m in wanted.next_batch(1000, timeout=0.5))
            return len(got) >= len(due)

        eventually(all_here)
        assert sorted(got) == sorted(due)
        for topic in TOPICS:
            order = [sequence for one, sequence in got if one == topic]
            assert order == sorted(order), topic
