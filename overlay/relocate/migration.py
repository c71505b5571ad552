"""SPEC P5: a publisher's attachment moves from a source broker to a target, with all its advertisements.

The source offers the move to the client (Relocate). The client attaches to the target, stops publishing,
says so to the source (Paused) and hands its advertisements to the target (Migrate). From there a Migration
Update goes along the path to the source; each broker turns the advertisements round (operation 1) and tells
the new side the subscriptions that overlap them (operation 3). When everything published at the source is
settled, a Migration Complete goes back with the last sequence number accepted; behind it each broker
withdraws from the old side what only these advertisements called for (operation 2). Links are FIFO, so when
it reaches the target all subscriptions have, and the client resumes there. O(path) messages.

The old side keeps its subscriptions until then, so that nothing in flight is lost whatever breaks. An
update is repeated when a link comes back, and who loses the next broker on the path completes in its place.
A broker obeys an update only if the advertisement has not been moved by a later one. The client decides how
it ends: moved, or aborted, and then it advertises anew at the source as if it had lost its broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from grapevine.wire.messages import Unadvertise
from grapevine.wire.relocation import (
    Migrate,
    MigrationComplete,
    MigrationUpdate,
    MovedAdvertisement,
    Paused,
    Relocate,
    Relocated,
    RelocateEnd,
)
from matching.relations import covers
from overlay.behaviour import Quiet, Status
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.path import Publications
from overlay.links.session import Session
from overlay.outbox import Event
from overlay.tree.advertisements import AdvertisementEntry, Advertisements
from overlay.tree.peer import Peer, peers_of
from overlay.tree.table import Key

MigrationId = tuple[int, int, int]
OFFER_S = 2.0  # an offer that nobody answers is repeated after this


class MigrationSource:
    """At the source: a client that was asked to go. `paused` is the last position that it used here."""

    __slots__ = ("began_at", "client", "committed", "offer", "paused")

    def __init__(self, client: Client, offer: Relocate, now: float) -> None:
        self.client = client
        self.offer = offer
        self.began_at = now
        self.paused: int | None = None
        self.committed = False


class MigrationHop:
    """A migration on its way through this broker."""

    __slots__ = ("accepted", "ahead", "behind", "complete", "settle_at", "update")

    def __init__(self, update: MigrationUpdate, behind: Session, ahead: Peer | None) -> None:
        self.update = update
        self.behind = behind  # towards the target: a neighbour, or the client at the target
        self.ahead = ahead  # towards the source; nobody at the source
        self.settle_at = 0  # at the source: position of the client's that must be settled
        self.complete = False  # at the target: the client may publish here
        self.accepted = 0

    @property
    def id(self) -> MigrationId:
        return _id(self.update)


def _id(
    message: MigrationUpdate | MigrationComplete | Migrate | Paused | Relocate | RelocateEnd,
) -> MigrationId:
    return message.origin, message.incarnation, message.number


class Migration(Quiet):
    def __init__(
        self, advertisements: Advertisements, publications: Publications, attachments: Attachments
    ) -> None:
        self.advertisements = advertisements
        self.publications = publications
        self.departures: dict[Client, MigrationSource] = {}
        self.hops: dict[MigrationId, MigrationHop] = {}
        self._early: dict[Peer, list[MigrationComplete]] = {}  # before their sender's SyncDone
        self.moved = self.aborted = 0
        self._number = 0
        # Told when a publisher has gone from here (moved) or stays after all, and when one was turned round.
        self.ended: Callable[[Client, bool, float], None] = lambda client, moved, now: None
        self.turned: Callable[[int, int], None] = lambda publisher, incarnation: None
        attachments.drained.add(self, self._flushed)

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Paused, self.on_paused)
        core.on(Migrate, self.on_migrate)
        core.on(RelocateEnd, self.on_end)
        core.on(MigrationUpdate, self.on_update)
        core.on(MigrationComplete, self.on_complete)
        self.advertisements.announcements.sync.forget_stale.append(self._synced)
        self.advertisements.migrating = self._relieves

    # --- the source ---------------------------------------------------------------------------------

    def offer(
        self, client: Client, path: tuple[int, ...], name: str, addresses: tuple[str, ...], now: float
    ) -> str:
        """Ask a client to publish at the last broker of `path`; why not, if it cannot be asked."""
        if client in self.departures or client.ended or client.link is None:
            return "it is not attached, or is moving already"
        entries = [self.advertisements.table.by_key.get(key) for key, _ in client.advertisements.values()]
        if not entries or client.unadvertising or any(e is None or e.source is not client for e in entries):
            return "its advertisements are changing, or it has none"
        moves = 1 + max(entry.item.moves for entry in entries if entry is not None)
        self._number += 1
        moved = tuple(MovedAdvertisement(n, *key) for n, (key, _) in client.advertisements.items())
        id = (self.core.id, self.core.incarnation, self._number)
        offer = Relocate(*id, name, addresses, path, moved, moves)
        departure = self.departures[client] = MigrationSource(client, offer, now)
        self._repeat_offer(departure, now)
        return ""

    def _repeat_offer(self, departure: MigrationSource, now: float) -> None:
        client = departure.client
        if self.departures.get(client) is departure and departure.paused is None:
            self.core.tell(departure.offer, client)
            self.core.timers.at(now + OFFER_S, lambda later: self._repeat_offer(departure, later))

    def on_paused(self, client: Client, message: Paused, now: float) -> None:
        departure = self.departures.get(client)
        if departure is not None and _id(departure.offer) == _id(message):
            departure.paused = message.sent
            client.touch()

    def on_end(self, client: Client, message: RelocateEnd, now: float) -> None:
        self._end_at_target(client, message, now)
        departure = self.departures.get(client)
        if departure is None or _id(departure.offer) != _id(message):
            return
        del self.departures[client]
        if message.outcome != "declined":
            self._withdraw(departure)
        moved = message.outcome == "moved"
        self.moved += moved
        self.aborted += message.outcome == "aborted"
        self._log(client, departure, message.outcome, now)
        self.ended(client, moved, now)

    def _withdraw(self, departure: MigrationSource) -> None:
        """What is still here of the advertisements that the client has taken elsewhere, or holds void."""
        client = departure.client
        for moved in departure.offer.advertisements:
            if (known := client.advertisements.pop(moved.number, None)) is not None:
                client.unadvertising.append((client.incoming.received, known[0]))
        client.readvertised()
        client.touch()

    def _log(self, client: Client, departure: MigrationSource, outcome: str, now: float) -> None:
        to = departure.offer.name if outcome == "moved" else self.core.name
        took_us = int((now - departure.began_at) * 1e6)
        hops = len(departure.offer.path) - 1
        self._tell(client, departure, outcome, now)
        self.core.out.logs.append(
            Event(now, "relocate", client.name, 0, to, (), hops, took_us, False, outcome)
        )

    def _tell(self, client: Client, departure: MigrationSource, outcome: str, now: float) -> None:
        here, there, took_ms = (
            self.core.name,
            departure.offer.name,
            round((now - departure.began_at) * 1000, 1),
        )
        fields: dict[str, Any] = {
            "publisher": client.name,
            "from": here,
            "to": there,
            "hops": len(departure.offer.path) - 1,
        }
        if outcome == "moved":
            text = f"{client.name} publishes at {there} now, {here} before; it took {took_ms:g} ms"
            self.core.event(now, "relocate.settled", text, **fields, took_ms=took_ms)
        else:
            text = f"{client.name} stays at {here} instead of {there}: {outcome}"
            self.core.event(now, "relocate.refused", text, "warn", **fields, outcome=outcome)

    def _commit(self, hop: MigrationHop, now: float) -> None:
        """The update has come all the way: the advertisements are the target's."""
        update = hop.update
        departure = next((d for d in self.departures.values() if _id(d.offer) == hop.id), None)
        if departure is not None:
            departure.committed = True
            self._turn(hop, departure.client, now)
        hop.settle_at = max((c.incoming.received for c in self._clients(update) if not c.ended), default=0)
        self._complete_if_settled(hop, now)

    def _clients(self, update: MigrationUpdate) -> list[Client]:
        """The publisher's sessions here: an earlier one may have ended and not be settled yet."""
        publisher, incarnation = update.publisher, update.publisher_incarnation
        sessions = self.core.numbered.values()
        return [c for c in sessions if c.id == publisher and c.incarnation == incarnation]

    def _flushed(self, client: Client) -> None:
        """After each drain that touched a client: it may have come to be settled."""
        if self.hops:
            for hop in list(self.hops.values()):
                if self._waits_for(hop, client):
                    self._complete_if_settled(hop, self.core.now)

    def _waits_for(self, hop: MigrationHop, client: Client) -> bool:
        return hop.ahead is None and not hop.complete and hop.update.publisher == client.id

    def _complete_if_settled(self, hop: MigrationHop, now: float) -> None:
        if self.settled(hop):
            update = hop.update
            self._complete(hop, self.accepted(update), now)

    def accepted(self, update: MigrationUpdate) -> int:
        """The last sequence number that we took, everything up to it being settled; 0 if the client may not
        know of all that was cut."""
        if any(client.incoming.cuts for client in self._clients(update)):
            return 0
        return self.publications.seen.last.get((update.publisher, update.publisher_incarnation), 0)

    def settled(self, hop: MigrationHop) -> bool:
        """Whether nothing that the publisher published here is in flight, nor can follow."""
        return all(self._settled(hop, client) for client in self._clients(hop.update))

    def _settled(self, hop: MigrationHop, client: Client) -> bool:
        incoming = client.incoming
        if client.ended:
            return not incoming.records
        last = hop.settle_at
        departure = self.departures.get(client)
        if departure is not None and _id(departure.offer) == hop.id:
            if departure.paused is None:
                return False
            last = departure.paused
            if incoming.cuts and client.link is not None:
                return False  # it must hear of them first; one that has gone on elsewhere listens no more
        return incoming.settled >= last

    # --- the path -----------------------------------------------------------------------------------

    def on_update(self, peer: Peer, update: MigrationUpdate, now: float) -> None:
        try:
            place = update.path.index(self.core.id)
        except ValueError:
            return
        if _id(update) in self.hops:
            hop = self.hops[_id(update)]
            hop.behind = peer
        else:
            ahead = peers_of(self.core).get(update.path[place - 1]) if place else None
            hop = self.hops[_id(update)] = MigrationHop(update, peer, ahead)
        if place == 0:
            self._commit(hop, now)
        elif hop.ahead is None:
            self._complete(hop, 0, now)  # the way on is lost
        else:
            self._turn(hop, hop.ahead, now)
            self._pass_on(hop, hop.ahead)

    def _pass_on(self, hop: MigrationHop, ahead: Peer) -> None:
        """Behind it, what the target has withdrawn since: an update turns the advertisements round, and
        nobody else would say that they have gone."""
        self.core.tell(hop.update, ahead)
        for moved in hop.update.advertisements:
            entry = self.advertisements.table.by_key.get((moved.origin, moved.serial))
            if entry is None or entry.item.moves < hop.update.moves:
                self.core.tell(Unadvertise(moved.origin, moved.serial), ahead)

    def _turn(self, hop: MigrationHop, before: Session, now: float) -> None:
        """Operations 1 and 3: the advertisements come from the target's side, and it is told what overlaps
        them. The side where they were before lingers: it is told what it was, until all is settled."""
        update = hop.update
        for moved in update.advertisements:
            entry = self.advertisements.table.by_key.get((moved.origin, moved.serial))
            if entry is None or entry.item.publisher != update.publisher:
                continue
            obeyed = self._obeyed(entry, update)
            if obeyed or entry.source is hop.behind:
                self.advertisements.linger(entry, before, now)
            if obeyed:
                home = update.path[-1]
                item = replace(entry.item, home=home, home_name=update.name, moves=update.moves)
                self.advertisements.move(entry, item, hop.behind, now)
        self.turned(update.publisher, update.publisher_incarnation)

    def _obeyed(self, entry: AdvertisementEntry, update: MigrationUpdate) -> bool:
        """A late update must not turn back what a later one has turned."""
        return entry.item.moves < update.moves

    def on_complete(self, peer: Peer, message: MigrationComplete, now: float) -> None:
        """It counts when its sender has said SyncDone (DECISIONS 27): one that has restarted may not know yet
        what its other neighbours ask for, nor do we then."""
        hop = self.hops.get(_id(message))
        if hop is None or hop.ahead is not peer:
            return
        if peer.synced_by_peer:
            self._complete(hop, message.accepted, now)
        else:
            self._early.setdefault(peer, []).append(message)

    def _synced(self, peer: Peer, now: float) -> None:
        for message in self._early.pop(peer, ()):
            self.on_complete(peer, message, now)

    def link_down(self, session: Session, now: float) -> None:
        """What it had said before its SyncDone it says again on the next link."""
        self._early.pop(session, None)  # type: ignore[call-overload]

    def _complete(self, hop: MigrationHop, accepted: int, now: float) -> None:
        """Operation 2, then the word goes on towards the target."""
        self._relieve(hop, now)
        update, behind = hop.update, hop.behind
        if isinstance(behind, Client) and not behind.ended:
            hop.complete, hop.accepted = True, accepted
            hop.ahead = None
            self._tell_moved(hop)
            return
        del self.hops[hop.id]
        publisher, incarnation = update.publisher, update.publisher_incarnation
        self.core.tell(MigrationComplete(*hop.id, publisher, incarnation, accepted), behind)

    def _relieve(self, hop: MigrationHop, now: float) -> None:
        """Operation 2: withdraw from the source's side what only these advertisements called for."""
        sides: list[Session] = [hop.ahead] if hop.ahead else [*self._clients(hop.update)]
        for before in sides:
            for moved in hop.update.advertisements:
                self.advertisements.relieve((moved.origin, moved.serial), before, now)

    def _relieves(self, key: Key) -> bool:
        moving = (moved for hop in self.hops.values() for moved in hop.update.advertisements)
        return any((moved.origin, moved.serial) == key for moved in moving)

    # --- the target ---------------------------------------------------------------------------------

    def on_migrate(self, client: Client, message: Migrate, now: float) -> None:
        hop = self.hops.get(_id(message))
        if hop is not None and hop.behind is client:
            self._tell_moved(hop)
            return
        if hop is not None or not self._takes(client, message):
            outcome = "refused" if hop is None else "void"
            self.core.tell(Relocated(*_id(message), outcome), client)
            return
        update = MigrationUpdate(
            *_id(message),
            client.id,
            client.incarnation,
            self.core.name,
            message.path,
            message.advertisements,
            message.moves,
        )
        ahead = peers_of(self.core)[message.path[-2]]
        hop = self.hops[_id(message)] = MigrationHop(update, client, ahead)
        self._turn(hop, ahead, now)
        for moved in message.advertisements:
            key = (moved.origin, moved.serial)
            client.advertisements[moved.number] = (key, self.advertisements.table.by_key[key].item.filter)
        client.readvertised()
        self.core.tell(update, ahead)

    def _takes(self, client: Client, message: Migrate) -> bool:
        if len(message.path) < 2 or message.path[-1] != self.core.id or not message.advertisements:
            return False
        ahead = peers_of(self.core).get(message.path[-2])
        if ahead is None or not ahead.flowing:
            return False
        return all(self._is_of(client, moved, message, ahead) for moved in message.advertisements)

    def _is_of(self, client: Client, moved: MovedAdvertisement, message: Migrate, ahead: Peer) -> bool:
        entry = self.advertisements.table.by_key.get((moved.origin, moved.serial))
        return (
            entry is not None
            and (entry.item.publisher, entry.item.incarnation) == (client.id, client.incarnation)
            and entry.source is ahead
            and entry.item.moves < message.moves
            and moved.number not in client.advertisements
            and covers(client.may_publish, entry.item.filter)
        )

    def _tell_moved(self, hop: MigrationHop) -> None:
        if hop.complete:
            self.core.tell(Relocated(*hop.id, "moved", hop.accepted), hop.behind)

    def _end_at_target(self, client: Client, message: RelocateEnd, now: float) -> None:
        hop = self.hops.get(_id(message))
        if hop is None or hop.behind is not client:
            return
        if hop.complete:
            del self.hops[hop.id]
        if message.outcome != "moved":
            for moved in hop.update.advertisements:
                if (known := client.advertisements.pop(moved.number, None)) is not None:
                    client.unadvertising.append((client.incoming.received, known[0]))
            client.readvertised()
            client.touch()

    # --- links --------------------------------------------------------------------------------------

    def link_up(self, session: Session, now: float) -> None:
        """The neighbours' tables have been exchanged as they were: repeat what is under way."""
        for hop in self.hops.values():
            if hop.ahead is session and not hop.complete:
                self._pass_on(hop, hop.ahead)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Client):
            self._client_lost(session, now)
            return
        for hop in list(self.hops.values()):
            if hop.ahead is session:
                self._complete(hop, 0, now)

    def _client_lost(self, client: Client, now: float) -> None:
        if self.departures.pop(client, None) is not None:
            self.ended(client, False, now)
        for hop in list(self.hops.values()):
            if hop.behind is client and hop.complete:
                del self.hops[hop.id]
            elif self._waits_for(hop, client):
                self._complete_if_settled(hop, now)

    def status(self) -> Status:
        return {"departing": len(self.departures), "passing": len(self.hops), "moved": self.moved}

    def validate(self) -> None:
        for client, departure in self.departures.items():
            assert departure.client is client and not client.lost, client
        for id, hop in self.hops.items():
            assert hop.id == id and self.core.id in hop.update.path, id
            assert hop.ahead is None or peers_of(self.core).get(hop.ahead.id) is hop.ahead, id
