"""Who is in the cluster: a link to every member, the table of what each says of itself, gossip (III-C).

* Every member has a link to every other. Whoever learns of a member dials it; the higher id first. The first
  on a link is Member, each side's own entry, then the table; other behaviours hear of a member when it has
  said that.
* An entry has one writer. What changes is told to every member at once, and gossip by digests makes up for
  what was lost with a link.
* A dispatcher is ready when it has met every member that anybody it met knows, and every dispatcher has
  acknowledged that it serves: from then on these believe no answer that lacks its subscriptions. Of two that
  come at the same time the second to meet a common member hears of the first there.
* One that starts again waits for the dispatchers that it knew, too, whoever calls them dead: until these have
  given its earlier life up, what they confirm counts here (DECISIONS 11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

import msgspec
from msgspec.structs import replace

from grapevine.wire.messages import Hello
from grapevine.wire.onehop import DEAD, DISPATCHER, JOINING, LEFT, SERVING, Digest, Entries, Entry
from grapevine.wire.onehop import Member as MemberMessage
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.handshake import Handshake
from overlay.links.members import Members
from overlay.links.readiness import Readiness
from overlay.links.session import Remote, Session
from overlay.onehop.gossip import Fanout, digest, entries_for, owners_wanted, partners
from overlay.onehop.member import Loopback, Member
from overlay.onehop.segments import SegmentTable, is_gone

DEAD_DIALS = 8  # one in so many
KEPT = 64  # addresses of members that outlive a restart
SILENT = 4  # times ping_s: by then a link whose other end has gone is down
Heard = Callable[[Member, float], None]


class Cluster(Quiet):
    name = "cluster"
    keeps = "members"

    def __init__(
        self,
        handshake: Handshake,
        readiness: Readiness,
        dimensions: Sequence[str],
        roles: int,
    ) -> None:
        self.handshake, self.readiness, self.roles = handshake, readiness, roles
        self.members = Members(handshake, Member, self._refuses, self._met)
        self.table = SegmentTable(dimensions)
        self.met: list[Heard] = []  # called when a member has said who it is, on each link anew
        self.changed: list[Heard] = []  # and when it says something else of itself
        self.giving_up: list[Callable[[Member], None]] = []  # before what was for its earlier life is cut
        self.table_changed: list[Callable[[float], None]] = []
        self.ask: Callable[[Member], None] = lambda member: None
        self.suspect: Callable[[int, float], None] = lambda member, now: None  # set by Verdicts
        # Of a pure matcher: whoever attaches is sent to the others.
        self.serve_nobody: Callable[[float], None] | None = None
        self._dialling: set[int | str] = set()
        self._kept: tuple[str, ...] = ()  # where members were in an earlier life
        self._seeds: list[str] = []  # not met yet
        self._alone = True  # nobody was met yet
        self._since: dict[int, float] = {}  # members that cannot be reached, and since when
        self._serving: set[int] = set()  # dispatchers that have acknowledged that we serve
        self._asked: set[int] = set()  # to acknowledge it
        self.acknowledged: dict[int, int] = {}  # by member, the last stamp of an entry of ours
        self._reported_serving = False
        self._tick = 0
        self._written: tuple[str, ...] = ()
        self._left: tuple[Entry, ...] = ()  # dispatchers, as written
        self.known_before: tuple[int, ...] = ()  # dispatchers, to an earlier life; set by Adopting
        self._given_up_at = 0.0  # when they have given that up, at the latest
        self._stamps = count(1)

    def attach(self, core: Core) -> None:
        self.core = core
        self.settings = core.settings.onehop
        self._fanout: Fanout = 1 if self.settings.gossip_fanout == "one" else "log"
        nothing: tuple[()] = ()
        segments = tuple(nothing for _ in self.table.dimensions)
        here = core.id, core.incarnation, 1, segments, core.name, self.handshake.addresses
        self.table.merge(Entry(*here, self.roles, JOINING))
        self.itself = Loopback(core)
        self.itself.roles = self.roles
        core.on(MemberMessage, self.on_member)
        core.on(Digest, self.on_digest)
        core.on(Entries, self.on_entries)

    def restore(self, rows: Mapping[str, bytes]) -> None:
        if (kept := rows.get("addresses")) is not None:
            self._kept = msgspec.json.decode(kept, type=tuple[str, ...])
        if (left := rows.get("left")) is not None:
            self._left = msgspec.json.decode(left, type=tuple[Entry, ...])
            for entry in self._left:
                self.table.merge(entry)

    @property
    def own(self) -> Entry:
        return self.table.entries[self.core.id]

    def start(self, now: float) -> None:
        self.itself.entry = self.own
        self.itself.ask = self.ask
        links = self.core.settings.links
        self._given_up_at = now + links.lost_after_s + SILENT * links.ping_s
        self._seeds = self.seeds()
        for heard in self.met:
            heard(self.itself, now)
        self._redial(now)
        self._gossip(now)
        self._check_ready(now)
        if self.serve_nobody is not None:
            self.serve_nobody(now)
            self.readiness.become_ready(self.core, now)

    def seeds(self) -> list[str]:
        """Where others may be found: configured, or known from an earlier life. None: this is the first."""
        known = dict.fromkeys((*self.settings.seeds, *self._kept))
        return [seed for seed in known if seed not in self.handshake.addresses]

    def _write(self) -> None:
        """Whoever restarts finds the others, whoever it was configured with."""
        entries = [e for e in self.table.entries.values() if e.owner != self.core.id and not is_gone(e)]
        addresses = tuple(address for entry in entries for address in entry.addresses)[:KEPT]
        if addresses and addresses != self._written:
            self._written = addresses
            self.core.keep(self.keeps, "addresses", addresses)

    def _write_left(self) -> None:
        """Whoever has left for good cannot say it once more: durable publications wait for it at who did not
        hear it, and of those that did all may restart meanwhile."""
        nothing: tuple[()] = ()
        entries = [e for e in self.table.entries.values() if e.state == LEFT and e.roles & DISPATCHER]
        left = tuple(replace(e, segments=tuple(nothing for _ in e.segments)) for e in entries[-KEPT:])
        if left != self._left:
            self._left = left
            self.core.keep(self.keeps, "left", left)

    # --- who is there ---------------------------------------------------------------------------------

    def get(self, member: int) -> Member | None:
        if member == self.core.id:
            return self.itself
        found = self.core.peers.get(member)
        return found if isinstance(found, Member) else None

    def others(self) -> Iterator[Member]:
        """Everybody else that is not given up."""
        return (peer for peer in self.core.peers.values() if isinstance(peer, Member))

    def everybody(self) -> Iterator[Member]:
        yield self.itself
        yield from self.others()

    def dispatchers(self) -> list[Member]:
        """The other dispatchers that are not given up."""
        return [member for member in self.others() if member.is_dispatcher]

    def living_dispatchers(self) -> list[Entry]:
        """The other dispatchers that nobody holds dead, whether we can reach them or not."""
        return [
            entry
            for entry in self.table.entries.values()
            if entry.roles & DISPATCHER and not is_gone(entry) and entry.owner != self.core.id
        ]

    # --- links -----------------------------------------------------------------------------------------

    def _refuses(self, hello: Hello) -> None:
        return None

    def _met(self, session: Remote, hello: Hello, now: float) -> None:
        assert isinstance(session, Member)
        if session.known_as not in (0, hello.incarnation):
            # What was for clients of its earlier life has nobody to go to.
            for call in self.giving_up:
                call(session)
            for lane in session.every_lane():
                lane.out.give_up()
                lane.out.new_epoch(session.window_of(lane))
        session.known_as = hello.incarnation
        session.entry, session.tabled = None, False
        session.trusted = not self.roles & DISPATCHER  # only dispatchers tell each other about registrations
        session.ask = self.ask

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            self._since.pop(session.id, None)
            session.tell(MemberMessage(0, self.own))
            session.tell(Entries(tuple(self.table.entries.values())))

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            session.entry, session.tabled, session.trusted = None, False, False
            self._since.setdefault(session.id, now)
            self._serving.discard(session.id)
            self._asked.discard(session.id)

    def link_lost(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            self._check_ready(now)

    def unreachable_s(self, member: int, now: float) -> float:
        return now - self._since.get(member, now)

    def _redial(self, now: float) -> None:
        """Dial whoever has no link: the higher id at once, the other one a while later; the dead now and
        then, since a verdict may be wrong."""
        self._tick += 1
        for entry in list(self.table.entries.values()):
            linked = self.core.peers.get(entry.owner)
            if entry.owner == self.core.id or entry.state == LEFT or entry.owner in self._dialling:
                continue
            if entry.state == DEAD and self._tick % DEAD_DIALS:
                continue
            if linked is None or linked.link is None:
                since = self._since.setdefault(entry.owner, now)
                if self.core.id > entry.owner or now - since >= 2 * self.core.settings.links.redial_s:
                    self._dial(entry.owner, entry.addresses, now)
        left = {address for e in self.table.entries.values() if e.state == LEFT for address in e.addresses}
        for seed in self._seeds:
            wanted = self._alone or (seed in self.settings.seeds and not self._tick % DEAD_DIALS)
            if wanted and seed not in left and seed not in self._dialling:
                self._dial(seed, (seed,), now)
        self._check_ready(now)
        self.core.timers.at(now + self.core.settings.links.redial_s, self._redial)

    def _dial(self, key: int | str, addresses: tuple[str, ...], now: float) -> None:
        self._dialling.add(key)

        def ended(*_: object) -> None:
            self._dialling.discard(key)

        self.handshake.dial(addresses, ended, ended, now)

    # --- what members say ----------------------------------------------------------------------------------

    def on_member(self, session: Member, message: MemberMessage, now: float) -> None:
        entry = message.entry
        if entry.owner != session.id or len(entry.segments) != len(self.table.dimensions):
            self.core.refuse("entry")
            return
        first = session.entry is None
        self._alone = False  # not before: a link that breaks sooner leaves only the seeds to dial
        self._seeds = [seed for seed in self._seeds if seed not in session.addresses]
        session.entry, session.roles = entry, entry.roles
        if entry.roles & DISPATCHER and entry.state != JOINING:
            session.served = entry.state != LEFT
        self._learn([entry], now)
        for heard in self.met if first else self.changed:
            heard(session, now)
        if message.answer:
            self._serving.add(session.id)
            self.acknowledged[session.id] = message.stamp
        elif message.stamp:
            session.tell(MemberMessage(message.stamp, self.own, True))
        for lane in session.every_lane():
            lane.touch()  # it flows from now on
        self._check_ready(now)

    def stamp(self) -> int:
        """Whoever acknowledges this one or a later one knows our entry as it is now."""
        return next(self._stamps)

    def ask_to_acknowledge(self, member: Member) -> None:
        member.tell(MemberMessage(self.stamp(), self.own))

    def change(self, entry: Entry, now: float) -> None:
        """This member says something else of itself."""
        entry = replace(entry, version=max(entry.version, self.own.version) + 1)
        self.table.merge(entry)
        self.itself.entry = entry
        for member in self.others():
            member.tell(MemberMessage(0, entry))
        self._table_changed(now)

    def _learn(self, entries: Sequence[Entry], now: float) -> None:
        news = False
        for entry in entries:
            if entry.owner == self.core.id:
                self._refute(entry, now)
            elif self.table.merge(entry):
                self.core.names.setdefault(entry.owner, entry.name)
                news = True
                if not is_gone(entry):
                    self._write()
                elif entry.state == LEFT:
                    text = f"{entry.name} has left the cluster"
                    self.core.event(now, "member.left", text, peer=entry.name)
                self._write_left()
        if news:
            self._table_changed(now)

    def _refute(self, entry: Entry, now: float) -> None:
        """Others believe something of us that is newer than our own word: dead, or an earlier life."""
        dead = entry.incarnation == self.core.incarnation and entry.state == DEAD
        if dead and entry.version >= self.own.version:
            self.change(replace(self.own, version=entry.version), now)

    def declare_dead(self, member: int, now: float) -> None:
        entry = self.table.entries.get(member)
        if entry is not None and not is_gone(entry):
            dead = replace(entry, state=DEAD)
            self._learn([dead], now)
            for other in self.others():
                other.tell(Entries((dead,)))
            self._check_ready(now)

    def _table_changed(self, now: float) -> None:
        for call in self.table_changed:
            call(now)

    # --- gossip --------------------------------------------------------------------------------------------

    def _gossip(self, now: float) -> None:
        reachable = [member for member in self.others() if member.reachable]
        for place in partners(range(len(reachable)), self._fanout, self.core.random):
            reachable[place].tell(Digest(digest(self.table.entries)))
        self.core.timers.at(now + self.settings.gossip_s, self._gossip)

    def on_digest(self, session: Member, message: Digest, now: float) -> None:
        if lacking := entries_for(self.table.entries, message.versions):
            session.tell(Entries(lacking))
        if message.asks and owners_wanted(self.table.entries, message.versions):
            session.tell(Digest(digest(self.table.entries), False))

    def on_entries(self, session: Member, message: Entries, now: float) -> None:
        session.tabled = True
        self._learn(message.entries, now)
        self._check_ready(now)

    # --- ready ----------------------------------------------------------------------------------------------

    def _check_ready(self, now: float) -> None:
        if self.core.ready or not self.roles & DISPATCHER or (self._alone and self.seeds()):
            return
        for entry in self.table.entries.values():
            if entry.owner != self.core.id and not is_gone(entry):
                found = self.get(entry.owner)
                if found is None or not found.reachable or not found.tabled:
                    return
        if now < self._given_up_at and not all(map(self._is_known_again, self.known_before)):
            return
        if not self._reported_serving:
            self._reported_serving = True
            self.change(replace(self.own, state=SERVING), now)
        waiting = [entry.owner for entry in self.living_dispatchers() if entry.owner not in self._serving]
        for member in map(self.get, waiting):
            if member is not None and member.reachable and member.id not in self._asked:
                self._asked.add(member.id)
                self.ask_to_acknowledge(member)
        if not waiting:
            self.readiness.become_ready(self.core, now)

    def _is_known_again(self, dispatcher: int) -> bool:
        """Met, or it has left."""
        entry, member = self.table.entries.get(dispatcher), self.get(dispatcher)
        if entry is not None and entry.state == LEFT:
            return True
        return member is not None and member.reachable and member.tabled

    def status(self) -> Status:
        return {
            "roles": self.own.roles,
            "state": self.own.state,
            "members": [
                {"name": entry.name, "roles": entry.roles, "state": entry.state, "version": entry.version}
                for entry in self.table.entries.values()
            ],
        }

    def validate(self) -> None:
        assert self.own.incarnation == self.core.incarnation
