"""What one broker says about itself when the census asks.

A report is a JSON object with the broker's name and, where it lists something, `rows` (at most `limit`)
beside the `total`. A question may be meant for one broker (`at`): the others then have nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from overlay.administration.labels import filter_text, is_called, label
from overlay.behaviour import Quiet
from overlay.clients.attachments import Attachments
from overlay.clients.client import Client
from overlay.core import Core
from overlay.links.greeting import Greeting
from overlay.links.session import Remote, Session
from overlay.tree.advertisements import Advertisements
from overlay.tree.census import Census, Report
from overlay.tree.join import Join
from overlay.tree.publications import Publications
from overlay.tree.subscriptions import SubscriptionEntry, Subscriptions

ROWS = 1_000
ROWS_MAX = 20_000
DRAIN_AFTER_S = 0.25
Row = dict[str, Any]


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """The argument of a question."""

    at: str = ""  # the broker that is to answer; "": all
    name: str = ""  # of what is asked about
    limit: int = ROWS
    table: bool = False  # all that the broker knows, not only what is at home there


class Reports(Quiet):
    """Keeps the totals of sessions that are gone, so that a broker's counters never fall."""

    def __init__(
        self,
        census: Census,
        greeting: Greeting,
        join: Join,
        advertisements: Advertisements,
        subscriptions: Subscriptions,
        publications: Publications,
        attachments: Attachments,
    ) -> None:
        self.greeting = greeting
        self.join = join
        self.advertisements = advertisements
        self.subscriptions = subscriptions
        self.publications = publications
        self.attachments = attachments
        self.sent_before = self.delivered_before = 0
        self.more_links: Callable[[], list[Row]] = list  # soft and candidate links
        reporters = {
            "broker": self.broker,
            "ping": lambda ask: {},
            "links": self.links,
            "topology": self.topology,
            "subscriptions": self.subscription_rows,
            "explain": self.explain,
            "advertisements": self.advertisement_rows,
            "clients": self.client_rows,
            "client": self.client,
            "drain": self.drain,
        }
        for question, reporter in reporters.items():
            census.reporters[question] = self._for_us(census, reporter)

    def attach(self, core: Core) -> None:
        self.core = core

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Remote):
            self.sent_before += session.out.sent
        else:
            self.delivered_before += session.out.sent

    def _for_us(self, census: Census, reporter: Any) -> Any:
        def answer(argument: bytes) -> Report | None:
            try:
                ask = msgspec.json.decode(argument, type=Ask) if argument else Ask()
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return None
            if ask.at not in ("", self.core.name):
                return None
            report: Row | None = reporter(ask)
            return None if report is None else {**census.brief(), **report}

        return answer

    # --- the broker -----------------------------------------------------------------------------------

    def broker(self, ask: Ask) -> Row:
        core, publications = self.core, self.publications
        return {
            "state": self._state(),
            **self.join.status(),
            "addresses": list(self.greeting.addresses),
            "links": sum(peer.link is not None for peer in core.peers.values()),
            "clients": len(core.clients),
            "subscriptions": len(self.subscriptions.local),
            "subscriptions_known": len(self.subscriptions.table),
            "advertisements": len(self.advertisements.table),
            "accepted": publications.accepted,
            "forwarded": self.sent_before
            + sum(remote.out.sent for remote in (*core.peers.values(), *core.soft_out.values())),
            "delivered": self.delivered_before + sum(c.out.sent for c in core.numbered.values()),
            "duplicates": publications.duplicates,
            "refused": dict(core.refused),
            "measured": dict(core.report),
            "settings": core.settings.cluster_wide(),
        }

    def _state(self) -> str:
        if self.greeting.leaving:
            return "leaving"
        return "ready" if self.core.ready else "joining"

    def drain(self, ask: Ask) -> Row | None:
        """Starts to leave when this report has had time to pass. Only if meant by name."""
        if ask.at != self.core.name:
            return None
        self.core.timers.at(self.core.now + DRAIN_AFTER_S, self.core.leave)
        return {"state": "leaving", "clients": len(self.core.clients)}

    def topology(self, ask: Ask) -> Row:
        return {**self.broker(ask), **self.links(ask)}

    def links(self, ask: Ask) -> Row:
        primary = [{**row, "kind": "primary"} for row in self.greeting.status()["peers"]]
        rows = primary + self.more_links()
        return _rows(rows, len(rows), ask)

    # --- subscriptions and advertisements ---------------------------------------------------------------

    def subscription_rows(self, ask: Ask) -> Row:
        if ask.table:
            table = self.subscriptions.table
            return _rows((self._known(e) for e in table.by_key.values()), len(table), ask)
        total = sum(len(client.subscriptions) for client in self.core.clients.values())
        return _rows(self._local_subscriptions(ask.name), total, ask)

    def _local_subscriptions(self, client_name: str) -> Iterator[Row]:
        for client in self.core.clients.values():
            if client_name in ("", client.name):
                for number, key in client.subscriptions.items():
                    entry = self.subscriptions.table.by_key[key]
                    row = self._subscription(entry)
                    yield {"client": client.name, "number": number, **row}

    def _subscription(self, entry: SubscriptionEntry) -> Row:
        names = self.core.names
        return {"subscription": label(*entry.key, names), "filter": filter_text(entry.item.filter)}

    def _known(self, entry: SubscriptionEntry) -> Row:
        """An entry of this broker's table: where it came from, who was told, and who was not and why."""
        item, names = entry.item, self.core.names
        told, covered = [], {}
        for peer, announced in self.subscriptions.announced.items():
            if entry.number in announced.told:
                told.append(peer.name)
            elif (coverer := announced.coverer.get(entry.number)) is not None:
                covered[peer.name] = label(*self.subscriptions.table.entry(coverer).key, names)
        return {
            **self._subscription(entry),
            "source": entry.source.name,
            "local": isinstance(entry.source, Client),
            "anchor": names.get(item.path[0], f"{item.path[0]:016x}"),
            "told": told,
            "covered": covered,
        }

    def explain(self, ask: Ask) -> Row | None:
        for entry in self.subscriptions.table.by_key.values():
            if is_called(ask.name, *entry.key):
                return self._explained(entry)
        return None

    def _explained(self, entry: SubscriptionEntry) -> Row:
        row = self._known(entry)
        filter = entry.item.filter
        sides = self.advertisements.sides(filter)
        silent = [
            peer.name
            for peer in self.core.peers.values()
            if peer is not entry.source and peer.name not in row["told"] and peer.name not in row["covered"]
        ]
        row["not_told"] = {
            name: "no advertisement from there overlaps it"
            if all(name != side.name for side in sides)
            else "the link is down or being synchronised"
            for name in silent
        }
        return row

    def advertisement_rows(self, ask: Ask) -> Row:
        entries = self.advertisements.table.by_key.values()
        mine = [e for e in entries if ask.table or e.item.home == self.core.id]
        rows = (
            {
                "advertisement": label(*entry.key, self.core.names),
                "publisher": entry.item.publisher_name,
                "home": entry.item.home_name,
                "source": entry.source.name,
                "filter": filter_text(entry.item.filter),
            }
            for entry in mine
            if ask.name in ("", entry.item.publisher_name)
        )
        return _rows(rows, len(mine), ask)

    # --- clients --------------------------------------------------------------------------------------

    def client_rows(self, ask: Ask) -> Row:
        return _rows(self.attachments.status()["clients"], len(self.core.clients), ask)

    def client(self, ask: Ask) -> Row | None:
        for client in self.core.clients.values():
            if client.name == ask.name:
                return self._client(client, ask)
        return None

    def _client(self, client: Client, ask: Ask) -> Row:
        rows = self.attachments.status()["clients"]
        row = next(row for row in rows if row["name"] == client.name)
        mine = islice(self._local_subscriptions(client.name), max(0, min(ask.limit, ROWS_MAX)))
        return {
            "client": {
                **row,
                "unsettled": client.incoming.received - client.incoming.settled,
                "link": client.link.peer if client.link is not None else None,
            },
            "subscriptions": list(mine),
            "advertisements": [filter_text(filter) for filter in islice(client.advertised(), ROWS)],
        }


def _rows(rows: Iterable[Row], total: int, ask: Ask) -> Row:
    return {"total": total, "rows": list(islice(rows, max(0, min(ask.limit, ROWS_MAX))))}
