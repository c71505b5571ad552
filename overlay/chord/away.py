"""Members with streams whose broker is away: they are owed what is published meanwhile.

An ordinary member to whom no way leads is forgotten, its subscribers are gone with their sessions. A lasting
one stays: what is published to its topics ends as cut at the root, so that a durable publication is kept in
custody and comes again (journal/stranded.py), and of any other its publisher is told. Now and then one is
sent all the same: if the broker is back without its streams it says so. Who does not come back for FOREVER
times `links.lost_after_s` is gone for good, as on a tree.
"""

from __future__ import annotations

from grapevine.wire.chord import Member

FOREVER = 10  # times links.lost_after_s
Place = tuple[int, int]  # topic, position


class Away:
    def __init__(self) -> None:
        self.patience_s = self.forever_s = 0.0
        self._since: dict[Place, float] = {}
        self._until: dict[Place, float] = {}  # then one is sent again

    def for_good(self, key: int, member: Member, now: float) -> bool:
        """It could not be reached: it is away from now on, or has been for too long."""
        place = (key, member.position)
        self._until[place] = now + self.patience_s
        return now - self._since.setdefault(place, now) > self.forever_s

    def heard(self, key: int, member: Member) -> None:
        self.forget(key, member.position)

    def forget(self, key: int, position: int) -> None:
        self._since.pop((key, position), None)
        self._until.pop((key, position), None)

    def clear(self) -> None:
        self._since.clear()
        self._until.clear()

    def of(self, key: int, now: float) -> list[int]:
        """Positions that nothing is sent to now."""
        if not self._until:
            return []
        return [position for (topic, position), until in self._until.items() if topic == key and until > now]
