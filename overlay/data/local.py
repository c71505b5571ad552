"""The subscriptions of the clients here, whatever the overlay: who of them a publication is for.

`generation` rises with everything that a route is made of, here or in the overlay: a cached route of an
earlier generation is not used.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.filters.normal import Filter
from matching.interface import Matcher
from matching.mentions import Mentions
from overlay.data.spill_queue import SpillQueue


class LocalSubscriptions:
    def __init__(self, matcher: Callable[[], Matcher]) -> None:
        self.index = matcher()  # group: the number of the client's session; label: the client's own number
        self.mentions = Mentions()  # attributes that some filter names, the overlay's included
        self.spill = SpillQueue()  # what waits for dormant clients
        self.generation = 0

    def add(self, number: int, filter: Filter, client: int, label: int) -> None:
        self.index.add(number, filter, client, label)
        self.mentions.add(filter)
        self.generation += 1

    def remove(self, number: int, filter: Filter) -> None:
        self.index.remove(number)
        self.mentions.remove(filter)
        self.generation += 1
