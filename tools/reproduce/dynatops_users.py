"""Users whose interests change, and the brokers they sit at (DYNATOPS 6.1.2).

A user wants a few topics by one of three patterns. A change is a Poisson event of one user; the paper does
not say what changes: here the whole interest (in the multimodal pattern a new mode) or one topic of it
(D-10). The brokers' knowledge of one another is an hour old (T_update), their own state is live. A broker's
subscription changes when the first of its users wants a topic or the last one no longer does.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from random import Random

import numpy as np

from overlay.chord.placement import Candidate, choose
from overlay.coordinate.cost import Matrix

MODE_TOPICS = 10
SIGMA = 1.0  # of Zipf; the paper gives none (D-9)


class Interests:
    """Draws users' topics; `pattern` is U (uniform), Z (Zipf) or M (multimodal)."""

    def __init__(self, pattern: str, topics: int, each: int, chance: Random) -> None:
        self.pattern = pattern
        self.topics = topics
        self.each = each
        self.chance = chance
        self.popularity = list(accumulate((rank + 1.0) ** -SIGMA for rank in range(1, topics + 1)))
        self.mode: dict[int, int] = {}

    def whole(self, user: int) -> tuple[int, ...]:
        if self.pattern == "M":
            self.mode[user] = self.chance.randrange(self.topics // MODE_TOPICS)
        found: dict[int, None] = {}
        while len(found) < self.each:
            found[self._one(user)] = None
        return tuple(found)

    def one_other(self, user: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """The same interest with one topic exchanged."""
        while (topic := self._one(user)) in wanted:
            pass
        gone = self.chance.randrange(len(wanted))
        return (*wanted[:gone], topic, *wanted[gone + 1 :])

    def _one(self, user: int) -> int:
        if self.pattern == "U":
            return self.chance.randrange(self.topics)
        if self.pattern == "M":
            return self.mode[user] * MODE_TOPICS + self.chance.randrange(MODE_TOPICS)
        return bisect_left(self.popularity, self.chance.random() * self.popularity[-1])


class Brokers:
    """Who sits where, and what each broker's users want."""

    def __init__(self, brokers: int, topics: int) -> None:
        self.topics = topics
        self.wanted: list[dict[int, int]] = [{} for _ in range(brokers)]  # topic -> users
        self.load = [0] * brokers
        self.home: dict[int, int] = {}
        self.interest: dict[int, tuple[int, ...]] = {}
        self.changes: list[tuple[int, int]] = []  # (broker, topic) of its subscription
        self.moves = 0

    def change(self, user: int, interest: tuple[int, ...], broker: int) -> None:
        """The user wants this now, and at this broker."""
        old_home = self.home.get(user)
        self._add(broker, interest)
        if old_home is not None:
            self._remove(old_home, self.interest[user])
            self.moves += old_home != broker
        self.home[user], self.interest[user] = broker, interest

    def _add(self, broker: int, interest: tuple[int, ...]) -> None:
        wanted = self.wanted[broker]
        for topic in interest:
            users = wanted.get(topic, 0)
            if not users:
                self.changes.append((broker, topic))
            wanted[topic] = users + 1
        self.load[broker] += len(interest)

    def _remove(self, broker: int, interest: tuple[int, ...]) -> None:
        wanted = self.wanted[broker]
        for topic in interest:
            if wanted[topic] == 1:
                del wanted[topic]
                self.changes.append((broker, topic))
            else:
                wanted[topic] -= 1
        self.load[broker] -= len(interest)

    def users(self) -> Matrix:
        """[broker, topic]: how many users."""
        found = np.zeros((len(self.wanted), self.topics), np.int32)
        for broker, wanted in enumerate(self.wanted):
            found[broker, list(wanted)] = list(wanted.values())
        return found

    def taken_changes(self) -> list[tuple[int, int]]:
        taken, self.changes = self.changes, []
        return taken


class Clusters:
    """Similarity-based placement among the brokers of a cluster (4, algorithm 1)."""

    def __init__(self, brokers: Brokers, members: list[list[int]], load_weight: float) -> None:
        self.brokers = brokers
        self.members = members
        self.of = {broker: number for number, several in enumerate(members) for broker in several}
        self.load_weight = load_weight
        self.seen: dict[int, Candidate] = {}
        self.updates = 0
        self.update()

    def update(self) -> None:
        """Every broker tells the others of its cluster what it has."""
        self.seen = {broker: self._live(broker, True) for several in self.members for broker in several}
        self.updates += sum(len(several) * (len(several) - 1) for several in self.members)

    def _live(self, broker: int, copied: bool) -> Candidate:
        topics = self.brokers.wanted[broker].keys()
        return Candidate(broker, frozenset(topics) if copied else topics, self.brokers.load[broker])

    def join(self, interest: tuple[int, ...], cluster: int) -> int:
        """A newcomer's broker, by live knowledge."""
        candidates = [self._live(broker, False) for broker in self.members[cluster]]
        found = choose(interest, candidates, None, self.load_weight)
        assert found is not None
        return found

    def choose(self, interest: tuple[int, ...], home: int, cluster: int | None = None) -> int:
        """`cluster`: another than home's, for who has gone elsewhere."""
        members = self.members[self.of[home] if cluster is None else cluster]
        candidates = [self._live(one, False) if one == home else self.seen[one] for one in members]
        found = choose(interest, candidates, home, self.load_weight)
        assert found is not None
        return found
