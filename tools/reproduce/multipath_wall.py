"""DT-FB: posts on Facebook walls, `sender,receiver,hour` by line, as publications on 120 brokers.

How the paper turned its trace into subscriptions stands in a report that is not at hand. Here a user lives at
a broker drawn at random and is told of every post of those with whom at least four posts were exchanged: then
a post is for 6.6 % of the brokers (paper: 6.5 %, from 120,000 subscriptions; ours are 16,700). Posts are
taken in the order of the trace, from the beginning again at its end.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from itertools import cycle, islice
from pathlib import Path
from random import Random

from tools.reproduce.multipath_workload import Publication, Tree

FILE = "facebook_wall_posts.csv.gz"
FRIENDS_POSTS = 4
Post = tuple[str, str]  # sender, receiver


def read_posts(directory: Path) -> list[Post]:
    with gzip.open(directory / FILE, "rt", encoding="ascii", newline="") as file:
        return [(line["sender"], line["receiver"]) for line in csv.DictReader(file)]


class WallWorkload:
    def __init__(self, tree: Tree, posts: list[Post], seed: int) -> None:
        friends = _friends(posts)
        random = Random(f"homes {seed}")
        self.home = {
            user: random.choice(tree.brokers) for user in sorted({u for post in posts for u in post})
        }
        self._wanted = {
            user: frozenset(self.home[friend] for friend in friends.get(user, ())) - {self.home[user]}
            for user in self.home
        }
        self._posts = cycle(posts)

    def draw(self, count: int) -> list[Publication]:
        return [Publication(self.home[user], self._wanted[user]) for user, _ in islice(self._posts, count)]


def _friends(posts: list[Post]) -> dict[str, set[str]]:
    """Who exchanged enough posts with whom."""
    exchanged = Counter(frozenset(post) for post in posts if post[0] != post[1])
    friends = defaultdict(set)
    for pair, count in exchanged.items():
        if count >= FRIENDS_POSTS:
            one, other = pair
            friends[one].add(other)
            friends[other].add(one)
    return friends
