"""DP-D1, S1 to S3 on real daemons: what is persisted survives kill -9 at every step of the journal and power
cuts, and arrives once and in order; a durable subscription has everything whoever was there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import grapevine
from tests.system.fail_points import CALLS
from tests.system.overlay import Daemon, Overlay, eventually

ROUNDS = int(os.environ.get("GRAPEVINE_DURABLE_ROUNDS", "12"))
SECTOR = 512
FAIL_POINTS = Path(__file__).with_name("fail_points.py")


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Overlay]:
    with Overlay(tmp_path, security={"curve": False}) as overlay:
        yield overlay


def connect(daemon: Daemon, name: str, **options: object) -> grapevine.Client:
    return grapevine.connect(daemon.address, name=name, keys=False, **options)  # type: ignore[arg-type]


def start_failing(daemon: Daemon, fail_at: str, notes: Path) -> None:
    """Like Daemon.start, with the fail points in."""
    with open(daemon.log_file, "ab") as log:
        daemon._log_from = log.tell()
        daemon.process = subprocess.Popen(
            [sys.executable, str(FAIL_POINTS), "--config", str(daemon.config)],
            stdout=log,
            stderr=log,
            env={**os.environ, "FAIL_AT": fail_at, "FAIL_NOTES": str(notes)},
        )


def cut_power(directory: Path, notes: Path, random: Random) -> None:
    """Of what was written and not synced each sector is there or not."""
    synced: dict[str, int] = {}
    for line in notes.read_text().splitlines() if notes.exists() else ():
        path, size = line.rsplit(" ", 1)
        synced[path] = int(size)
    for file in directory.iterdir():
        if file.name == "mark":
            continue
        data, kept = bytearray(file.read_bytes()), synced.get(str(file), 0)
        for start in range(kept, len(data), SECTOR):
            if random.random() < 0.5:
                end = min(start + SECTOR - start % SECTOR, len(data))
                data[start:end] = bytes(end - start)
        file.write_bytes(data[: random.randint(kept, len(data))])


def publish_until_dead(daemon: Daemon, life: int) -> int:
    """How many a publisher knew to be persisted when its broker was gone; it goes with it."""
    persisted = 0
    try:
        client = connect(daemon, f"writer-{life}", timeout=20)
    except grapevine.Error:
        return 0
    outgoing = client._session.outgoing
    number = 0
    while daemon.process is not None and daemon.process.poll() is None and number < 6_000:
        for _ in range(20):
            if outgoing.full:
                break
            number += 1
            client.publish({"life": life, "n": number}, b"x" * 300, durable=True)
        time.sleep(0.001)
        persisted = max(persisted, outgoing.persisted_up_to)
    persisted = max(persisted, outgoing.persisted_up_to)
    client.close(0)
    return persisted


def test_persisted_survives_kills_at_every_step(overlay: Overlay, tmp_path: Path) -> None:
    random = Random(17)
    overlay.start("b1", journal={"segment_bytes": 65_536})
    overlay.start("b2", "b1", journal={"segment_bytes": 65_536})
    first, home = overlay["b1"], overlay["b2"]
    reader = connect(home, "reader")
    kept = reader.subscribe("n > 0", durable="all", ack="cumulative", in_flight=50_000, ack_wait_s=600)
    first.stop()
    told: dict[int, int] = {}
    got: dict[int, list[int]] = {}
    offset = 0
    for life in range(1, ROUNDS + 1):
        call = CALLS[life % len(CALLS)]
        count = random.randint(1, 4) if call in ("rename", "unlink") else random.randint(1, 40)
        notes = tmp_path / f"notes-{life}"
        start_failing(first, f"{call}:{random.choice(('before', 'after'))}:{count}", notes)
        told[life] = publish_until_dead(first, life)
        first.kill()  # if that step never came
        if life % 2:
            cut_power(first.directory / "state" / "journal", notes, random)
        first.start().ready()

        def arrived(life: int = life) -> bool:
            nonlocal offset
            for message in kept.next_batch(10_000, 0.2):
                assert not isinstance(message, grapevine.Gap), message
                assert message.offset == offset + 1, "offsets are dense"
                offset = message.offset
                got.setdefault(message.attributes["life"], []).append(message.attributes["n"])
                message.ack()
            return len(got.get(life, [])) >= told[life]

        eventually(arrived, 60)
        first.stop()
    for life, numbers in got.items():
        assert numbers == list(range(1, len(numbers) + 1)), f"life {life}: each once and in order"
        assert len(numbers) >= told[life]
    assert sum(told.values()) > 0
    reader.close(0)


def test_a_dead_publisher_is_heard_when_its_subscribers_come_back(overlay: Overlay) -> None:
    """The publisher dies, its broker is killed, the other side was away: a stand-in delivers."""
    overlay.start("b1", links={"lost_after_s": 120})
    overlay.start("b2", "b1", links={"lost_after_s": 120})
    reader = connect(overlay["b2"], "reader")
    subscription = reader.subscribe("n > 0")
    writer = connect(overlay["b1"], "writer")
    writer.publish({"n": 1}, durable=True)
    writer.flush(10)
    overlay["b2"].signal(signal.SIGSTOP)
    for number in range(2, 102):
        writer.publish({"n": number}, durable=True)
    writer.flush(10, until="persisted")
    with pytest.raises(grapevine.Timeout):
        writer.flush(0.3)
    overlay["b1"].kill()
    writer.close(0)
    overlay["b2"].signal(signal.SIGCONT)
    overlay["b1"].start().ready()
    got = [subscription.next(30) for _ in range(101)]
    assert [message.attributes["n"] for message in got if message] == list(range(1, 102))
    assert subscription.next(0.5) is None
    reader.close(0)


def test_a_durable_subscription_acknowledges_comes_again_and_parks(overlay: Overlay) -> None:
    overlay.start("b1")
    writer = connect(overlay["b1"], "writer")
    reader = connect(overlay["b1"], "reader")
    orders = reader.subscribe("n > 0", durable="orders", ack="explicit", ack_wait_s=0.5, max_deliver=2)
    for number in range(1, 4):
        writer.publish({"n": number})
    writer.flush(10)
    one, two, three = (orders.next(5) for _ in range(3))
    one.ack()
    two.nak()
    again = orders.next(5)
    assert (again.offset, again.redelivered) == (2, True)
    again.ack()
    late = orders.next(5)  # its time to acknowledge passes
    assert (late.offset, late.redelivered) == (three.offset, True)
    assert orders.next(1.5) is None  # delivered twice: parked
    with pytest.raises(grapevine.NotAllowed, match="reads as orders"):
        connect(overlay["b1"], "thief").subscribe("n > 0", durable="orders", timeout=5)
    orders.close()
    first = reader.subscribe("n > 0", durable="audit", start="first")
    assert [first.next(5).offset for _ in range(1)] != []
    reader.close(0)
    writer.close(0)


def test_reading_starts_where_it_is_asked_to(overlay: Overlay) -> None:
    overlay.start("b1")
    writer, reader = connect(overlay["b1"], "writer"), connect(overlay["b1"], "reader")
    keeps = reader.subscribe("n > 0", durable="keeps", ack="explicit")  # nothing of it is acknowledged
    for number in range(1, 11):
        writer.publish({"n": number})
    writer.flush(10)
    for start, expected in (("first", 1), (4, 4)):
        place = reader.subscribe("n > 0", durable=f"from-{start}", start=start, ack="explicit")
        assert place.next(5).offset == expected
        place.unsubscribe()
    new = reader.subscribe("n > 0", durable="fresh")
    writer.publish({"n": 11})
    assert new.next(5).attributes == {"n": 11}
    assert keeps.next(5).offset == 1
    reader.close(0)
    writer.close(0)


def test_asyncio_reads_durably(overlay: Overlay) -> None:
    overlay.start("b1")

    async def main() -> list[int]:
        async with grapevine.aio.connect(overlay["b1"].address, name="both", keys=False) as client:
            jobs = await client.subscribe("n > 0", durable="jobs")
            for number in range(1, 51):
                await client.publish({"n": number}, durable=True)
            await client.flush(10, until="persisted")
            got = []
            async for message in jobs:
                got.append(message.attributes["n"])
                if len(got) == 50:
                    break
            await jobs.close()
            return got

    assert asyncio.run(main()) == list(range(1, 51))


def test_without_a_journal_nothing_is_durable(overlay: Overlay) -> None:
    overlay.start("b1", journal={"enabled": False})
    client = connect(overlay["b1"], "writer")
    with pytest.raises(grapevine.NotAllowed, match="no journal"):
        client.flush(1, until="persisted")
    with pytest.raises(grapevine.NotAllowed, match="no journal"):
        client.subscribe("n > 0", durable="orders")
    client.close(0)


def test_a_rotten_journal_is_said(overlay: Overlay) -> None:
    overlay.start("b1")
    writer, reader = connect(overlay["b1"], "writer"), connect(overlay["b1"], "reader")
    kept = reader.subscribe("n > 0", durable="kept", ack="explicit")
    for number in range(1, 4):  # records of their own
        writer.publish({"n": number})
        writer.flush(10)
    reader.close(0)
    writer.close(0)
    overlay["b1"].kill()
    (segment,) = (overlay["b1"].directory / "state" / "journal").glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[data.rindex(b"\xa1n\x02")] ^= 0x40  # inside the second publication
    segment.write_bytes(data)
    overlay["b1"].start().ready()
    assert "lost 1 positions" in overlay["b1"].log()
    reader = connect(overlay["b1"], "reader")
    kept = reader.subscribe("n > 0", durable="kept", ack="explicit")
    items = [kept.next(5) for _ in range(3)]
    gaps = [item for item in items if isinstance(item, grapevine.Gap)]
    assert gaps == [grapevine.Gap(2, 2, "lost")]
    assert [item.attributes["n"] for item in items if not isinstance(item, grapevine.Gap)] == [1, 3]
    reader.close(0)
