"""What one broker says about itself when the census asks.

A report is a JSON object with the broker's name and, where it lists something, `rows` (at most `limit`)
beside the `total`. A question may be meant for one broker (`at`): the others then have nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

import msgspec

from overlay.administration.census import Census, Report
from overlay.administration.labels import filter_text
from overlay.behaviour import Quiet
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.client import Client, Key
from overlay.data.path import Publications
from overlay.links.members import Members
from overlay.links.session import Remote, Session

ROWS = 1_000
ROWS_MAX = 20_000
DRAIN_AFTER_S = 0.25
GONE_S = 86_400.0  # a broker that was given up is named for so long
GONE_MAX = 4_096
Row = dict[str, Any]


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """The argument of a question."""

    at: str = ""  # the broker that is to answer; "": all
    name: str = ""  # of what is asked about
    limit: int = ROWS
    since: int = 0  # of events: those after this number
    table: bool = False  # all that the broker knows, not only what is at home there


class Listing(Protocol):
    """What an overlay says of its place and its tables."""

    def place(self) -> Row:
        """Where this broker is in the overlay."""

    def totals(self) -> Row:
        """How much is known here: subscriptions_known, advertisements; subscriptions, if clients' are in no
        index here."""

    def subscription(self, key: Key) -> Row: ...
    def subscriptions_known(self) -> tuple[int, Iterable[Row]]: ...
    def explained(self, name: str) -> Row | None:
        """A subscription by its label, with who knows it and why others do not."""

    def advertisements_known(self, publisher: str, everywhere: bool) -> tuple[int, Iterable[Row]]: ...


class Reports(Quiet):
    """Keeps the totals of sessions that are gone, so that a broker's counters never fall."""

    def __init__(
        self,
        census: Census,
        members: Members,
        listing: Listing,
        publications: Publications,
        attachments: Attachments,
    ) -> None:
        self.census = census
        self.members = members
        self.listing = listing
        self.publications = publications
        self.attachments = attachments
        self.sent_before = self.delivered_before = self.received_before = self.dropped_before = 0
        self.gone: dict[str, float] = {}  # since when
        self._behind: dict[Remote, list[str]] = {}  # of suspended neighbours
        self.behind: Callable[[Remote], list[str]] = census.behind
        self.waiting_for: Callable[[Client], Row | None] = lambda client: None  # set by profiles
        self.more_links: Callable[[], list[Row]] = list  # soft and candidate links
        self.role_of: Callable[[str], str] | None = None  # of a neighbour, where there is no tree
        self.channels: Callable[[], Row | None] = lambda: None  # whom it serves results of channels
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
            "events": self.events,
        }
        for question, reporter in reporters.items():
            census.reporters[question] = self._for_us(census, reporter)

    def attach(self, core: Core) -> None:
        self.core = core

    def link_up(self, session: Session, now: float) -> None:
        self.gone.pop(session.name, None)
        self._behind.pop(session, None)  # type: ignore[call-overload]

    def link_down(self, session: Session, now: float) -> None:
        """Those behind are noted here: when the link is lost, the map has forgotten them."""
        if isinstance(session, Remote):
            self._behind[session] = self.behind(session)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Remote):
            behind = self._behind.pop(session, [])
            if not session.going and len(self.gone) < GONE_MAX:
                self.gone |= {name: now for name in (session.name, *behind) if name not in self.gone}
        if isinstance(session, Remote):
            self.sent_before += sum(lane.out.sent for lane in session.every_lane())
            self.received_before += sum(lane.received_total for lane in session.every_lane())
        else:
            self.delivered_before += session.out.sent
            if isinstance(session, Client):
                self.dropped_before += session.deliveries.dropped

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
            **self.listing.place(),
            "addresses": list(self.members.handshake.addresses),
            "links": sum(peer.link is not None for peer in core.peers.values()),
            "clients": len(core.clients),
            "subscriptions": len(publications.local.index),
            **self.listing.totals(),
            "accepted": publications.accepted,
            "forwarded": self.sent_before
            + sum(lane.out.sent for r in self.members.handshake.sessions.values() for lane in r.every_lane()),
            "delivered": self.delivered_before + sum(c.out.sent for c in core.numbered.values()),
            "received": self.received_before
            + sum(
                lane.received_total
                for remote in self.members.handshake.sessions.values()
                for lane in remote.every_lane()
            ),
            "duplicates": publications.duplicates,
            "refused": dict(core.refused),
            "measured": dict(core.report),
            "settings": core.settings.cluster_wide(),
            **({"gone": self._gone()} if self.gone else {}),
        }

    def given_up(self) -> list[str]:
        """Neighbours that were lost, with those behind them; whoever answers elsewhere is not gone."""
        oldest = self.core.now - GONE_S
        self.gone = {name: since for name, since in self.gone.items() if since > oldest}
        return list(self.gone)

    def _gone(self) -> list[Row]:
        self.given_up()
        return [{"name": name, "since": round(since, 3)} for name, since in self.gone.items()]

    def _state(self) -> str:
        if self.core.leaving:
            return "leaving"
        return "ready" if self.core.ready else "joining"

    def drain(self, ask: Ask) -> Row | None:
        """Starts to leave when this report has had time to pass. Only if meant by name."""
        if ask.at != self.core.name:
            return None
        self.core.timers.at(self.core.now + DRAIN_AFTER_S, self.core.leave)
        return {"state": "leaving", "clients": len(self.core.clients)}

    def events(self, ask: Ask) -> Row:
        """Those after `since`; `total` is the number of the latest."""
        found = self.core.events.since(max(0, ask.since), min(ask.limit, ROWS_MAX))
        return {"total": self.core.events.last, "rows": [happened.row() for happened in found]}

    def topology(self, ask: Ask) -> Row:
        channels = self.channels()
        more = {} if channels is None else {"channels": channels}
        return {**self.broker(ask), **more, **self.links(ask)}

    def links(self, ask: Ask) -> Row:
        primary = [
            {
                **row,
                "kind": "primary",
                **({} if self.role_of is None else {"role": self.role_of(row["name"])}),
            }
            for row in self.members.status()["peers"]
        ]
        rows = primary + self.more_links()
        return _rows(rows, len(rows), ask)

    # --- subscriptions and advertisements ---------------------------------------------------------------

    def subscription_rows(self, ask: Ask) -> Row:
        if ask.table:
            total, rows = self.listing.subscriptions_known()
            return _rows(rows, total, ask)
        total = sum(len(client.subscriptions) for client in self.core.clients.values())
        return _rows(self._local_subscriptions(ask.name), total, ask)

    def _local_subscriptions(self, client_name: str) -> Iterator[Row]:
        for client in self.core.clients.values():
            if client_name in ("", client.name):
                for number, key in client.subscriptions.items():
                    yield {"client": client.name, "number": number, **self.listing.subscription(key)}

    def explain(self, ask: Ask) -> Row | None:
        return self.listing.explained(ask.name)

    def advertisement_rows(self, ask: Ask) -> Row:
        total, rows = self.listing.advertisements_known(ask.name, ask.table)
        return _rows(rows, total, ask)

    # --- clients --------------------------------------------------------------------------------------

    def client_rows(self, ask: Ask) -> Row:
        rows = (self._client_row(row) for row in self.attachments.status()["clients"])
        return _rows(rows, len(self.core.clients), ask)

    def _client_row(self, row: Row) -> Row:
        """With the subscription that it does not keep up with, if it does not."""
        if row["state"] == "slow":
            client = next(c for c in self.core.clients.values() if c.name == row["name"])
            return {**row, "behind_on": self.waiting_for(client)}
        return row

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
                **self._client_row(row),
                "unsettled": client.incoming.received - client.incoming.settled,
                "link": client.link.peer if client.link is not None else None,
            },
            "subscriptions": list(mine),
            "advertisements": [filter_text(filter) for filter in islice(client.advertised(), ROWS)],
        }


def _rows(rows: Iterable[Row], total: int, ask: Ask) -> Row:
    return {"total": total, "rows": list(islice(rows, max(0, min(ask.limit, ROWS_MAX))))}
