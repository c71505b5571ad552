"""One record for all streams of a drain: each publication once, each publisher's in order."""

from __future__ import annotations

from random import Random

from grapevine.wire.messages import Publication
from overlay.journal import pool as module
from overlay.journal.pool import Pool


def publication(publisher: int, sequence: int, size: int = 1) -> Publication:
    return Publication(b"", b"x" * size, sequence, 0, publisher, 7)


def test_streams_that_want_different_parts_keep_each_publishers_order() -> None:
    """What only the second stream wants came between what the first wants (seed 17 of `durable`)."""
    batch = [publication(1, n) for n in range(1, 7)]
    pool = Pool()
    pool.want(1, [batch[0], batch[2], batch[5]])
    pool.want(2, [batch[1], batch[2], batch[3]])
    (part,) = pool.parts()
    assert [p.sequence for p in part.publications] == [1, 2, 3, 4, 6]
    assert part.wanted == {1: [0, 2, 4], 2: [1, 2, 3]}
    assert [(run.first, run.last, run.items) for run in part.runs] == [(1, 6, 5)]


def test_random_drains_against_brute_force() -> None:
    random = Random(5)
    for _ in range(300):
        publications = [publication(random.randint(1, 3), n) for n in range(1, random.randint(2, 40))]
        pool, streams = Pool(), {}
        held = [p for p in publications if random.random() < 0.3]
        if held and random.random() < 0.5:
            pool.hold(held)
        else:
            held = []
        for stream in range(1, random.randint(2, 5)):
            streams[stream] = [p for p in publications if random.random() < 0.5]
            if streams[stream]:
                pool.want(stream, streams[stream])
        parts = list(pool.parts())
        for stream, wanted in streams.items():
            got = [part.publications[i] for part in parts for i in part.wanted.get(stream, ())]
            assert sorted(map(id, got)) == sorted(map(id, wanted))
            for publisher in (1, 2, 3):
                numbers = [p.sequence for p in got if p.publisher == publisher]
                assert numbers == sorted(numbers)
        runs = [(run, part) for part in parts for run in part.runs]
        kept = [p for run, part in runs if run.held for p in part.publications[run.start :][: run.items]]
        assert sorted(map(id, kept)) == sorted(map(id, held))


def test_records_are_bounded(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "RECORD_BYTES", 100)
    pool = Pool()
    pool.hold([publication(1, n, 40) for n in range(1, 11)])
    assert [len(part.publications) for part in pool.parts()] == [3, 3, 3, 1]
