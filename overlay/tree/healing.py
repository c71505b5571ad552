"""SPEC T6: a broker that is gone is gone round, and nothing that was for those behind it is lost.

A broker whose parent's link has been broken for `healing.after_s` looks for another: the nearest ancestor
that answers, by the edges, then those below one of them. Only a broker without a parent dials, and only with
the root's permission (granting.py). It is taken by a broker that has no link to the one between them
either: nobody goes round a broker that is there for the other side.

A neighbour in whose place others come is *gone round*. Who comes tells also what that one had told it: what
is wanted there, and behind it, was told to those who publish it and perhaps not to us. Its stream is held,
and what it told stands until who lies on the way to the home by now (the edges say who) tells it; of that one
the word counts at once, but its publications wait in the held stream behind the older ones. When it has said
SyncDone all that is held goes to it, oldest first, unless it is for others still missing: that remains held.
(Of equal subscriptions behind it only one was told here. So while some who were below it are away, all that
it ever told is held for them, also after another has come back and tells it.) At the child everything is
behind the new parent then, and the old one is given up; so it is at a parent that comes back and finds its
child elsewhere. Otherwise it is given up after `healing.heal_s`, or comes back before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grapevine.filters import Filter
from grapevine.wire import decode_attributes
from grapevine.wire.edges import Edge
from grapevine.wire.messages import Hello, Refuse
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.reroute import Unsettled, renew
from overlay.links.session import Session
from overlay.tree.edges import KnownEdges
from overlay.tree.granting import Granting
from overlay.tree.join import ASK_AGAIN_S, ASKING, Join
from overlay.tree.peer import Peer, peers_of
from overlay.tree.router import TreeRouter

AGAIN_S = 0.25  # between two rounds of dialling
NOT_READY = ("not-ready", "not-granted")  # it may be soon


class Healing(Quiet):
    name = "healing"

    def __init__(self, join: Join, edges: KnownEdges, granting: Granting, router: TreeRouter) -> None:
        self.join = join
        self.edges = edges
        self.granting = granting
        self.router = router
        self.busy: Callable[[], bool] = lambda: False  # somebody moves or leaves
        self.gone: dict[int, Peer] = {}  # gone round
        self.healed = 0
        # Neighbours that have not said SyncDone -> in whose place they are. If one goes as well before
        # it has said it, who comes then is in the place of both: what is held longest first.
        self._places: dict[Peer, list[Peer]] = {}
        self._final: dict[Peer, Peer] = {}  # gone -> when this one has said SyncDone, nothing is left there
        self._not_back: dict[Peer, set[int]] = {}  # gone -> who was below it and is not back yet
        self._told: dict[Peer, list[Filter]] = {}  # gone -> what it had told
        self._seeking: Peer | None = None  # the parent in whose place another is sought
        self._dialled: Edge | None = None
        self._since = 0.0
        granting.yields = self._yields
        join.joined = self._joined
        members = join.neighbours.members
        members.permits = self._permits
        members.objects = self._objects
        join.neighbours.came = self._came
        edges.changed.append(self._edge_changed)
        join.sync.tables_in.append(self._tables_in)
        join.sync.forget_stale.append(self._synced)
        router.subscriptions.word_of = self._word_of

    def attach(self, core: Core) -> None:
        self.core = core

    # --- a parent is away -------------------------------------------------------------------------------

    def link_down(self, session: Session, now: float) -> None:
        after_s = self.core.settings.healing.after_s
        if after_s and session is self.join.parent and not self.join.parent.paused:
            parent, self._since = self.join.parent, now
            self.core.timers.at(now + after_s, lambda later: self._seek(parent, later))

    def _seek(self, parent: Peer, now: float) -> None:
        """A round of dialling, if it is still away."""
        if self._away(parent) and self._seeking is None and self._dialled is None:
            if now - self._since < self.core.settings.healing.after_s:
                return  # it was back in between: another timer runs
            self._seeking = parent
            text = f"{self.core.name} has lost its parent {parent.name} and looks for another"
            self.core.event(now, "parent.lost", text, "warn", parent=parent.name)
            self._next(parent, self._targets(parent), now)

    def _away(self, parent: Peer) -> bool:
        return (
            self.join.parent is parent
            and parent.link is None
            and not (parent.paused or parent.lost or self.join.stopped or self.core.leaving)
        )

    def _targets(self, parent: Peer) -> Iterator[Edge]:
        """The nearest ancestor first; then who is below one of them beside our own way, also the nearest
        first."""
        above = list(self.edges.ancestors(self.core.id))
        own = {self.core.id, *(edge.broker for edge in above)}
        for edge in above:
            if edge.broker != parent.id and not edge.gone:
                yield edge
        for edge in above:
            for broker in sorted(self.edges.children.get(edge.broker, set()) - own):
                beside = self.edges.by_broker[broker]
                if not beside.gone:
                    yield beside

    def _next(self, parent: Peer, targets: Iterator[Edge], now: float) -> None:
        if self._seeking is not parent:
            return
        if not self._away(parent):
            self._seeking = None
            return
        target = next(targets, None)
        if target is None or self.busy() or self.granting.locked(now):
            again = self._targets(parent)
            self.core.timers.at(now + AGAIN_S, lambda later: self._next(parent, again, later))
        else:
            self._dial(parent, target, targets, now)

    def _dial(self, parent: Peer, target: Edge, targets: Iterator[Edge], now: float) -> None:
        self._dialled = target

        def greeted(peer: Peer, later: float) -> None:
            wanted, self._dialled = self._dialled is target and self._away(parent), None
            if wanted and self._seeking is parent:
                self._go_round(parent, peer, later)
                self.join.adopt(peer, peer.addresses[0] if peer.addresses else "", later)
            else:
                self.join.dismiss(peer, later)

        def failed(reason: str, text: str, later: float) -> None:
            self._dialled = None
            if reason == ASKING:
                again = later + ASK_AGAIN_S
                self.core.timers.at(again, lambda then: self._again(parent, target, targets, then))
            elif reason in NOT_READY:  # as near as it can be: those farther away would not take us
                again = later + AGAIN_S
                self.core.timers.at(again, lambda then: self._next(parent, self._targets(parent), then))
            else:
                self._next(parent, targets, later)

        self.join.handshake.dial(target.addresses, greeted, failed, now, replaces=parent.id)

    def _again(self, parent: Peer, target: Edge, targets: Iterator[Edge], now: float) -> None:
        if self._seeking is parent and self._away(parent) and self._dialled is None:
            self._dial(parent, target, targets, now)
        elif self._seeking is parent:
            self._next(parent, targets, now)

    def _yields(self, asker: int, now: float) -> bool:
        """Somebody asks to join below us, and we have no parent: whether we give up looking for one. J1: who
        grants gives up the edge to a parent that is away, and does not simply return to it."""
        parent = self.join.parent
        looking = self._seeking is not None or self.join.asks
        if parent is not None and self._seeking is None:
            return False  # its link broke a moment ago, and may be back in the next
        if looking and self.core.id > asker:
            return False
        self._seeking = self._dialled = None
        self.join.give_up_dial()
        if parent is not None:
            self.join.give_up_parent()
            self.core.timers.at(now + AGAIN_S, self.join.try_again)
        return True

    def link_up(self, session: Session, now: float) -> None:
        if session is self._seeking:  # J2: it is back, and nothing that was asked for counts any more
            self._seeking = self._dialled = None

    # --- somebody comes ---------------------------------------------------------------------------------

    def _permits(self, hello: Hello, now: float) -> Refuse | None:
        core = self.core
        if self._objects(hello.broker):
            return Refuse("not-ready", self._objects(hello.broker))
        if not core.settings.healing.after_s or not hello.replaces or core.leaving:
            return None
        if hello.replaces in self.join.neighbours.heirs_of:
            return None
        if hello.broker in core.peers and hello.replaces == hello.broker:
            return None  # it comes back
        between = self._between(hello.broker)
        there = between is not None and between.link is not None and hello.replaces != hello.broker
        if there or self.busy() or not core.ready:
            why = f"{core.name} has a link to {between.name}" if there and between else "others come or go"
            return Refuse("not-ready", f"{hello.name} cannot join at {core.name} now: {why}")
        return self.granting.refusal(hello, now)

    def _objects(self, broker: int) -> str:
        """One that is gone round stays away while its successors exchange tables."""
        gone = self.gone.get(broker)
        if gone is None or not any(gone in places for places in self._places.values()):
            return ""
        return f"others take the place of {gone.name} at {self.core.name}"

    def _between(self, broker: int) -> Peer | None:
        """The neighbour behind which a broker was that comes to us now."""
        peers = peers_of(self.core)
        for one in self.edges.chain(broker)[1:]:
            if one == self.core.id or one in peers:
                return peers.get(one)
        return None

    def _came(self, peer: Peer, hello: Hello, now: float) -> None:
        """Before any behaviour hears of its link."""
        if self.gone.get(peer.id) is peer:
            self._return(peer)
        elif not peer.dialled and hello.replaces and hello.replaces not in self.join.neighbours.heirs_of:
            between = self._between(peer.id)
            if between is not None and between.link is None and not self._is_leaving(between):
                self._go_round(between, peer, now, final=False)

    def _is_leaving(self, peer: Peer) -> bool:
        return peer.paused and peer.id not in self.gone

    def _joined(self, peer: Peer, now: float) -> None:
        """A parent that was not looked for here; one that was given up before it was lost is gone round."""
        former = self.join.former
        if former is not None and former is not peer and not (former.lost or former.link):
            self._go_round(former, peer, now)

    # --- going round ------------------------------------------------------------------------------------

    def _go_round(self, gone: Peer, peer: Peer, now: float, final: bool = True) -> None:
        """`peer` comes, or is found, in the place of `gone`."""
        self._seeking = None if self._seeking is gone else self._seeking
        if gone.id not in self.gone:
            self.gone[gone.id] = gone
            gone.paused, gone.tells = True, self._tells
            later = now + self.core.settings.healing.heal_s
            self.core.timers.at(later, lambda then: self._lose(gone, then))
        self._places[peer] = [*self._places.get(gone, ()), gone]
        for one in self._places[peer]:
            if final:
                self._final[one] = peer
                one.heirs = (peer.id,)
            else:
                self._cover(one)
        self._wait_behind(peer)

    def _wait_behind(self, peer: Peer) -> None:
        """What is for it waits on the stream of the first whose place it has."""
        if places := self._places.get(peer):
            self.router.next_hop_override[peer] = places[0]
        else:
            self._places.pop(peer, None)
            self.router.next_hop_override.pop(peer, None)
        self.router.subscriptions.generation += 1

    def _cover(self, gone: Peer) -> None:
        """Once: when another comes later, what the first has told is the other's word no more."""
        if gone in self.router.covered:
            return
        below = self.edges.children.get(gone.id, set()) - {self.core.id}
        self._not_back[gone] = {broker for broker in below if not self.edges.by_broker[broker].gone}
        self.router.covered[gone] = self.router.subscriptions.matcher()
        self._told[gone] = []
        self._cover_more(gone)

    def _cover_more(self, gone: Peer) -> None:
        """What it has told, and what it had told those who come."""
        told, subscriptions = self._told[gone], self.router.subscriptions
        known = set(told)
        for entry in subscriptions.table.of(gone):
            if entry.item.filter not in known:
                self.router.covered[gone].add(len(told), entry.item.filter, 0)
                subscriptions.mentions.add(entry.item.filter)
                told.append(entry.item.filter)

    def _uncover(self, gone: Peer) -> None:
        """Nobody who was below it can be missed any more."""
        if self.router.covered.pop(gone, None) is not None:
            del self._not_back[gone]
            for filter in self._told.pop(gone):
                self.router.subscriptions.mentions.remove(filter)
            self.router.subscriptions.generation += 1

    def _arrived(self, gone: Peer, peer: Peer) -> None:
        if gone in self._not_back:
            self._not_back[gone].discard(peer.id)
            if not self._not_back[gone]:
                self._uncover(gone)

    def _tells(self, broker: int, home: int) -> bool:
        """Whether what is at this home is on the side of this neighbour by now."""
        peers = peers_of(self.core)
        for one in self.edges.chain(home):
            if one == self.core.id:
                return False
            if one in peers and one not in self.gone:
                return one == broker
        parent = self.join.parent
        return parent is not None and parent.id == broker

    def _tables_in(self, peer: Peer, now: float) -> None:
        for gone in self._places.get(peer, ()):
            if gone in self.router.covered:
                self._cover_more(gone)
            self.router.subscriptions.reconsider(gone, now)

    def _word_of(self, peer: Peer, home: int) -> Peer | None:
        """Who comes in the place of one that is away tells also what that one had told it: of homes that are
        there still, it is the word of the one that is away. Nobody else may know it here."""
        gone = next(iter(self._places.get(peer, ())), None)
        if gone is None or gone in self._final:
            return peer
        peers = peers_of(self.core)
        way = next((one for one in self.edges.chain(home) if one in peers or one == self.core.id), 0)
        if not way:
            return gone if self.join.parent in (None, gone) else None
        if way in self.gone:
            return self.gone[way]
        tells_itself = way == self.core.id or (way != peer.id and peers[way].link is not None)
        return None if tells_itself else peer

    def _synced(self, peer: Peer, now: float) -> None:
        places = list(self._places.get(peer, ()))
        for gone in places:
            self._forget_covered(gone, peer, now)
        for gone in places:
            self._arrived(gone, peer)
            self._hand_on(gone, {peer})
            self._tell_healed(gone, peer, now)
        final = [gone for gone in places if self._final.get(gone) is peer]
        self.core.timers.at(now, lambda later: self._lose_all(final, later))

    def _tell_healed(self, gone: Peer, peer: Peer, now: float) -> None:
        self.healed += 1
        took = round(now - self._since, 3) if self.join.parent is peer else None
        text = f"{self.core.name} and {peer.name} have gone round {gone.name}"
        self.core.event(now, "healed", text, round=gone.name, neighbour=peer.name, seconds=took)

    def _forget_covered(self, gone: Peer, peer: Peer, now: float) -> None:
        """It has told all that it must: what is behind it and was not repeated is covered by what was."""
        subscriptions = self.router.subscriptions
        for entry in subscriptions.table.of(gone):
            if entry.source is gone and peer.will_tell(gone, entry.item.home):
                covering = subscriptions.remote.covering(entry.item.filter)
                if any(subscriptions.table.entry(number).source is peer for number in covering):
                    subscriptions.forget(entry, gone, now)

    def _hand_on(self, gone: Peer, takers: set[Peer]) -> None:
        """What is held goes to these, as far as they want it; and what is newer will go there directly."""
        override = self.router.next_hop_override
        for peer in takers:
            self._places[peer].remove(gone)
            self._wait_behind(peer)
        takers = {override.get(peer, peer) for peer in takers}  # type: ignore[misc]
        told = self.router.covered.get(gone)

        def send(one: Unsettled) -> list[Peer]:
            sides = {override.get(side, side) for side in self.router.sides(one.publication.attributes)}
            hops = [peer for peer in takers & sides if peer.incoming is not one.record.incoming]
            if gone in sides or (
                told is not None and told.groups(decode_attributes(one.publication.attributes))
            ):
                hops.append(gone)
            for hop in hops:
                hop.out.exclude([one.publication], one.names)
            return hops

        renew([gone], send)
        gone.epoch = 0  # the positions on its stream are other ones
        self.router.subscriptions.generation += 1

    def _lose_all(self, all_gone: list[Peer], now: float) -> None:
        for gone in all_gone:
            self._lose(gone, now)

    def _lose(self, gone: Peer, now: float) -> None:
        if self.gone.get(gone.id) is gone and gone.link is None:
            self.core.lose(gone, now)

    def _return(self, peer: Peer) -> None:
        del self.gone[peer.id]
        self._final.pop(peer, None)
        self._uncover(peer)
        peer.paused, peer.tells, peer.heirs = False, None, ()
        self.router.subscriptions.generation += 1

    def link_losing(self, session: Session, now: float) -> None:
        """Who is still exchanging tables in its place gets what it is known to want; the rest is cut."""
        if isinstance(session, Peer) and self.gone.get(session.id) is session:
            if takers := {peer for peer, places in self._places.items() if session in places}:
                self._hand_on(session, takers)
            self._return(session)

    def link_lost(self, session: Session, now: float) -> None:
        if session is self._seeking:
            self._seeking = self._dialled = None
        self._final = {gone: peer for gone, peer in self._final.items() if peer is not session}
        self._places.pop(session, None)  # type: ignore[call-overload]

    # --- a child is elsewhere ---------------------------------------------------------------------------

    def _edge_changed(self, before: Edge | None, edge: Edge, now: float) -> None:
        """We come back and find that a child of ours has another parent."""
        child = peers_of(self.core).get(edge.broker)
        if not self.core.settings.healing.after_s:
            return
        if child is None or child.link is not None or child is self.join.parent or child.going:
            return
        if edge.parent == self.core.id or not edge.parent:
            return
        if not child.ever_synced:  # we have started again, and know nothing of it
            child.departed = True
            self.core.timers.at(now, lambda later: self.core.lose(child, later))
            return
        peers = peers_of(self.core)
        way = next((peers[one] for one in self.edges.chain(edge.parent) if one in peers), self.join.parent)
        if way is not None and way is not child and way.link is not None and not way.synced_by_peer:
            self._go_round(child, way, now)
            self._take_back(child, way, now)

    def _take_back(self, child: Peer, way: Peer, now: float) -> None:
        """Who is on the way there has been told what our former child told; it knows better."""
        subscriptions, advertisements = self.router.subscriptions, self.router.advertisements
        for entry in subscriptions.table.of(child):
            if entry.source is child and (announced := subscriptions.announced.get(way)) is not None:
                announced.remove(entry.number, now)
        for advertised in advertisements.table.of(child):
            if advertised.source is child:
                advertisements.retract(advertised, way, now)

    # --- what it looks like -----------------------------------------------------------------------------

    def status(self) -> Status:
        seeking = self._seeking.name if self._seeking is not None else None
        return {"healed": self.healed, "round": [p.name for p in self.gone.values()], "seeking": seeking}

    def validate(self) -> None:
        for gone in self.gone.values():
            assert gone.paused and gone.link is None and not gone.lost, gone
        for peer, places in self._places.items():
            assert places and all(self.gone.get(gone.id) is gone for gone in places), peer
            assert self.router.next_hop_override[peer] is places[0], peer
