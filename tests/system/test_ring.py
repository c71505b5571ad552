"""A ring of real daemons: topics are refused and served as the guide says, and a root and a relay that are
killed with -9 under traffic cost a pause and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import grapevine
from overlay.chord.ring import owner
from overlay.chord.topics import key_of
from tests.system.overlay import Daemon, Overlay, eventually

TOPICS = [f"t{number}" for number in range(12)]
BROKERS = int(os.environ.get("GRAPEVINE_RING_BROKERS", "6"))


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[list[Daemon]]:
    with Overlay(
        tmp_path, overlay={"kind": "chord"}, chord={"stabilise_s": 0.5, "lost_after_s": 3.0}
    ) as overlay:
        daemons = [overlay.add(f"r{number}") for number in range(BROKERS)]
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


class Traffic:
    """One publisher and one subscriber of all topics, of whose publications every other one is wanted."""

    def __init__(self, reader: grapevine.Client, writer: grapevine.Client) -> None:
        names = ", ".join(f"'{topic}'" for topic in TOPICS)
        self.wanted = reader.subscribe(f"topic in ({names}) and even = true")
        self.writer = writer
        self.due: list[tuple[str, int]] = []
        self.got: list[tuple[str, int]] = []
        self.came: dict[tuple[str, int], float] = {}

    def publish(self, count: int) -> None:
        for number in range(count):
            topic, even = TOPICS[number // 2 % len(TOPICS)], number % 2 == 0
            sequence = self.writer.publish({"topic": topic, "even": even})
            if even:
                self.due.append((topic, sequence))
            self.read(0.004)

    def read(self, timeout_s: float) -> None:
        for message in self.wanted.next_batch(1000, timeout=timeout_s):
            one = (str(message.attributes["topic"]), message.sequence)
            self.got.append(one)
            self.came[one] = time.monotonic()

    def all_here(self) -> bool:
        self.read(0.5)
        return len(self.got) >= len(self.due)

    def pause_after(self, killed_at: float, topics: list[str], sent: int) -> float:
        """Until the first one came of those that were published to these topics after the kill."""
        later = [one for one in self.due[sent:] if one[0] in topics]
        return min(self.came[one] for one in later) - killed_at


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_root_and_a_relay_are_killed_under_traffic(ring: list[Daemon]) -> None:
    """All of it once, and each topic in order; with GRAPEVINE_RING_BROKERS=12 as a claim."""
    reader_at, writer_at = ring[0], ring[1]
    root = next(d for t in TOPICS if (d := root_of(t, ring)) not in (reader_at, writer_at))
    orphaned = [topic for topic in TOPICS if root_of(topic, ring) is root]
    relay = next(d for d in ring if d not in (reader_at, writer_at, root))
    keys = ring[0].keys
    with (
        grapevine.connect(reader_at.address, name="reader", keys=keys) as reader,
        grapevine.connect(writer_at.address, name="writer", keys=keys) as writer,
    ):
        with pytest.raises(grapevine.FilterError, match="routes by topic"):
            reader.subscribe("topic prefix 't'")
        traffic = Traffic(reader, writer)
        traffic.publish(400)
        killed_at, sent = time.monotonic(), len(traffic.due)
        root.kill()
        traffic.publish(1000)
        relay.kill()
        traffic.publish(600)
        writer.flush(timeout=120)
        eventually(traffic.all_here, timeout_s=60)
        assert sorted(traffic.got) == sorted(traffic.due)
        for topic in TOPICS:
            order = [sequence for one, sequence in traffic.got if one == topic]
            assert order == sorted(order), topic
        pause_s = traffic.pause_after(killed_at, orphaned, sent)
        print(f"{len(ring)} brokers, {len(traffic.got)} of {len(traffic.due)} once and in order,")
        print(f"first delivery {pause_s:.1f} s after the root's death")
        assert pause_s <= 10.0 or len(ring) < 12, pause_s
