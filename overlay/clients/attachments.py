"""Clients come, resume, go silent, leave.

An attachment is a link session (DECISIONS 5): the same incarnation that knows the epoch resumes where it
was; anything else starts anew. A client that detached or was lost is gone as a subscriber at once, as a
publisher only when all that it published is settled or cut (DECISIONS 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import msgspec

from grapevine.filters.normal import EVERYTHING
from grapevine.filters.printing import to_text
from grapevine.wire.identity import identify
from grapevine.wire.limits import ADDRESSES, LIST_ENTRIES
from grapevine.wire.messages import (
    PROTOCOL,
    PROTOCOL_OLDEST,
    Attach,
    Attached,
    Detach,
    GoAway,
    Marks,
    Partial,
    Refuse,
)
from overlay.assembly import Calls
from overlay.behaviour import Quiet, Status
from overlay.clients.owners import Owner, Owners
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.deliveries import Deliveries
from overlay.data.local import LocalSubscriptions
from overlay.data.router import Registry, Router
from overlay.links.liveness import Liveness
from overlay.links.readiness import Readiness
from overlay.links.session import Kind, Link, Remote, Session
from overlay.settings import CoreSettings
from overlay.timers import Timer

WAITING = 10_000  # clients that may wait for a broker to become ready
LIMIT_CHARS = 500  # of a filter that a client is told as its limit
PIECE = 128  # subscriptions that end in one piece of work
POLICIES = ("drop_oldest", "drop_newest", "disconnect")  # by their numbers on the wire
DORMANT_S = 1.0  # between two looks at what has come for those who are dormant


class Attachments(Quiet):
    name = "clients"
    keeps = "names"  # whose they are

    def __init__(
        self,
        liveness: Liveness,
        readiness: Readiness,
        router: Router,
        registry: Registry,
        local: LocalSubscriptions,
    ) -> None:
        self.liveness = liveness
        self.router = router
        self.registry = registry
        self.local = local
        self.spill = local.spill
        # After each drain that touched a client that publishes.
        self.drained: Calls[Callable[[Client], None]] = Calls("drained")
        self.admitted: Callable[[Client, float], None] = lambda client, now: None  # set by Requests
        # Set by a coordinator: where somebody who asks for a place should go; None: here.
        self.place: Callable[[Attach, float], GoAway | None] = lambda attach, now: None
        self.fell_behind: Callable[[Client, float], None] = lambda client, now: None  # set by News
        self.ordered = True  # one publisher at a client: false where it holds for each topic alone ..
        self.ordered_by: tuple[str, ...] = ()  # .. which these terms make
        self.missing: Callable[[], Iterable[str]] = tuple  # brokers that cannot be reached; set by profiles
        self.takers: Callable[[], Iterable[Remote]] = lambda: self.core.peers.values()  # of clients
        self.beyond: Callable[[], Iterable[str]] = (
            tuple  # addresses two hops away: neighbours may die together
        )
        self.draining = False  # this broker is about to stop
        self._dormant_timer: Timer | None = None
        self.owners = Owners()
        self._waiting: dict[Link, Attach] = {}
        readiness.on_ready.append(self._serve)

    def attach(self, core: Core) -> None:
        self.core = core
        self.spill.limit_to(core.settings.clients.queue, core.settings.clients.queue_bytes)
        core.on_greeting(Attach, self.on_attach)
        core.on(Detach, self.on_detach)

    # --- coming ---------------------------------------------------------------------------------------

    def on_attach(self, link: Link, attach: Attach, now: float) -> None:
        link.agree(self.core.protocol, attach.newest)
        other = link.session is not None and link.session.id != attach.client
        if other or link.kind is not Kind.CLIENT or link.dial:
            self.core.drop(link, "greeting", now)  # a link is one client's
        elif not self.core.ready:
            self._wait(link, attach)
        elif (refusal := self._refusal(link, attach, now)) is not None:
            self.core.send(refusal, link)
            self.core.close(link)
        else:
            self._admit(link, attach, now)

    def _wait(self, link: Link, attach: Attach) -> None:
        """Until this broker is ready; who gave up and dialled again keeps no place."""
        if len(self._waiting) >= WAITING:
            links = self.core.links
            self._waiting = {one: a for one, a in self._waiting.items() if links.get(one.number) is one}
        if len(self._waiting) < WAITING or link in self._waiting:
            self._waiting[link] = attach
        else:
            self.core.send(Refuse("not-ready", f"{self.core.name} has too many waiting already"), link)
            self.core.close(link)

    def _serve(self, now: float) -> None:
        waiting, self._waiting = self._waiting, {}
        for link, attach in waiting.items():
            if self.core.links.get(link.number) is link:
                self.on_attach(link, attach, now)

    def _refusal(self, link: Link, attach: Attach, now: float) -> Refuse | GoAway | None:
        """Who leaves sends newcomers away as well: all the brokers that a client knows may be leaving."""
        core = self.core
        if not (PROTOCOL_OLDEST <= attach.newest and attach.oldest <= core.protocol):
            return Refuse("version", f"{core.name} speaks protocol {PROTOCOL_OLDEST}-{core.protocol}")
        if self.core.leaving or self.draining:
            text = f"{core.name} is leaving the overlay: attach to another broker"
            return GoAway(others) if (others := self._elsewhere()) else Refuse("leaving", text)
        if (missing := self._missing()) and core.settings.clients.when_split == "refuse":
            return Refuse("split", f"{core.name} serves nobody while it cannot reach {', '.join(missing)}")
        if attach.client != identify(attach.name) or self._name_of(attach.client) not in (None, attach.name):
            return Refuse("name", f"the id of {attach.name} is not that of its name, or is taken by another")
        old = core.clients.get(attach.client)
        if old is not None and core.granted is not None and old.key != link.peer:
            return Refuse("name", f"a client named {attach.name} is here with another key")
        if core.granted is not None and self._anothers(attach.client, link.peer):
            return Refuse("name", f"the name {attach.name} is that of a publisher with another key")
        if old is None and attach.place and (elsewhere := self.place(attach, now)) is not None:
            return elsewhere
        if old is None or old.link is None or old.link is link or old.incarnation == attach.incarnation:
            return None
        return self.liveness.challenge(old, old.link, attach.incarnation, now)

    def _anothers(self, name: int, key: str) -> bool:
        owner = self.owners.of(name)
        return owner not in ("", key) and self.core.may_connect(owner)

    def own(self, client: Client, now: float) -> None:
        """It publishes: its name is its key's from now on."""
        if self.core.granted is not None:
            for name, owner in self.owners.claim(client.id, client.key, now):
                self.core.keep(self.keeps, f"{name:016x}", owner)

    def restore(self, rows: Mapping[str, bytes]) -> None:
        self.owners.restore(msgspec.json.decode(row, type=Owner) for row in rows.values())

    def _name_of(self, id: int) -> str | None:
        """Who has this id here: a broker, a client or somebody's publisher."""
        client = self.core.clients.get(id)
        known = self.core.names.get(id) if client is None else client.name
        if known is None and (publisher := self.router.introduction(id)) is not None:
            return publisher.publisher_name
        return known

    def _admit(self, link: Link, attach: Attach, now: float) -> None:
        core = self.core
        old = core.clients.get(attach.client)
        resume = attach.resume
        if (
            old is not None
            and resume is not None
            and old.incarnation == attach.incarnation
            and old.epoch == resume.epoch
        ):
            self._resume(old, link, attach, now)
            return
        if old is not None:
            if old.link is link:
                self.core.suspend(old, now)  # the link stays: it is the new session's
            self.end(old, now)
        client = Client(core, attach, self._flushed, now)
        core.clients[client.id] = core.numbered[client.number] = client
        self._connect(client, link, False, now)

    def admit_inside(self, name: str, incarnation: int, now: float) -> Client:
        """A publisher that is part of this broker: nobody is at the other end. A link that is down for a
        moment must not be lost because this one has filled its window."""
        attach = Attach(PROTOCOL_OLDEST, PROTOCOL, name, identify(name), incarnation, 1, 0, 0)
        client = Client(self.core, attach, self._flushed, now)
        client.incoming.window = min(client.incoming.window, self.core.settings.links.window // 4 or 1)
        client.incoming.list_all()
        self.core.clients[client.id] = self.core.numbered[client.number] = client
        return client

    def _resume(self, client: Client, link: Link, attach: Attach, now: float) -> None:
        old, resume = client.link, attach.resume
        assert resume is not None
        if old is not None and old is not link:
            self.core.close(old)
            self.core.suspend(client, now)
        if client.lost_timer is not None:
            client.lost_timer.cancel()
        credit = max(resume.settled + attach.window, 0)
        client.take_marks(Marks(resume.epoch, resume.received, resume.settled, credit))
        client.out.resume(resume.received, attach.window)
        client.forget_introductions()
        self.local.generation += 1
        self._connect(client, link, True, now)
        self._introduce_again(client)

    def _introduce_again(self, client: Client) -> None:
        """What is sent once more may come from publishers whose names were lost with the old link."""
        out = client.deliveries
        self.spill.empty()
        waiting = list(out.backlog)
        for publication in (*out.between(out.settled + 1, out.end()), *waiting):
            if (known := self.router.introduction(publication.publisher)) is not None:
                client.introduce(publication.publisher, *known)

    def _connect(self, client: Client, link: Link, resumed: bool, now: float) -> None:
        client.link, link.session = link, client
        client.key = link.peer
        self.admitted(client, now)
        incoming = client.incoming
        attached = Attached(
            self.core.id,
            self.core.name,
            client.epoch,
            resumed,
            incoming.received,
            0 if incoming.cuts else incoming.settled,  # what was cut is told first (faults seed 156)
            incoming.credit,
            tuple(islice(dict.fromkeys((*self._elsewhere(), *self.beyond())), ADDRESSES)),
            self.ordered and self.core.settings.overlay.ordered,
            self.core.journal is not None,
            may_publish="" if client.may_publish == EVERYTHING else to_text(client.may_publish)[:LIMIT_CHARS],
            protocol=link.protocol,
            ordered_by=self.ordered_by,
        )
        self.core.send(attached, link)
        if incoming.cuts or incoming.persisted > incoming.settled:
            client.send_marks(link)
        if missing := self._missing():
            self.core.send(Partial(missing), link)
        self.liveness.watch(client, link, now)
        client.touch()

    # --- an overlay in parts --------------------------------------------------------------------------

    def _missing(self) -> tuple[str, ...]:
        return tuple(sorted(self.missing()))[:LIST_ENTRIES]

    def tell_missing(self, now: float) -> None:
        """Others cannot be reached than before (DECISIONS 25)."""
        missing = self._missing()
        here = [client for client in self.core.clients.values() if client.link is not None]
        if missing and self.core.settings.clients.when_split == "refuse":
            for client in here:
                self.end(client, now)
        else:
            self.core.tell(Partial(missing), *here)

    # --- silence and slowness --------------------------------------------------------------------------

    def _flushed(self, client: Client) -> None:
        """After each drain that touched the client."""
        now, deliveries = self.core.now, client.deliveries
        if deliveries.overrun and client.link is not None:
            self.core.refuse("slow subscriber")
            self.end(client, now)
        elif deliveries.waits and client.stall_timer is None and not client.ended:
            self._watch_stall(client, now)
        if deliveries.backlog.length or deliveries.stalled or deliveries.spill is not None:
            self._look_behind(client, now)
        if client.publishes:
            for call in self.drained.calls:
                call(client)
        if client.ended and not client.lost and not client.incoming.records and not client.subscriptions:
            self.core.lose(client, now)

    def _look_behind(self, client: Client, now: float) -> None:
        """A client that does not keep up, or did not when it was last looked at."""
        deliveries = client.deliveries
        if deliveries.backlog or deliveries.stalled:
            self.fell_behind(client, now)
        if not client.ended and deliveries.ought_to_be_dormant != (deliveries.spill is not None):
            self._turn_over(client, now)

    def _turn_over(self, client: Client, now: float) -> None:
        """Routes lead to the spill or to the client's own queue."""
        if client.deliveries.spill is not None:
            self.spill.release(client)
        else:
            self.spill.take_in(client)
            if self._dormant_timer is None:
                self._dormant_timer = self.core.timers.at(now + DORMANT_S, self._look_at_dormant)
        self.local.generation += 1

    def _look_at_dormant(self, now: float) -> None:
        self._dormant_timer = None
        self.spill.empty()
        for client in self.spill.dormant.values():
            client.touch()
        if self.spill.dormant:
            self._dormant_timer = self.core.timers.at(now + DORMANT_S, self._look_at_dormant)

    def _watch_stall(self, client: Client, now: float) -> None:
        settled = client.deliveries.settled

        def check(later: float) -> None:
            client.stall_timer = None
            deliveries = client.deliveries
            if deliveries.waits and not client.lost:
                if deliveries.settled == settled:
                    deliveries.stall()
                    self.fell_behind(client, later)
                self._watch_stall(client, later)

        client.stall_timer = self.core.timers.at(now + self.core.settings.clients.stall_s, check)

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Client):
            lost_at = now + self.core.settings.links.lost_after_s
            session.lost_timer = self.core.timers.at(lost_at, lambda later: self.end(session, later))

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        limits = self.core.settings.clients
        self.spill.limit_to(limits.queue, limits.queue_bytes)
        for client in self.core.clients.values():
            client.deliveries.limit_to(limits.queue, limits.queue_bytes)

    # --- going ----------------------------------------------------------------------------------------

    def on_detach(self, client: Client, message: Detach, now: float) -> None:
        self.end(client, now)

    def end(self, client: Client, now: float) -> None:
        """Gone as a subscriber now; `lose` follows when what it published is settled."""
        if client.ended:
            return
        client.ended = True
        if len(client.subscriptions) <= PIECE:
            self._unsubscribe(client, now)
        else:
            self.core.defer(lambda later: self._unsubscribe(client, later))
        if client.deliveries.spill is not None:
            self.spill.release(client)
        client.deliveries.give_up()
        client.incoming.list_all()
        if self.core.clients.get(client.id) is client:
            del self.core.clients[client.id]
        if (link := client.link) is not None:
            self.core.close(link)
            self.core.suspend(client, now)
        if client.lost_timer is not None:
            client.lost_timer.cancel()
        client.touch()

    def _unsubscribe(self, client: Client, now: float) -> bool:
        """A piece at a time: others do not wait for the end of one that had thousands. What comes for it
        meanwhile holds nobody, and goes with the last piece."""
        for number in list(islice(client.subscriptions, PIECE)):
            self.registry.unsubscribe(client, client.subscriptions.pop(number), now)
        if client.subscriptions:
            return True
        client.deliveries.give_up()
        client.touch()
        return False

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Client):
            self.core.numbered.pop(session.number, None)
            if self.core.clients.get(session.id) is session:
                del self.core.clients[session.id]

    def drain(self, now: float) -> None:
        """Take nobody any more and send away who is there; the overlay stays as it is."""
        self.draining = True
        self.send_away(now)

    def send_away(self, now: float) -> None:
        """This broker stops: its clients are to attach to its neighbours."""
        self.core.tell(GoAway(self._elsewhere()), *self.core.clients.values())

    def _elsewhere(self) -> tuple[str, ...]:
        """Addresses of the neighbours that take clients, as many as a message holds."""
        addresses = (address for peer in self.takers() for address in peer.addresses)
        return tuple(islice(addresses, ADDRESSES))

    # --- what it looks like ------------------------------------------------------------------------------

    def status(self) -> Status:
        self.spill.empty()
        return {"clients": [self._row(client) for client in self.core.clients.values()]}

    def _row(self, client: Client) -> Status:
        deliveries = client.deliveries
        slow = deliveries.stalled or bool(deliveries.backlog)
        return {
            "name": client.name,
            "state": "suspended" if client.link is None else "slow" if slow else "ready",
            "subscriptions": len(client.subscriptions),
            "advertisements": len(client.advertisements),
            "published": client.incoming.received,
            "delivered": deliveries.sent,
            "in_flight": deliveries.in_flight,
            "backlog": len(deliveries.backlog),
            "dropped": deliveries.dropped,
            "policy": POLICIES[deliveries.on_slow],
            "address": "" if client.link is None else client.link.address,
            "key": client.key,
            "age_s": round(self.core.now - client.since, 1),
            "lag": deliveries.in_flight + len(deliveries.backlog),
            "lag_s": self._lag_s(deliveries),
        }

    def _lag_s(self, deliveries: Deliveries) -> float:
        """How old the oldest delivery is that waits; what is only under way is not counted."""
        oldest = next(iter(deliveries.backlog), None)
        return 0.0 if oldest is None else round(max(self.core.now - oldest.accepted_at, 0.0), 3)

    def validate(self) -> None:
        for number, client in self.core.numbered.items():
            assert client.number == number and not client.lost, client
            assert client.ended or self.core.clients.get(client.id) is client, client
            deliveries = client.deliveries
            assert deliveries.settled <= deliveries.sent < deliveries.next, client
            assert len(deliveries.queue) == len(deliveries.ids), client
            dormant = deliveries.spill is not None
            assert dormant == (number in self.spill.dormant), client
            assert not dormant or (deliveries.backlog and not deliveries.queue and not client.ended), client
