"""What a broker of a ring remembers of publishers and topics that come and go has a bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from grapevine.wire.chord import PublisherIs
from grapevine.wire.messages import Publication
from overlay.chord import introductions, path
from overlay.chord.introductions import Introductions
from overlay.chord.path import ChordPath


def run(publisher: int) -> list[Publication]:
    return [Publication(b"", b"", 1, publisher=publisher)]


def test_publishers_that_a_link_has_been_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introductions, "TOLD_MOST", 8)
    told: list[int] = []
    router: Any = SimpleNamespace(introduction=lambda publisher: (f"p{publisher}", "b1"))
    membership: Any = SimpleNamespace(me=SimpleNamespace(position=7))
    of_ring = Introductions(router, membership)

    def tell(message: PublisherIs, to: object) -> None:
        told.append(message.publisher)

    core: Any = SimpleNamespace(id=7, on=lambda *_: None, tell=tell)
    of_ring.attach(core)
    link: Any = object()
    for publisher in range(1, 101):
        of_ring.introduce(link, run(publisher))
        of_ring.introduce(link, run(publisher))
        assert sum(map(len, of_ring._told.values())) <= 8
    assert told == list(range(1, 101)), "each once, as long as it goes on publishing"
    of_ring.introduce(link, run(1))
    assert told[-1] == 1, "again, since it was forgotten"


def test_topics_that_a_root_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path, "TOPICS_CACHED", 8)
    root: Any = SimpleNamespace(emitted={}, roots=SimpleNamespace(members=lambda topic: {}))
    way: Any = None
    record: Any = None
    for topic in range(100):
        for _ in range(3):
            ChordPath._emit(root, topic, way, run(1), record, 0.0)
        assert root.emitted[topic] == 3 and len(root.emitted) <= 8
