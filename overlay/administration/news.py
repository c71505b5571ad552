"""Events that no single behaviour knows of: links, readiness, and clients that do not keep up.

A client is *slow* when deliveries have waited for it for a second, or when it has been silent for so long
that nobody waits for it. Which of its subscriptions it is shows in what waits: the one that most of the
latest deliveries are for. A client is looked at from the moment it falls behind until it has caught up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from overlay.administration.reports import Listing
from overlay.behaviour import Quiet
from overlay.clients.attachments import POLICIES, Attachments
from overlay.core import Core
from overlay.data.client import Client
from overlay.links.readiness import Readiness
from overlay.links.session import Kind, Remote, Session
from overlay.timers import Timer

LOOK_S = 1.0  # between two looks at clients that are behind
DROPS_S = 10.0  # between two events of one client's losses
SAMPLE = 256  # of the deliveries that wait


def parent_or_child(neighbour: Remote) -> str:
    return "parent" if neighbour.dialled else "child"


class Behind:
    """A client that had something waiting when it was last looked at."""

    __slots__ = ("began", "dropped", "dropped_at", "since")

    def __init__(self, client: Client, now: float) -> None:
        self.since = now
        self.began = False  # told
        self.dropped = client.deliveries.dropped  # told
        self.dropped_at = -DROPS_S


class News(Quiet):
    def __init__(self, listing: Listing, readiness: Readiness, attachments: Attachments) -> None:
        self.listing = listing
        self.behind: dict[Client, Behind] = {}
        self._timer: Timer | None = None
        self._down_at: dict[int, float] = {}
        self.role_of: Callable[[Remote], str] = parent_or_child  # "": it has no word for it
        attachments.fell_behind = self._fell_behind
        readiness.on_ready.append(self._ready)

    def attach(self, core: Core) -> None:
        self.core = core

    def _ready(self, now: float) -> None:
        after_s = round(now - self.core.started_at, 3)
        if (parent := self.listing.place().get("parent")) is not None:
            text = f"{self.core.name} joined under {parent}, ready after {after_s:.2f} s"
            self.core.event(now, "joined", text, parent=parent, after_s=after_s)
        else:
            self.core.event(now, "ready", f"{self.core.name} is ready after {after_s:.2f} s", after_s=after_s)

    # --- links --------------------------------------------------------------------------------------

    def link_up(self, session: Session, now: float) -> None:
        if not isinstance(session, Remote) or session.kind is not Kind.PEER:
            return
        role = self.role_of(session)
        down_at = self._down_at.pop(session.id, None)
        again = "" if down_at is None else f", again after {now - down_at:.1f} s"
        place = f" ({role})" if role else ""
        text = f"{self.core.name} has a link to {session.name}{place}{again}"
        fields: dict[str, Any] = {} if down_at is None else {"down_s": round(now - down_at, 3)}
        self.core.event(now, "link.up", text, peer=session.name, role=role, **fields)

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Remote) and session.kind is Kind.PEER and not session.going:
            self._down_at[session.id] = now
            settings, waiting = self.core.settings, session.out.unsettled
            on_ring = settings.overlay.kind == "chord"
            kept_s = (settings.chord if on_ring else settings.links).lost_after_s
            text = f"no link to {session.name}; {waiting} publications for it are kept for {kept_s:g} s"
            self.core.event(now, "link.down", text, "warn", peer=session.name, unsettled=waiting)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Client):
            self.behind.pop(session, None)
        elif isinstance(session, Remote) and session.kind is Kind.PEER:
            down_at = self._down_at.pop(session.id, None)
            if session.paused:
                self.core.event(now, "left", f"{session.name} has left the overlay", peer=session.name)
            elif session.retiring:
                text = f"the link to {session.name} ends: nobody needs it any more"
                self.core.event(now, "link.ended", text, peer=session.name)
            else:
                after = "" if down_at is None else f" after {now - down_at:.0f} s without a link"
                self.core.event(
                    now, "link.lost", f"{session.name} is given up{after}", "bad", peer=session.name
                )

    # --- slow clients -------------------------------------------------------------------------------

    def _fell_behind(self, client: Client, now: float) -> None:
        if client not in self.behind:
            self.behind[client] = Behind(client, now)
            if self._timer is None:
                self._timer = self.core.timers.at(now + LOOK_S, self._look)

    def _look(self, now: float) -> None:
        self._timer = None
        for client, behind in list(self.behind.items()):
            deliveries = client.deliveries
            slow = bool(deliveries.backlog) or deliveries.stalled
            if client.ended or not slow:
                del self.behind[client]
                if behind.began and not client.ended:
                    text = f"client {client.name} has caught up after {now - behind.since:.0f} s"
                    self.core.event(now, "slow.ended", text, client=client.name)
                continue
            if not behind.began:
                behind.began = True
                self._began(client, now)
            if deliveries.dropped > behind.dropped and now - behind.dropped_at >= DROPS_S:
                self._dropped(client, behind, now)
        if self.behind:
            self._timer = self.core.timers.at(now + LOOK_S, self._look)

    def _began(self, client: Client, now: float) -> None:
        deliveries = client.deliveries
        backlog, policy = len(deliveries.backlog), POLICIES[deliveries.on_slow]
        fields: dict[str, Any] = {"client": client.name, "backlog": backlog, "policy": policy}
        text = f"client {client.name} does not keep up: {backlog} deliveries wait, policy {policy}"
        if (which := self.waiting_for(client)) is not None:
            fields |= which
            text += f", most for {which['subscription']} ({which['filter']})"
        self.core.event(now, "slow.began", text, "warn", **fields)

    def _dropped(self, client: Client, behind: Behind, now: float) -> None:
        lost = client.deliveries.dropped - behind.dropped
        behind.dropped, behind.dropped_at = client.deliveries.dropped, now
        text = f"{lost} deliveries to client {client.name} were dropped"
        self.core.event(now, "drop", text, "bad", client=client.name, count=lost)

    def waiting_for(self, client: Client) -> dict[str, Any] | None:
        """The subscription that most of the latest waiting deliveries are for, and their share."""
        counted: Counter[int] = Counter()
        sample = client.deliveries.backlog.latest_ids(SAMPLE)
        for ids in sample:
            counted.update(int.from_bytes(ids[at : at + 4], "little") for at in range(0, len(ids), 4))
        for number, amount in counted.most_common():
            key = client.subscriptions.get(number)
            if key is not None:
                row = self.listing.subscription(key)
                return {
                    "subscription": row["subscription"],
                    "number": number,
                    "filter": row["filter"],
                    "share": round(amount / len(sample), 3),
                }
        return None

    def validate(self) -> None:
        assert not self.behind or self._timer is not None
