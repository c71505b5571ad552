"""SPEC T3 on one link: who is told, who is suppressed by whom, and what happens when a coverer goes."""

from __future__ import annotations

from random import Random

from overlay.core import Core
from overlay.gather import Gather
from overlay.settings import CoreSettings
from overlay.tree.announcements import Announcement
from overlay.tree.covering import Announced, Path
from overlay.tree.peer import Peer


class World:
    """Subscription n is the range of numbers `spans[n]`; wider covers narrower."""

    def __init__(self, spans: dict[int, tuple[int, int]], paths: dict[int, Path] | None = None) -> None:
        core = Core("b", 1, CoreSettings(), Random(0))
        self.spans = spans
        self.paths = paths or {}
        self.sent: list[str] = []
        self.stamp = 0
        self.link = Announced(
            Peer(core, 1, "n"), self.send, self.withdraw, self.covering, self.covered, self.path
        )

    def send(self, number: int, peer: Peer) -> Announcement:
        self.sent.append(f"+{number}")
        self.stamp += 1
        return Announcement(self.stamp, False, lambda peer, number: None)

    def withdraw(self, number: int, peer: Peer, announcement: Announcement, now: float) -> None:
        self.sent.append(f"-{number}")
        for _, gather in announcement.waiters:
            gather.answer(peer, None, now)

    def covering(self, number: int) -> list[int]:
        low, high = self.spans[number]
        return [n for n, (a, b) in self.spans.items() if a <= low and high <= b]

    def covered(self, number: int) -> list[int]:
        low, high = self.spans[number]
        return [n for n, (a, b) in self.spans.items() if low <= a and b <= high]

    def path(self, number: int) -> Path:
        return self.paths.get(number, (1,))

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.link.add(number, None, 0.0)
            self.link.validate()


def test_a_covered_subscription_is_not_told() -> None:
    world = World({1: (0, 10), 2: (3, 5)})
    world.add(1, 2)
    assert world.sent == ["+1"]


def test_a_wider_one_is_told_before_the_narrower_is_withdrawn() -> None:
    world = World({1: (0, 10), 2: (3, 5)})
    world.add(2, 1)
    assert world.sent == ["+2", "+1", "-2"]


def test_when_the_coverer_goes_the_suppressed_are_told_first() -> None:
    world = World({1: (0, 10), 2: (3, 5), 3: (6, 7)})
    world.add(1, 2, 3)
    world.link.remove(1, 0.0)
    world.link.validate()
    assert world.sent == ["+1", "+2", "+3", "-1"]


def test_orphans_cover_one_another() -> None:
    world = World({1: (0, 10), 2: (3, 6), 3: (4, 5)})
    world.add(1, 3, 2)
    world.link.remove(1, 0.0)
    assert world.sent == ["+1", "+3", "+2", "-3", "-1"]


def test_another_anchor_is_no_coverer() -> None:
    """ARCHITECTURE: s1 at X5 covers s2 at N3, A knows only s1, sends past N1, N3 gets nothing."""
    world = World({1: (0, 10), 2: (3, 5)}, {1: (77, 6), 2: (88, 6)})
    world.add(1, 2)
    assert world.sent == ["+1", "+2"]


def test_another_way_to_the_same_anchor_is_no_coverer() -> None:
    """The coverer's side is lost, and its tombstone stands: that way nobody is reached."""
    world = World({1: (0, 10), 2: (3, 5)}, {1: (77, 4, 6), 2: (77, 4, 1, 6)})
    world.add(1, 2)
    assert world.sent == ["+1", "+2"]


def test_a_moved_coverer_is_repeated_and_its_suppressed_told() -> None:
    world = World({1: (0, 10), 2: (3, 5)})
    world.add(1, 2)
    world.paths[1] = (5,)
    world.link.repeat(1, 0.0)
    world.link.validate()
    assert world.sent == ["+1", "+1", "+2"]


def test_a_covered_one_waits_for_its_coverers_confirmation() -> None:
    world = World({1: (0, 10), 2: (3, 5)})
    world.add(1)
    ends: list[float] = []
    gather = Gather(lambda g, now: ends.append(now))
    world.link.add(2, gather, 0.0)
    gather.start(0.0)
    assert not ends
    world.link.remove(1, 0.0)  # the coverer goes before it is confirmed: 2 waits for its own answer
    assert not ends
    for number, waiting in world.link.announcements[2].waiters:
        assert number == 2
        waiting.answer(world.link.peer, None, 1.0)
    assert ends == [1.0]
