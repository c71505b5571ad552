"""An overlay made of the shared parts only: every broker knows every other, and asks all before it sends.

A publisher is announced to all members; subscriptions stay at home. The first broker asks every member
whether somebody there wants a publication, and sends it to those who say so: a publisher's always on the same
lane, half of the publishers on lane 1. Nothing is passed on. Filters that name `secret` are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from grapevine.filters.normal import Filter
from grapevine.filters.printing import to_text
from grapevine.wire import decode_attributes
from grapevine.wire.messages import CensusRequest, Publication
from matching.interface import Attributes
from overlay.administration.census import Census
from overlay.behaviour import Quiet
from overlay.clients.attachments import Attachments
from overlay.clients.requests import Requests
from overlay.core import Core
from overlay.data.client import Client, Key
from overlay.data.duplicates import Source
from overlay.data.local import LocalSubscriptions
from overlay.data.path import Publications
from overlay.data.router import Introduction
from overlay.data.routes import NOBODY, Hops, Route, Side
from overlay.gather import Gather
from overlay.links.handshake import Handshake
from overlay.links.members import Members
from overlay.links.readiness import Readiness
from overlay.links.session import Kind, Remote, Session
from overlay.links.settling import Settling
from overlay.profiles import Start
from tests.sim.toy_messages import Ask, Heard, Known, Staged, Wanted


def spread_to_all(core: Core) -> Callable[..., list[tuple[Remote, CensusRequest]]]:
    def spread(request: CensusRequest, came_from: Remote | None) -> list[tuple[Remote, CensusRequest]]:
        return [] if came_from is not None else [(peer, request) for peer in core.peers.values()]

    return spread


class Toy(Quiet):
    after = ("Members", "Publications")

    def __init__(self, handshake: Handshake, readiness: Readiness, local: LocalSubscriptions) -> None:
        self.handshake = handshake
        self.readiness = readiness
        self.local = local
        self.on_gone: list[Callable[[Source], None]] = []
        self.told: dict[int, dict[Source, str]] = {}  # publishers by the id of their home
        self.here: dict[Key, Client] = {}
        self.filters: dict[Key, Filter] = {}
        self.stages: dict[Client, deque[Staged]] = {}
        self.asked: dict[int, Staged] = {}
        self.stamps: dict[int, Gather] = {}
        self.numbers = 0

    @property
    def sources(self) -> set[Source]:
        here = {(client.id, client.incarnation) for client in self.here.values()}
        return here.union(*self.told.values())

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Known, self.on_known)  # type: ignore[type-var]
        core.on(Heard, self.on_heard)  # type: ignore[type-var]
        core.on(Ask, self.on_ask)  # type: ignore[type-var]
        core.on(Wanted, self.on_wanted)  # type: ignore[type-var]

    # --- members --------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        for address in self.core.settings.tree.neighbours:
            if int(address.removeprefix("sim://b")) < int(self.core.name.removeprefix("b")):
                self._dial(address, now)
        self._look(now)

    def _dial(self, address: str, now: float) -> None:
        def failed(reason: str, text: str, later: float) -> None:
            pause_s = self.core.settings.links.redial_s
            self.core.timers.at(later + pause_s, lambda again: self._dial(address, again))

        self.handshake.dial((address,), lambda peer, later: None, failed, now)

    def _look(self, now: float) -> None:
        if len(self.core.peers) == len(self.core.settings.tree.neighbours):
            self.readiness.become_ready(self.core, now)

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, Remote):
            self._tell(Gather(lambda gather, later: None), now, session)
            self._look(now)
            for number, staged in self.asked.items():
                if session in staged.waits:
                    self.core.tell(self._question(number, staged), session)

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Remote) and session.dialled:
            again = now + self.core.settings.links.redial_s
            self.core.timers.at(again, lambda later: self._dial(session.addresses[0], later))

    def link_lost(self, session: Session, now: float) -> None:
        for key in [key for key, client in self.here.items() if client is session]:
            self.unadvertise(session, key, now)

    # --- publishers -----------------------------------------------------------------------------------

    def _tell(self, gather: Gather, now: float, *only: Remote) -> None:
        self.numbers += 1
        self.stamps[self.numbers] = gather
        publishers = ((c.id, c.incarnation, c.name) for c in dict.fromkeys(self.here.values()))
        known = Known(self.numbers, tuple(publishers))
        for peer in only or self.core.peers.values():
            if peer.link is not None:
                gather.wait_for(peer)
                self.core.tell(known, peer)
        gather.start(now)

    def on_known(self, peer: Remote, message: Known, now: float) -> None:
        before = self.told.get(peer.id, {})
        self.told[peer.id] = {(id, incarnation): name for id, incarnation, name in message.publishers}
        for source in before:
            if source not in self.sources:
                for call in self.on_gone:
                    call(source)
        self.local.generation += 1
        self.core.tell(Heard(message.stamp), peer)

    def on_heard(self, peer: Remote, message: Heard, now: float) -> None:
        for stamp, gather in [one for one in self.stamps.items() if one[0] <= message.stamp]:  # told again
            gather.answer(peer, None, now)
            if not gather.parts:
                self.stamps.pop(stamp, None)

    def introduction(self, publisher: int) -> Introduction | None:
        homes = {self.core.id: {(c.id, c.incarnation): c.name for c in self.here.values()}, **self.told}
        for home, publishers in homes.items():
            for (id, _), name in publishers.items():
                if id == publisher:
                    return Introduction(name, self.core.names[home])
        return None

    def name_taken(self, publisher: int, incarnation: int) -> str:
        return ""

    def advertise(
        self, client: Session, filter: Filter, gather: Gather, now: float, stand_in: bool = False
    ) -> Key:
        assert isinstance(client, Client)
        self.here[key := (self.core.id, self.core.serial())] = client
        self._tell(gather, now)
        return key

    def unadvertise(self, client: Session, key: Key, now: float) -> None:
        if self.here.pop(key, None) is not None:
            self._tell(Gather(lambda gather, later: None), now)
            if (source := (client.id, client.incarnation)) not in self.sources:
                for call in self.on_gone:
                    call(source)

    def await_advertisement(self, key: Key, gather: Gather) -> None: ...

    # --- subscriptions --------------------------------------------------------------------------------

    def refusal(self, filter: Filter) -> str:
        return "this overlay keeps no secrets" if "secret" in to_text(filter) else ""

    def subscribe(self, client: Session, filter: Filter, number: int, gather: Gather, now: float) -> Key:
        key = (self.core.id, self.core.serial())
        self.filters[key] = filter
        self.local.add(key[1], filter, client.number, number)
        return key

    def unsubscribe(self, client: Session, key: Key, now: float) -> None:
        if (filter := self.filters.pop(key, None)) is not None:
            self.local.remove(key[1], filter)

    def await_subscription(self, key: Key, gather: Gather) -> None: ...
    def filter_of(self, key: Key) -> Filter:
        return self.filters[key]

    # --- publications ---------------------------------------------------------------------------------

    def hops(self, side: Side | None, content: Attributes) -> Hops:
        return NOBODY  # from others it goes to clients only; of clients everything is staged

    def stage(self, client: Client, publications: list[Publication], record: Settling, now: float) -> None:
        staged = Staged(client, publications, record)
        self.stages.setdefault(client, deque()).append(staged)
        self.numbers += 1
        self.asked[self.numbers] = staged
        staged.waits = dict.fromkeys(self.core.peers.values())
        self.core.tell(self._question(self.numbers, staged), *staged.waits)
        self._release(client, now)

    def _question(self, number: int, staged: Staged) -> Ask:
        return Ask(number, tuple(p.attributes for p in staged.publications))

    def on_ask(self, peer: Remote, message: Ask, now: float) -> None:
        index = self.local.index
        wanted = tuple(bool(index.deliveries(decode_attributes(a))) for a in message.attributes)
        self.core.tell(Wanted(message.number, wanted), peer)

    def on_wanted(self, peer: Remote, message: Wanted, now: float) -> None:
        staged = self.asked.get(message.number)
        if staged is not None and staged.waits.pop(peer, peer) is None:
            staged.wanted[peer] = message.wanted
            self._release(staged.client, now)

    def _release(self, client: Client, now: float) -> None:
        """In the order of the publisher, whoever answers first."""
        stages = self.stages[client]
        while stages and not stages[0].waits:
            staged = stages.popleft()
            self.asked = {number: one for number, one in self.asked.items() if one is not staged}
            if staged.publications:
                routes = [self._route(staged, place) for place in range(len(staged.publications))]
                self.publications.hand_out(client, staged.publications, routes, staged.record, now)
            staged.record.release()
        if not stages:
            del self.stages[client]

    def _route(self, staged: Staged, place: int) -> Route:
        publication, number = staged.publications[place], staged.client.id & 1
        lanes = (peer.lane(number) for peer, wanted in staged.wanted.items() if wanted[place])
        content = decode_attributes(publication.attributes)
        return self.publications.route_to(tuple(lane for lane in lanes if lane is not None), content)


def member(core: Core, id: int, name: str) -> Remote:
    return Remote(core, Kind.PEER, id, name)


def toy_broker(start: Start) -> Core:
    core = Core(start.name, start.incarnation, start.settings, start.random)
    handshake, readiness, local = Handshake(start.addresses), Readiness(), LocalSubscriptions(start.matcher)

    members = Members(handshake, member, lambda hello: None, lambda session, hello, now: None)
    toy = Toy(handshake, readiness, local)
    publications = toy.publications = Publications(toy, local, start.settings.overlay.ordered)
    publications.stage = toy.stage
    attachments = Attachments(handshake.liveness, readiness, toy, toy, local)
    census = Census(spread_to_all(core))
    core.assemble((handshake, members, census, publications, toy, attachments, Requests(attachments, toy)))
    return core
