"""What a broker of the tree says of its place and its tables when it is asked."""

from __future__ import annotations

from collections.abc import Iterable

from overlay.administration.labels import filter_text, is_called, label
from overlay.administration.reports import Row
from overlay.core import Core
from overlay.data.client import Client, Key
from overlay.tree.advertisements import AdvertisementEntry
from overlay.tree.join import Join
from overlay.tree.peer import peers_of
from overlay.tree.router import TreeRouter
from overlay.tree.subscriptions import SubscriptionEntry


class TreeListing:
    def __init__(self, core: Core, join: Join, router: TreeRouter) -> None:
        self.core = core
        self.join = join
        self.subscriptions = router.subscriptions
        self.advertisements = router.advertisements

    def place(self) -> Row:
        return self.join.status()

    def totals(self) -> Row:
        return {
            "subscriptions_known": len(self.subscriptions.table),
            "advertisements": len(self.advertisements.table),
        }

    # --- subscriptions --------------------------------------------------------------------------------

    def subscription(self, key: Key) -> Row:
        return self._row(self.subscriptions.table.by_key[key])

    def subscriptions_known(self) -> tuple[int, Iterable[Row]]:
        table = self.subscriptions.table
        return len(table), (self._known(entry) for entry in table.by_key.values())

    def _row(self, entry: SubscriptionEntry) -> Row:
        names = self.core.names
        return {"subscription": label(*entry.key, names), "filter": filter_text(entry.item.filter)}

    def _known(self, entry: SubscriptionEntry) -> Row:
        """An entry of this broker's table: where it came from, to whom it was announced or not, and why."""
        item, names = entry.item, self.core.names
        announced_to, covered = [], {}
        for peer, announced in self.subscriptions.announced.items():
            if entry.number in announced.announcements:
                announced_to.append(peer.name)
            elif (coverer := announced.coverer.get(entry.number)) is not None:
                covered[peer.name] = label(*self.subscriptions.table.entry(coverer).key, names)
        return {
            **self._row(entry),
            "source": entry.source.name,
            "local": isinstance(entry.source, Client),
            "anchor": names.get(item.path[0], f"{item.path[0]:016x}"),
            "announced_to": announced_to,
            "covered": covered,
        }

    def explained(self, name: str) -> Row | None:
        for entry in self.subscriptions.table.by_key.values():
            if is_called(name, *entry.key):
                return self._explained(entry)
        return None

    def _explained(self, entry: SubscriptionEntry) -> Row:
        row = self._known(entry)
        sides = self.advertisements.sides(entry.item.filter)
        silent = [
            peer.name
            for peer in peers_of(self.core).values()
            if peer is not entry.source and not {peer.name} & {*row["announced_to"], *row["covered"]}
        ]
        row["not_announced_to"] = {
            name: "no advertisement from there overlaps it"
            if all(name != side.name for side in sides)
            else "the link is down or being synchronised"
            for name in silent
        }
        return row

    # --- advertisements -------------------------------------------------------------------------------

    def advertisements_known(self, publisher: str, everywhere: bool) -> tuple[int, Iterable[Row]]:
        entries = self.advertisements.table.by_key.values()
        mine = [e for e in entries if everywhere or e.item.home == self.core.id]
        named = (e for e in mine if publisher in ("", e.item.publisher_name))
        return len(mine), map(self._advertisement, named)

    def _advertisement(self, entry: AdvertisementEntry) -> Row:
        return {
            "advertisement": label(*entry.key, self.core.names),
            "publisher": entry.item.publisher_name,
            "home": entry.item.home_name,
            "source": entry.source.name,
            "filter": filter_text(entry.item.filter),
        }
