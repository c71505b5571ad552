"""What a broker of the ring says of its place and its tables when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from overlay.administration.labels import filter_text, is_called, label
from overlay.administration.reports import Row
from overlay.chord.participation import Participation
from overlay.chord.planes import Planes
from overlay.chord.router import ChordRouter
from overlay.chord.topics import key_of
from overlay.core import Core
from overlay.data.client import Key


class ChordListing:
    def __init__(self, core: Core, planes: Planes, participation: Participation, router: ChordRouter) -> None:
        self.core = core
        self.planes, self.participation, self.router = planes, participation, router
        self.elsewhere: Callable[[], list[str]] = list  # who is on another ring
        self.placement: Callable[[], Row] = dict  # if users are placed

    def place(self) -> Row:
        ring = {**self.planes.membership.status(), **self.planes.roots.status()}
        rings = {"two_rings": self.elsewhere()}
        placed = {"placement": placement} if (placement := self.placement()) else {}
        return {**ring, **rings, "reconfiguration": self.participation.status(), **placed}

    def role(self, name: str) -> str:
        """What a neighbour is to us; of one that is several the first."""
        here = self.planes.membership
        if here.predecessor is not None and here.predecessor.name == name:
            return "predecessor"
        if name in (node.name for node in here.successors):
            return "successor"
        return "finger" if name in (node.name for node in here.fingers.nodes()) else ""

    def totals(self) -> Row:
        router = self.router
        return {
            "subscriptions_known": len(router.subscriptions),
            "advertisements": len(router.advertisements),
        }

    # --- subscriptions --------------------------------------------------------------------------------

    def subscription(self, key: Key) -> Row:
        known = self.router.subscriptions[key]
        row: Row = {"subscription": label(*key, self.core.names), "filter": filter_text(known.filter)}
        return row | {"topics": sorted(self.router.topics(known.filter))}

    def subscriptions_known(self) -> tuple[int, Iterable[Row]]:
        """Other brokers' are known by their roots only, topic by topic."""
        keys = self.router.subscriptions
        return len(keys), map(self._known, keys)

    def _known(self, key: Key) -> Row:
        client = self.router.subscriptions[key].client.name
        return {
            **self.subscription(key),
            "source": client,
            "local": True,
            "anchor": self.core.name,
            "announced_to": [],
            "covered": {},
        }

    def explained(self, name: str) -> Row | None:
        for key, known in self.router.subscriptions.items():
            if is_called(name, *key):
                topics = {topic: self._told(topic) for topic in sorted(self.router.topics(known.filter))}
                return {**self._known(key), "not_announced_to": {}, "roots": topics}
        return None

    def _told(self, topic: str) -> str:
        known = self.router.wants.known.get(key_of(topic), False)
        return "its root knows" if known else "its root has not answered yet"

    # --- advertisements -------------------------------------------------------------------------------

    def advertisements_known(self, publisher: str, everywhere: bool) -> tuple[int, Iterable[Row]]:
        mine = self.router.advertisements
        named = (key for key, (client, _) in mine.items() if publisher in ("", client.name))
        return len(mine), map(self._advertisement, named)

    def _advertisement(self, key: Key) -> Row:
        client, filter = self.router.advertisements[key]
        return {
            "advertisement": label(*key, self.core.names),
            "publisher": client.name,
            "home": self.core.name,
            "source": client.name,
            "filter": filter_text(filter),
        }
