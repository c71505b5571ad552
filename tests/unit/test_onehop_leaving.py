"""A member that leaves ends when it is known that it has: durable publications would wait for it for ever."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from grapevine.wire.onehop import DEAD, DISPATCHER, LEFT, SERVING, Entry
from overlay.links.handshake import Handshake
from overlay.links.readiness import Readiness
from overlay.onehop.cluster import Cluster
from overlay.onehop.leaving import UNHEARD, Leaving

LOST_AFTER_S = 6.0


def entry(owner: int, state: int, version: int = 1) -> Entry:
    return Entry(owner, 1, version, ((),), f"d{owner}", (), DISPATCHER, state)


class Others:
    """A cluster as 1 sees it; whoever is in `linked` can be asked."""

    def __init__(self, *entries: Entry) -> None:
        self.own = entry(1, SERVING)
        self.table = SimpleNamespace(entries={one.owner: one for one in (self.own, *entries)})
        self.acknowledged: dict[int, int] = {}
        self.linked: set[int] = set()
        self.asked: list[int] = []
        self.stamps = 0

    def stamp(self) -> int:
        self.stamps += 1
        return self.stamps

    def change(self, own: Entry, now: float) -> None:
        self.own = self.table.entries[1] = own

    def get(self, member: int) -> Any:
        return SimpleNamespace(id=member, reachable=True) if member in self.linked else None

    def ask_to_acknowledge(self, member: Any) -> None:
        self.asked.append(member.id)
        self.stamp()


def leaving(cluster: Others) -> tuple[Leaving, list[str]]:
    notes: list[str] = []
    made = Leaving(cluster, None, None, None)  # type: ignore[arg-type]
    settings = SimpleNamespace(links=SimpleNamespace(lost_after_s=LOST_AFTER_S))
    made.core = SimpleNamespace(id=1, name="d1", settings=settings, note=lambda _, text: notes.append(text))  # type: ignore[assignment]
    return made, notes


def test_it_waits_for_everybody_who_lives() -> None:
    cluster = Others(entry(2, SERVING), entry(3, SERVING), entry(4, DEAD), entry(5, LEFT))
    cluster.linked = {2, 4}
    made, _ = leaving(cluster)
    cluster.acknowledged[2] = 1  # that it serves, long ago
    assert not made._is_heard(10.0) and cluster.own.state == LEFT and cluster.asked == [2, 4]
    cluster.acknowledged[2] = cluster.stamps
    assert not made._is_heard(10.1), "3 has not heard of it"
    cluster.table.entries[3] = entry(3, DEAD)
    assert made._is_heard(10.2)


def test_whoever_is_cut_off_waits_until_somebody_hears() -> None:
    """It holds all others dead then."""
    cluster = Others(entry(2, DEAD))
    made, notes = leaving(cluster)
    assert not made._is_heard(0.0) and not made._is_heard(UNHEARD * LOST_AFTER_S)
    assert made._is_heard(UNHEARD * LOST_AFTER_S + 0.1) and "not everybody knows" in notes[0]


def test_the_last_one_just_goes() -> None:
    made, _ = leaving(Others(entry(2, LEFT)))
    assert made._is_heard(0.0)


def cluster() -> tuple[Cluster, list[tuple[str, Any]]]:
    kept: list[tuple[str, Any]] = []
    made = Cluster(Handshake(()), Readiness(), ["price"], DISPATCHER)
    made.core = SimpleNamespace(
        id=1, names={}, event=lambda *_, **__: None, keep=lambda _, row, value: kept.append((row, value))
    )  # type: ignore[assignment]
    return made, kept


def test_who_has_left_is_known_over_a_restart() -> None:
    made, kept = cluster()
    made._learn([entry(2, SERVING), entry(3, LEFT, version=7)], 0.0)
    rows = {row: msgspec.json.encode(value) for row, value in kept}
    again, _ = cluster()
    again.restore(rows)
    assert [(one.owner, one.state, one.version) for one in again.table.entries.values()] == [(3, LEFT, 7)]


@pytest.mark.parametrize("state", [SERVING, DEAD])
def test_who_comes_back_has_not_left(state: int) -> None:
    made, kept = cluster()
    made._learn([entry(3, LEFT, version=7)], 0.0)
    made._learn([msgspec.structs.replace(entry(3, state), incarnation=2)], 1.0)
    left = [value for row, value in kept if row == "left"]
    assert len(left) == 2 and left[-1] == ()
