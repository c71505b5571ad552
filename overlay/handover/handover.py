"""Clients are handed over to another broker, and nothing is lost, doubled or late (adr 0012).

Works on every overlay: no path is turned round. The client attaches to the new broker as well and subscribes
there; when all of that is confirmed, everything accepted later comes by the new broker too. Then one flush,
for all clients that are ready, makes sure that everything accepted before is here; the client is told with
which delivery of ours it is complete, takes what the new broker has sent meanwhile after it, and leaves.
Until it does, it is our client in every respect: whoever fails on the way, it stays one, or is at the target.

`Handovers.move` is what other behaviours call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from grapevine.wire.handover import MOVED, STAYS, HandoverDone, HandoverEnd, HandoverOffer, HandoverReady
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet, Status
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.client import Client
from overlay.handover.flush import Flush
from overlay.links.session import Session
from overlay.timers import Timer

QUESTION = "handover-target"
AT_ONCE = 1_000  # clients under way; others wait for their turn
ATTACHING = (
    100  # of them, on their way to the new broker: more at a time are more connections than it takes up
)
PATIENCE_S = 3.0  # for one of these; then it holds the others up no longer
LOOK_S = 0.05  # between two looks at slow clients
SWEEP_S = 0.5  # and at all of them
GATHER_S = 0.1  # while more are on their way, a flush waits for those who become ready meanwhile
AGAIN_S = 2.0  # without a word from a client: the offer may have been lost with a link
GIVE_UP_S = 90.0  # the client gives up before
UNKNOWN = "unknown"  # it has gone without a word


class Outcome(NamedTuple):
    """`outcome` is "moved", "stays" (`text` says why), or "unknown": the client is gone."""

    client: str
    outcome: str
    text: str


Finished = Callable[[list[Outcome], float], None]


class Order:
    """Clients that are to go to one broker; `finished` is called once, when the last has ended."""

    def __init__(self, target: str, finished: Finished) -> None:
        self.target = target
        self.finished = finished
        self.broker = 0
        self.addresses: tuple[str, ...] = ()
        self.left = 0
        self.outcomes: list[Outcome] = []


class Departure:
    """One client that has been offered another broker."""

    __slots__ = ("client", "flushed", "heard_at", "number", "offered_at", "order", "round", "said")

    def __init__(self, client: Client, order: Order, number: int, now: float) -> None:
        self.client = client
        self.order = order
        self.number = number
        self.offered_at = self.heard_at = now
        self.round = 0  # the last that the client is ready for
        self.flushed = 0  # and the last before which everything is here
        self.said = 0  # and the last that the client was told to be done


class Handovers(Quiet):
    name = "handover"
    after = ("Attachments", "Flush")

    def __init__(
        self, census: Census, flush: Flush, attachments: Attachments, addresses: tuple[str, ...]
    ) -> None:
        self.census = census
        self.flush = flush
        self.attachments = attachments
        self.addresses = addresses
        self.under_way: dict[Client, Departure] = {}
        self.moved = self.stayed = 0
        self._waiting: deque[tuple[Client, Order]] = deque()
        self._attaching: dict[Departure, float] = {}  # until when each holds up others, the oldest first
        self._slow: dict[Departure, None] = {}  # all is here, but it waits for their credit
        self._swept_at = 0.0
        self._flushing = False
        self._gathering: Timer | None = None  # until the next flush
        self._timer: Timer | None = None
        census.reporters[QUESTION] = self._target

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(HandoverReady, self.on_ready)
        core.on(HandoverEnd, self.on_end)

    # --- who is to go, and where ----------------------------------------------------------------------

    def move(self, clients: Iterable[Client], target: str, finished: Finished, now: float) -> None:
        """Have these clients of ours go to the broker `target`; `finished` hears what became of each, also if
        the target does not take them or does not answer."""
        order = Order(target, finished)
        chosen = list(clients)
        order.left = len(chosen)

        def answered(reports: list[Report], later: float) -> None:
            there = next((r for r in reports if r["name"] == target and not r.get("missing")), None)
            if why := _refusal(there, target):
                for client in chosen:
                    self._end(client, order, STAYS, why, later)
                return
            assert there is not None
            order.broker, order.addresses = there["id"], tuple(there["addresses"])
            self._waiting += [(client, order) for client in chosen]
            self._offer_more(later)

        if not chosen or target == self.core.name:
            for client in chosen:
                self._end(client, order, STAYS, "it is there already", now)
            if not chosen:
                finished([], now)
            return
        self.census.ask(QUESTION, None, now, answered, target.encode())

    def _target(self, name: bytes) -> Report | None:
        """Whether this broker takes clients; without a name everybody says so."""
        if name not in (b"", self.core.name.encode()):
            return None
        takes = self.core.ready and not self.core.leaving and not self.attachments.draining
        return {
            **self.census.brief(),
            "takes": takes,
            "clients": len(self.core.clients),
            "addresses": list(self.addresses),
        }

    def _offer_more(self, now: float) -> None:
        while self._waiting and len(self._attaching) < ATTACHING and len(self.under_way) < AT_ONCE:
            client, order = self._waiting.popleft()
            if why := self._unfit(client):
                self._end(client, order, STAYS, why, now)
                continue
            departure = Departure(client, order, self.core.serial(), now)
            self.under_way[client] = departure
            self._attaching[departure] = now + PATIENCE_S
            self._offer(departure, now)
        if self.under_way and self._timer is None:
            self._timer = self.core.timers.at(now + LOOK_S, self._look)

    def _unfit(self, client: Client) -> str:
        if client.ended:
            return "it is gone"
        if client in self.under_way:
            return "it is moving already"
        if client.link is None:
            return "it is not connected"
        return "" if client.speaks(HandoverOffer) else "its library is too old"

    def _offer(self, departure: Departure, now: float) -> None:
        order = departure.order
        departure.offered_at = now
        offer = HandoverOffer(departure.number, order.broker, order.target, order.addresses)
        self.core.tell(offer, departure.client)

    # --- what the client says -------------------------------------------------------------------------

    def on_ready(self, client: Client, message: HandoverReady, now: float) -> None:
        departure = self.under_way.get(client)
        if departure is None or departure.number != message.number:
            text = f"{self.core.name} knows of no such handover"
            self.core.tell(HandoverEnd(message.number, STAYS, text), client)
            return
        departure.heard_at = now
        departure.round = message.round
        departure.said = 0  # said again, if it was: the word may have been lost
        if self._attaching.pop(departure, None) is not None:
            self._offer_more(now)
        if not client.subscriptions:  # channels, or nothing: what it has goes on from its position
            departure.flushed = departure.round
        if departure.flushed == departure.round:
            self._say_done(departure)
        else:
            self._flush(now)

    def on_end(self, client: Client, message: HandoverEnd, now: float) -> None:
        departure = self.under_way.get(client)
        if departure is not None and departure.number == message.number:
            outcome = MOVED if message.outcome == MOVED else STAYS
            self._ended(departure, outcome, message.text, now)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Client) and (departure := self.under_way.get(session)) is not None:
            self._ended(departure, UNKNOWN, "it has gone", now)

    # --- everything before is here ----------------------------------------------------------------------

    def _flush(self, now: float) -> None:
        """One question for all who are ready; who becomes ready meanwhile waits for the next."""
        if self._flushing:
            return
        if self._attaching:
            if self._gathering is None:
                self._gathering = self.core.timers.at(now + GATHER_S, self._flush_now)
        else:
            self._flush_now(now)

    def _flush_now(self, now: float) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        ready = {d: d.round for d in self.under_way.values() if d.round > d.flushed}
        if self._flushing or not ready:
            return
        self._flushing = True

        def settled(later: float) -> None:
            self._flushing = False
            for departure, round in ready.items():
                departure.flushed = max(departure.flushed, round)
                if self.under_way.get(departure.client) is departure:
                    self._say_done(departure)
            self._flush(later)

        self.flush.when_settled(settled, now)

    def _say_done(self, departure: Departure) -> None:
        """Once nothing waits for the client's credit: what does has no position yet. A slow client stays
        until it has caught up."""
        client, deliveries = departure.client, departure.client.deliveries
        if departure.flushed != departure.round or departure.round == departure.said:
            self._slow.pop(departure, None)
        elif deliveries.queue or deliveries.backlog or deliveries.spill is not None:
            self._slow[departure] = None
        else:
            self._slow.pop(departure, None)
            departure.said = departure.round
            position = deliveries.end() - deliveries.base
            self.core.tell(HandoverDone(departure.number, departure.round, position), client)

    def _look(self, now: float) -> None:
        self._timer = None
        for departure in list(self._slow):
            self._say_done(departure)
        if now >= self._swept_at + SWEEP_S:
            self._swept_at = now
            for departure in list(self.under_way.values()):
                self._look_at(departure, now)
        while self._attaching and now >= next(iter(self._attaching.values())):
            del self._attaching[next(iter(self._attaching))]
        self._offer_more(now)

    def _look_at(self, departure: Departure, now: float) -> None:
        """Whether it is silent for too long."""
        if now >= departure.heard_at + GIVE_UP_S:
            self._ended(departure, STAYS, "it did not answer", now)
        elif not departure.round and now >= max(departure.heard_at, departure.offered_at) + AGAIN_S:
            self._offer(departure, now)

    # --- how it ends ------------------------------------------------------------------------------------

    def _ended(self, departure: Departure, outcome: str, text: str, now: float) -> None:
        del self.under_way[departure.client]
        self._attaching.pop(departure, None)
        self._slow.pop(departure, None)
        self._end(departure.client, departure.order, outcome, text, now)
        self._offer_more(now)

    def _end(self, client: Client, order: Order, outcome: str, text: str, now: float) -> None:
        order.outcomes.append(Outcome(client.name, outcome, text))
        order.left -= 1
        self.moved += outcome == MOVED
        self.stayed += outcome == STAYS
        if order.left:
            return
        moved = sum(one.outcome == MOVED for one in order.outcomes)
        total = len(order.outcomes)
        level = "info" if moved == total else "warn"
        text = f"{moved} of {total} clients moved to {order.target}"
        self.core.event(now, "handover", text, level, target=order.target, moved=moved, asked=total)
        order.finished(order.outcomes, now)

    def status(self) -> Status:
        counts = {"under_way": len(self.under_way), "waiting": len(self._waiting)}
        return {**counts, "moved": self.moved, "stayed": self.stayed}

    def validate(self) -> None:
        known = set(self.under_way.values())
        assert self._attaching.keys() <= known and self._slow.keys() <= known
        for client, departure in self.under_way.items():
            assert departure.client is client and not client.lost, client
            assert departure.said in (0, departure.round) and departure.flushed <= departure.round, client


def _refusal(report: Report | None, target: str) -> str:
    if report is None:
        return f"no broker named {target} answers"
    return "" if report.get("takes") else f"{target} takes no clients"
