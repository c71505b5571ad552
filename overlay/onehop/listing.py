"""What a member of the cluster says of its place and its tables when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grapevine.wire.onehop import DISPATCHER, MATCHER
from overlay.administration.labels import filter_text, is_called, label
from overlay.administration.reports import Row
from overlay.core import Core
from overlay.data.client import Key
from overlay.onehop.cluster import Cluster
from overlay.onehop.placing import Local, Placing
from overlay.onehop.router import OneHopRouter

ROLES = ((DISPATCHER, "dispatcher"), (MATCHER, "matcher"))
STATES = ("joining", "serving", "leaving", "dead", "left")


def roles_of(roles: int) -> list[str]:
    return [name for bit, name in ROLES if roles & bit]


class OneHopListing:
    def __init__(self, core: Core, cluster: Cluster, placing: Placing, router: OneHopRouter) -> None:
        self.core, self.cluster, self.placing, self.router = core, cluster, placing, router
        self.figures: Callable[[], Row] = dict  # set by the profile

    def place(self) -> Row:
        entry = self.cluster.own
        return {
            "roles": roles_of(entry.roles),
            "member_state": STATES[entry.state],
            "segments": {
                name: [[span.low, span.high] for span in spans]
                for name, spans in zip(self.cluster.table.dimensions, entry.segments)
            },
            "onehop": self.figures(),
        }

    def totals(self) -> Row:
        return {
            "subscriptions": len(self.placing.subscriptions),
            "subscriptions_known": len(self.placing.subscriptions),
            "advertisements": len(self.router.publishers),
        }

    def subscription(self, key: Key) -> Row:
        return self._row(self.placing.subscriptions[key[1]])

    def _row(self, mine: Local) -> Row:
        return {
            "subscription": label(self.core.id, mine.serial, self.core.names),
            "filter": filter_text(mine.filter),
        }

    def _known(self, mine: Local) -> Row:
        names = self.core.names
        return {
            **self._row(mine),
            "source": mine.client.name,
            "local": True,
            "anchor": self.core.name,
            "announced_to": sorted(names.get(matcher, str(matcher)) for matcher in mine.holders),
            "covered": {},
        }

    def subscriptions_known(self) -> tuple[int, Iterable[Row]]:
        known = self.placing.subscriptions
        return len(known), (self._known(mine) for mine in known.values())

    def explained(self, name: str) -> Row | None:
        for mine in self.placing.subscriptions.values():
            if is_called(name, self.core.id, mine.serial):
                return {**self._known(mine), "not_announced_to": {}}
        return None

    def advertisements_known(self, publisher: str, everywhere: bool) -> tuple[int, Iterable[Row]]:
        names = self.core.names
        rows = [
            {
                "advertisement": known.name,
                "publisher": known.name,
                "home": names.get(place.home, str(place.home)),
                "source": names.get(place.home, str(place.home)),
                "filter": "",
            }
            for places in self.router.publishers.values()
            for place, known in places.items()
            if (everywhere or place.home == self.core.id) and publisher in ("", known.name)
        ]
        return len(rows), rows
