"""The data path of a ring: up to the root of the topic, then down to its members (DYNATOPS 3).

Up: every broker sends a publication to its farthest pointer before the topic's key; the root turns it down.
Down: each copy names whom it is for, a list that publications of one topic share; a broker takes its own,
and splits the others by its next hops. So no broker on the way keeps a table of the topic's tree, and what
was under way to a broker that dies is split anew by those lists and by nothing else (docs/adr on the ring).

Lanes (links/lane.py): up before position 0 and after it, redirected, down before and after. A way only
rises through them, every hop but a redirected one is clockwise, and neither leg goes round: no waiting for
credit in a circle.

Order holds for each publisher and topic, as long as all that is unsettled of them lies on one way: U  the
way of a topic changes only when what was sent by the old one is settled; if the old one cannot be kept,
publications wait here. D  so does the next hop to each member. F  a lost hop's unsettled publications go
another way, oldest first, before anything newer; those that came from a lost side and still wait here are
dropped, because who sent them sends them again. Whom no way leads to is cut, and its root is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from grapevine.wire.chord import RingNode
from grapevine.wire.messages import (
    CUT_LINK_LOST,
    CUT_NOT_ALLOWED,
    Batch,
    Publication,
    Publish,
)
from overlay.behaviour import Status
from overlay.chord.behind import Behind, oldest_first
from overlay.chord.contacts import RingContacts, RingPeer
from overlay.chord.direct import DirectRoots
from overlay.chord.entrance import Entrance
from overlay.chord.introductions import Introductions
from overlay.chord.losing import lose_hop
from overlay.chord.membership import Membership
from overlay.chord.nowhere import release_stranded
from overlay.chord.ring import between
from overlay.chord.roots import Roots
from overlay.chord.router import ChordRouter
from overlay.chord.topics import TOPICS_CACHED, Term, TopicKeys
from overlay.chord.wants import Wants
from overlay.chord.ways import Here, Stranded, Targets, Way, WayKey
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.duplicates import Source
from overlay.data.local import LocalSubscriptions
from overlay.data.path import Publications
from overlay.data.routes import Route
from overlay.links.exclusions import of_batch, stretches
from overlay.links.lane import Lane
from overlay.links.session import Session
from overlay.links.settling import Settling, cuts_of

UP, UP_BEHIND, DOWN, DOWN_BEHIND, REDIRECT = range(5)  # lanes; behind: past position 0
PLANE_LANES = 8
LOOK_S = 0.02


class ChordPath(Publications):
    def __init__(
        self,
        router: ChordRouter,
        local: LocalSubscriptions,
        contacts: RingContacts,
        membership: Membership,
        roots: Roots,
        wants: Wants,
    ) -> None:
        super().__init__(router, local, True)
        self.chord = router
        self.contacts, self.membership, self.roots, self.wants = contacts, membership, roots, wants
        self.terms: tuple[Term, ...] = router.terms
        self.topic = TopicKeys(router.terms)
        # By topic, whether we are expected to be its root, and who sent them back to us.
        self.ways: dict[WayKey, Way] = {}
        self.direct = DirectRoots(membership)
        # By target: the lanes of its hop, and the position of the last publication on each.
        self.next: dict[int, dict[Lane, int]] = {}
        self.stranded: list[Stranded] = []
        self.last_seen: dict[tuple[int, int, int], int] = {}  # (publisher, incarnation, topic) -> sequence
        self.introductions = Introductions(router, membership)
        self._looking = False  # at what waits, soon
        self._drains: list[tuple[Callable[[int], bool], Callable[[float], None]]] = []
        self._used: dict[Lane, None] = {}
        self._here = Here()
        self.first_lane = 0  # of our plane
        self.entrance = Entrance(self)
        self.behind = Behind(self.topic)
        self.emitted: dict[int, int] = {}  # topic -> publications sent from here, as its root
        roots.drain = self.when_settled
        roots.on_rooted.append(self._look)
        membership.on_pointers.append(self._look)

    def attach(self, core: Core) -> None:
        self.core = core
        self.behind.attach(core)
        core.forward.fill(self, self.forward)
        core.accept.fill(self, self.accept)
        self.introductions.attach(core)
        self.direct.attach(core)

    def look_soon(self, now: float) -> None:
        """Something waits: it is looked at until it goes, because that something has settled is not told."""
        if not self._looking:
            self._looking = True
            self.core.timers.at(now + LOOK_S, self._look_again)

    def _look_again(self, now: float) -> None:
        self._looking = False
        self._end_drains(now)
        self._look(now)
        if self.waits:
            self.look_soon(now)

    @property
    def waits(self) -> bool:
        """Whether something waits here for its way."""
        return bool(
            self.stranded
            or self.entrance.waiting
            or self._drains
            or any(way.held for way in self.ways.values())
        )

    # --- in ---------------------------------------------------------------------------------------------

    def accept(self, client: Session, batch: Publish, repeated: int, now: float) -> None:
        assert isinstance(client, Client)
        self.entrance.accept(client, batch, repeated, now)

    def permitted(
        self, client: Client, publications: list[Publication], record: Settling
    ) -> list[Publication]:
        routes = self._routes(client, publications)
        if all(route.allowed for route in routes.values()):
            return publications
        return self._allowed(publications, routes, record)

    def forward(self, peer: Lane, batch: Batch, repeated: int, now: float) -> None:
        publications = batch.publications[repeated:] if repeated else batch.publications
        record = Settling(peer.incoming)
        peer.received_total += len(publications)
        for publication in publications:
            publication.hops += 1
        came = peer.lane_number % PLANE_LANES
        if came in (DOWN, DOWN_BEHIND):
            for targets, part in stretches(publications, of_batch(batch, repeated)):
                if self.behind:
                    self.behind.come_by(part)
                self.down(self.too_far(part, record), targets, came, record, now)
        else:
            near = self.too_far(publications, record)
            self.up(self.with_topic(near, record), came, peer.session.id, record, now)
        self.end(peer, record)

    def too_far(self, publications: list[Publication], record: Settling) -> list[Publication]:
        if max((publication.hops for publication in publications), default=0) <= 255:
            return publications
        return super().too_far(publications, record)

    def enter(self, publications: list[Publication], record: Settling, now: float) -> None:
        """On a way of this plane from here, whatever way they came."""
        if not record.dropped:
            self.up(self.with_topic(publications, record), -1, None, record, now)
            self.hold_used(record)

    def send_again(
        self, side: Client, run: list[Publication], source: Source, record: Settling, now: float
    ) -> None:
        self.up(oldest_first(self.with_topic(run, record)), -1, None, record, now)
        self.hold_used(record)

    def end(self, side: Lane, record: Settling) -> None:
        """The batch settles when all that it was appended to has settled, and nothing of it waits here."""
        self.hold_used(record)
        side.incoming.settle_after(record)
        self.core.dirty[side] = None

    def hold_used(self, record: Settling) -> None:
        for lane in self._used:
            lane.out.hold(record)
        self.core.dirty |= self._used
        self._used = {}

    def with_topic(self, publications: list[Publication], record: Settling) -> list[tuple[Publication, int]]:
        found = [(publication, self.topic(publication.attributes)) for publication in publications]
        without = [publication for publication, topic in found if topic is None]
        if without:
            self.core.refuse("no topic")
            record.cuts += cuts_of(without, CUT_NOT_ALLOWED)
        return [(publication, topic) for publication, topic in found if topic is not None]

    # --- up ---------------------------------------------------------------------------------------------

    def up(
        self,
        publications: Iterable[tuple[Publication, int]],
        came: int,
        sender: int | None,
        record: Settling,
        now: float,
    ) -> None:
        """`came`: by which lane; -1: from a client here. `sender` is the broker before."""
        for topic, pairs in groupby(publications, lambda pair: pair[1]):
            expected, way = self.way(topic, came, sender)
            run = [publication for publication, _ in pairs]
            if self.behind:
                self.behind.come_by(run)
            self._send(topic, expected, way, run, came, record, now)

    def way(self, topic: int, came: int, sender: int | None) -> tuple[bool, Way]:
        """Whether we are expected to be the root, and the way of what comes so."""
        expected = came == REDIRECT or (sender is not None and self.is_behind(sender, topic))
        # What a broker sends back must not wait for what we have sent there.
        back = sender if came == REDIRECT and sender is not None else 0
        return expected, self.ways.setdefault((topic, expected, back), Way())

    def is_behind(self, sender: int, topic: int) -> bool:
        """Whether the topic lies between the sender and us: it takes us for the root."""
        here = self.membership.me.position
        return topic == here or between(self.membership.place_of(sender), topic, here)

    def _send(
        self,
        topic: int,
        expected: bool,
        way: Way,
        run: list[Publication],
        came: int,
        record: Settling,
        now: float,
    ) -> None:
        if way.held or not self._choose(topic, expected, way):
            for publication in run:
                record.pending += 1
                way.held.append((publication, record, came))
            self.look_soon(now)
            return
        self._go(topic, way, run, came, record, now)

    def _go(
        self, topic: int, way: Way, run: list[Publication], came: int, record: Settling, now: float
    ) -> None:
        if self.behind:
            run = self.behind.goes_on(run, topic, record, now, way.lane is not None)
        if way.lane is None:
            self._emit(topic, way, run, record, now)
            return
        session = way.lane.session
        number = way.lane.lane_number % PLANE_LANES
        if number != REDIRECT:
            number = UP_BEHIND if came == UP_BEHIND or self._crosses(session.id) else UP
        lane = session.lane(self.first_lane + number)
        assert lane is not None
        self._append(lane, run, ())
        way.last[lane] = lane.out.end()

    def _choose(self, topic: int, expected: bool, way: Way) -> bool:
        """Set the topic's way if it may change, and say whether it can be used now (rule U)."""
        wanted = self.wanted(topic, expected)
        if wanted is not None and (way.lane is wanted[0] or way.settled):
            way.lane = wanted[0]
            return True
        if way.lane is None or way.lane.lane_number % PLANE_LANES == REDIRECT:
            return False  # they would only come back
        return self._alive(way.lane) and not way.settled

    def wanted(self, topic: int, expected: bool) -> tuple[Lane | None] | None:
        """The lane to the next hop, (None,) for here; None: nobody knows now."""
        if self.roots.is_root(topic):
            return (None,)
        membership = self.membership
        if expected or membership.is_here(topic) or self.roots.held(topic):
            before = membership.predecessor
            if self.roots.left_to is not None:
                return self._lane(self.roots.left_to, REDIRECT)
            if before is not None and not membership.is_here(topic) and expected:
                return self._lane(before, REDIRECT)
            return None
        hop = membership.hop_to_key(topic)
        return None if hop is None else self._lane(self.direct.root(topic) or hop, UP)

    def _lane(self, node: RingNode, number: int) -> tuple[Lane | None] | None:
        session = self.contacts.session(node)
        return None if session is None else (session.lane(self.first_lane + number),)

    @staticmethod
    def _alive(lane: Lane) -> bool:
        return not lane.session.lost

    def _crosses(self, broker: int) -> bool:
        """Whether the hop to this broker passes position 0."""
        return self.membership.place_of(broker) < self.membership.me.position

    # --- down -------------------------------------------------------------------------------------------

    def _emit(self, topic: int, way: Way, run: list[Publication], record: Settling, now: float) -> None:
        members = self.roots.members(topic)
        if len(self.emitted) >= TOPICS_CACHED and topic not in self.emitted:
            self.emitted.clear()  # the manager takes what is fewer than before for a restart
        self.emitted[topic] = self.emitted.get(topic, 0) + len(run)
        if members and (away := self.roots.away.of(topic, now)):
            record.cuts += cuts_of(run, CUT_LINK_LOST)
            for publication in run:
                self.behind.heard(publication, away, CUT_LINK_LOST)
            members = {position: one for position, one in members.items() if position not in away}
        if members and run:
            used = self.down(run, tuple(sorted(members)), DOWN, record, now)
            for lane in used:
                way.last[lane] = lane.out.end()

    def down(
        self, run: list[Publication], targets: Targets, came: int, record: Settling, now: float
    ) -> list[Lane]:
        """Deliver here if we are meant, and pass the rest on."""
        if not self.behind:
            return self._down_all(run, targets, came, record, now)
        used: dict[Lane, None] = {}
        for publication, some in self.behind.split(run, targets, record, now):
            used |= dict.fromkeys(self._down_all([publication], some, came, record, now))
        return list(used)

    def _down_all(
        self, run: list[Publication], targets: Targets, came: int, record: Settling, now: float
    ) -> list[Lane]:
        here = self.membership.me.position
        used: list[Lane] = []
        if not run:
            return used
        behind: dict[Lane, list[int]] = {}
        nowhere: list[int] = []
        for target in targets:
            if target == here:
                self._deliver(run, now)
            elif (lane := self._next(target, came)) is not None:
                behind.setdefault(lane, []).append(target)
            else:
                nowhere.append(target)
        for lane, theirs in behind.items():
            self._append(lane, run, tuple(theirs))
            end = lane.out.end()
            for target in theirs:
                self.next.setdefault(target, {})[lane] = end
            used.append(lane)
        if nowhere:
            record.pending += 1
            self.stranded.append(Stranded(run, tuple(nowhere), came, record, now))
            self.look_soon(now)
        return used

    def down_again(
        self, run: list[Publication], targets: Targets, came: int, record: Settling, now: float
    ) -> None:
        """What was on its way down; `came` may be by the way up, if it turned here."""
        self.down(run, targets, came if came in (DOWN, DOWN_BEHIND) else DOWN, record, now)

    def _next(self, target: int, came: int) -> Lane | None:
        """The lane towards a member (rule D)."""
        if (known := self.next.get(target)) is not None:
            for lane, last in known.items():
                if lane.out.settled < last and self._alive(lane):
                    return self._numbered(lane.session, came)
            del self.next[target]
        if any(one.targets and target in one.targets for one in self.stranded):
            return None  # what waits for it goes first
        hop = self.membership.hop_to(target)
        session = None if hop is None else self.contacts.session(hop)
        return None if session is None else self._numbered(session, came)

    def _numbered(self, session: Session, came: int) -> Lane | None:
        number = DOWN_BEHIND if came == DOWN_BEHIND or self._crosses(session.id) else DOWN
        return session.lane(self.first_lane + number)

    def _append(self, lane: Lane, run: list[Publication], targets: Targets) -> None:
        self.introductions.introduce(lane.session, run)
        lane.out.exclude(run, targets)
        lane.out.on_cut = self.behind.heard
        self._used[lane] = None

    def _deliver(self, run: list[Publication], now: float) -> None:
        """To the subscribers here; which of them is decided by their whole filters."""
        for publication in run:
            topic = self.topic(publication.attributes)
            if topic is None:
                continue
            source = (publication.publisher, publication.incarnation, topic)
            route = self.find_local(publication.attributes)
            if publication.sequence <= self.last_seen.get(source, 0):
                self.duplicates += len(route.fan.clients)
                # The first copy may still be on its way to the clients: this one settles with it.
                self._used |= dict.fromkeys(route.fan.sessions)
                continue
            self.last_seen[source] = publication.sequence
            if route.fan.clients:
                self._name(route.fan, publication.publisher)
                route.fan.take_one(publication, route.ids)
                self._used |= dict.fromkeys(route.fan.sessions)
            elif topic not in self.wants.subscribed:
                self.wants.unwanted(topic, now)

    def find_local(self, attributes: bytes) -> Route:
        return self.route(self._here, attributes)

    # --- waiting ----------------------------------------------------------------------------------------

    def when_settled(self, concerns: Callable[[int], bool], call: Callable[[float], None]) -> None:
        """Call when nothing of these topics that goes down from here is unsettled."""
        self._drains.append((concerns, call))
        self.look_soon(self.core.now)

    def _look(self, now: float) -> None:
        self.entrance.release(now)
        self.release_held(now)
        release_stranded(self, now)

    def _end_drains(self, now: float) -> None:
        """Not while a hop is being lost: what was on its way by that one is nowhere for a moment."""
        for concerns, call in list(self._drains):
            if not any(map(concerns, self._going_down())):
                self._drains.remove((concerns, call))
                call(now)

    def _going_down(self) -> set[int]:
        """Topics of what is on its way down, also by another hop than the one that it first went by."""
        lanes = filter(
            self.goes_down, (lane for peer in self.core.peers.values() for lane in self.lanes(peer))
        )
        under_way = [lane.out.between(lane.out.settled + 1, lane.out.end()) for lane in lanes]
        waiting = [one.publications for one in self.stranded]
        found = {self.topic(each.attributes) for run in (*under_way, *waiting) for each in run}
        return {topic for topic in found if topic is not None}

    def release_held(self, now: float) -> None:
        for key, way in list(self.ways.items()):
            topic, expected, _ = key
            if not way.held:
                if way.settled and len(self.ways) > TOPICS_CACHED:
                    del self.ways[key]
                continue
            if self._choose(topic, expected, way):
                held, way.held = way.held, []
                for publication, record, came in held:
                    if not record.dropped:
                        self._go(topic, way, [publication], came, record, now)
                        self.hold_used(record)
                    record.release()

    # --- breaks -----------------------------------------------------------------------------------------

    def link_up(self, session: Session, now: float) -> None:
        """Names that were on their way may be lost: whoever comes again is introduced again."""
        if isinstance(session, RingPeer):
            self.introductions.forget(session)
            for lane in self.lanes(session):
                self.introductions.introduce(session, lane.out.between(lane.out.settled + 1, lane.out.end()))

    @staticmethod
    def number(lane: Lane) -> int:
        """Within its plane."""
        return lane.lane_number % PLANE_LANES

    def goes_down(self, lane: Lane) -> bool:
        return self.number(lane) in (DOWN, DOWN_BEHIND)

    def lanes(self, session: Session) -> list[Lane]:
        """Those of our plane."""
        first = self.first_lane
        return [lane for lane in session.every_lane() if first <= lane.lane_number < first + PLANE_LANES]

    def link_losing(self, session: Session, now: float) -> None:
        if isinstance(session, RingPeer):
            lose_hop(self, session, now)

    def link_lost(self, session: Session, now: float) -> None:
        self.introductions.forget(session)
        for way in self.ways.values():
            if way.lane is not None and way.lane.session is session:
                way.lane = None
                way.last = {lane: last for lane, last in way.last.items() if lane.session is not session}
        for target, known in list(self.next.items()):
            if any(lane.session is session for lane in known):
                del self.next[target]

    # --- what it looks like -------------------------------------------------------------------------------

    def status(self) -> Status:
        waiting = sum(len(way.held) for way in self.ways.values())
        return super().status() | {
            "publishers_seen": len(self.last_seen),
            "waiting": waiting + sum(len(one.publications) for one in self.stranded),
        }
