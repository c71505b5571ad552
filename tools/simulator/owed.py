"""What the oracle remembers of subscriptions, advertisements and publications."""

from __future__ import annotations

from collections.abc import Mapping

from grapevine.filters.normal import Filter, Value
from tools.simulator.reach import Edge

Life = tuple[int, int]  # a client's host, and which of its processes


class Counted:
    """One stretch of time in which a subscription, or an advertisement, counts. `met` are the brokers that
    were connected with its home since: a subscription that was confirmed before anybody called for it is
    known where it was made and nowhere else, and sets out when it hears of the advertisement."""

    __slots__ = ("announced", "begin", "end", "home", "met", "reach", "withdrawn")

    def __init__(self, announced: Announced, begin: float, home: int, reach: int) -> None:
        self.announced = announced
        self.begin = begin
        self.end: float | None = None
        self.withdrawn = False  # it ended because its client wished so
        self.home = home
        self.reach = self.met = reach

    def connect(self, together: int) -> None:
        """These brokers are connected by now."""
        if self.reach & together:
            self.reach |= together
        if together >> self.home & 1:
            self.met |= together


class Announced:
    """A client's subscription or advertisement."""

    __slots__ = ("counted", "filter", "life", "number", "subscribes", "withdrawn")

    def __init__(self, life: Life, number: int, filter: Filter, subscribes: bool) -> None:
        self.life = life
        self.number = number
        self.filter = filter
        self.subscribes = subscribes
        self.counted: Counted | None = None
        self.withdrawn = False


class Published:
    __slots__ = (
        "accepted_at",
        "apart",
        "attributes",
        "brokers",
        "cut",
        "cut_off",
        "life",
        "owed",
        "persisted_at",
        "refused",
        "sequence",
        "settled_at",
    )

    def __init__(self, life: Life, sequence: int, attributes: Mapping[str, Value]) -> None:
        self.life = life
        self.sequence = sequence
        self.attributes = attributes
        self.accepted_at: float | None = None  # the first time
        self.settled_at: float | None = None
        self.cut = False  # and its publisher was told
        self.refused = False  # ... that it may not publish this
        self.apart: list[Counted] = []  # who would be owed it, but lay behind a link given up before
        self.cut_off: list[Counted] = []  # of these, at brokers that the first one had met in its life
        self.persisted_at: float | None = None  # durable, and on its first broker's disk
        self.brokers: set[int] = set()  # that have accepted it
        self.owed: list[tuple[Counted, tuple[Edge, ...]]] = []
