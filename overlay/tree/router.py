"""The tree as the shared parts see it: next hops by anchors, publishers by their advertisements.

A route leads to the sides from which matching subscriptions came. Soft links choose other hops for them, a
broker that moves has two planes of them, and for one that leaves its successors' wait; each of these is set
here while it lasts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from grapevine.filters.normal import Filter
from grapevine.wire import decode_attributes
from grapevine.wire.messages import RESENT, Advertisement, Publication, Subscription
from matching.interface import Attributes, Matcher
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client, Key
from overlay.data.duplicates import Source
from overlay.data.router import Introduction
from overlay.data.routes import NOBODY, Hops, Side
from overlay.gather import Gather
from overlay.links.session import Remote, Session
from overlay.tree.advertisements import Advertisements
from overlay.tree.confirmed import ConfirmedSince
from overlay.tree.peer import Peer
from overlay.tree.subscriptions import Subscriptions


class Burial:
    """What a lost side leaves. `unknown`: nobody knows what was wanted there; `only`: but it is behind this
    neighbour by now, and what is wanted there is known from it. `held`: what local clients had
    published was not all routed. `sides`: from where what was accepted before it was lost may still come.
    `up_to`: how far publishers had come then. `complete`: the others had published nothing. `publishers`:
    those that were known then; None while others may be. `turned`: what was wanted there and is told by
    another side now, in the group of that side's number; `filters`: the same."""

    __slots__ = ("complete", "filters", "held", "only", "publishers", "sides", "turned", "unknown", "up_to")

    def __init__(self, unknown: bool, held: bool, turned: Matcher) -> None:
        self.unknown = unknown
        self.held = held
        self.only: Peer | None = None
        self.turned = turned
        self.filters: list[Filter] = []
        self.publishers: frozenset[Source] | None = None
        self.sides: Mapping[Session, None] = {}
        self.up_to: dict[Source, int] = {}
        self.complete = False

    def know(self, up_to: dict[Source, int], complete: bool) -> None:
        self.complete = self.complete or complete
        for source, last in up_to.items():
            self.up_to[source] = max(last, self.up_to.get(source, 0))

    def owed(self, publication: Publication) -> bool:
        """Whether it may have been accepted before the side was lost. What is sent again was accepted before,
        perhaps by a broker that is not there any more and could say nothing; its publisher's next broker
        knows how far it had come only when it has all of it again."""
        if publication.flags & RESENT:
            return True
        source = publication.publisher, publication.incarnation
        last = self.up_to.get(source)
        if last is not None:
            return publication.sequence <= last
        return not self.complete and (self.publishers is None or source in self.publishers)

    def awaits(self, source: Session | None) -> bool:
        """Whether something older may come from there. What local clients had published was routed before, as
        a rule, but for those that come from another broker; a soft link may bring it from anywhere."""
        if isinstance(source, Client):
            return self.held or source.resends
        return source in self.sides if isinstance(source, Peer) else bool(self.sides)

    def is_unknown(self, source: Session | None) -> bool:
        """Whether anything from this side may have been for the lost one, and for nobody who is known. A
        neighbour that we have only met since our restart was never told what is wanted there."""
        if isinstance(source, Peer) and not source.awaited:
            return False
        return self.unknown and (self.only is None or source is self.only)

    def has_turned(self, source: Session | None, content: Attributes) -> bool:
        """Whether somebody who was behind the lost side, and is behind this one by now, wants it. It was sent
        here for the lost side, before they knew it there; nobody else will send it to that subscriber."""
        return bool(self.turned) and source is not None and source.number in self.turned.groups(content)


class TreeRouter(Quiet):
    def __init__(self, advertisements: Advertisements, subscriptions: Subscriptions) -> None:
        self.advertisements = advertisements
        self.subscriptions = subscriptions
        self.sources: Counter[Source] = advertisements.sources
        self.on_gone: list[Callable[[Source], None]] = []
        self.placed: Callable[[Advertisement], None] = lambda item: None  # it is new, or its home is another
        # Which links the matching groups are served by.
        self.choose: Callable[[Side | None, Iterable[int]], Hops] = self.choose_primary
        self.in_plane: Callable[[Side | None, Attributes], Hops] | None = None  # while a broker moves
        self.next_hop_override: dict[Remote, Remote] = {}  # who takes a leaver's place -> the leaver
        self.confirmed = ConfirmedSince()
        self.lost: dict[Peer, Burial] = {}  # sides with tombstones
        # Neighbours that are gone round, with all that they had told: some of it stood for others as well.
        self.covered: dict[Peer, Matcher] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        self.confirmed.attach(core)
        self.advertisements.on_gone.append(self._gone)
        self.advertisements.placed = self._placed

    # --- where next -----------------------------------------------------------------------------------

    def hops(self, side: Side | None, content: Attributes) -> Hops:
        if self.lost or self.covered:
            return self._with_tombstones(side, content)
        if self.in_plane is not None:
            return self.in_plane(side, content)
        remote = self.subscriptions.remote
        return self.choose(side, remote.groups(content)) if len(remote) else NOBODY

    def _with_tombstones(self, side: Side | None, content: Attributes) -> Hops:
        """What is appended to a lost side's stream is cut at the end of the drain; what is on that of
        one that is gone round waits for those who are not back."""
        groups, living = self.subscriptions.groups, []
        source = getattr(side, "session", None)
        lost = {
            peer: None
            for peer, burial in self.lost.items()
            if burial.awaits(source) and (burial.is_unknown(source) or burial.has_turned(source, content))
        }
        for number in self.subscriptions.remote.groups(content):
            hop = groups[number].side
            if (burial := self.lost.get(hop)) is not None:
                # It may have told some of it before it was lost; what stands for the rest is ours.
                told = not burial.unknown or groups[number].anchor != self.core.id
                if told and burial.awaits(source):
                    lost[hop] = None
            else:
                living.append(number)
        if self.in_plane is not None:
            peers, queues = self.in_plane(side, content)
        else:
            peers, queues = self.choose(side, living) if living else NOBODY
        lost |= {gone: None for gone, told in self.covered.items() if told.groups(content)}
        streams = [peer for peer in lost if peer not in peers]
        if queues is not None:  # not one for each of `peers`: what candidates would carry is counted by them
            queues = (*queues, *(peer.out.queue for peer in streams))
        return (*peers, *streams), queues

    def choose_primary(self, side: Side | None, groups: Iterable[int]) -> Hops:
        peers: dict[Remote, None] = {}
        for number in groups:
            hop = self.subscriptions.groups[number].side
            if hop is not side:
                peers[self.next_hop_override.get(hop, hop)] = None
        return tuple(peers), None

    def sides(self, attributes: bytes) -> set[Peer]:
        """The neighbours from which a matching subscription came."""
        groups = self.subscriptions.groups
        content = decode_attributes(attributes)
        return {groups[number].side for number in self.subscriptions.remote.groups(content)}

    # --- who publishes --------------------------------------------------------------------------------

    def introduction(self, publisher: int) -> Introduction | None:
        known = self.advertisements.of_publisher(publisher)
        return Introduction(known[-1].publisher_name, known[-1].home_name) if known else None

    def _placed(self, advertisement: Advertisement) -> None:
        """Who knows this publisher's name hears it anew with that of another broker."""
        self.placed(advertisement)
        homes = {item.home for item in self.advertisements.of_publisher(advertisement.publisher)}
        if len(homes) > 1 or advertisement.moves:
            self.subscriptions.generation += 1

    def _gone(self, advertisement: Advertisement) -> None:
        source = (advertisement.publisher, advertisement.incarnation)
        if source not in self.advertisements.sources:
            for call in self.on_gone:
                call(source)

    def name_taken(self, publisher: int, incarnation: int) -> str:
        for other in self.advertisements.of_publisher(publisher):
            if other.incarnation != incarnation and other.home != self.core.id and not other.stand_in:
                return other.home_name
        return ""

    # --- registration ---------------------------------------------------------------------------------

    def refusal(self, filter: Filter) -> str:
        return ""

    def subscribe(self, client: Session, filter: Filter, number: int, gather: Gather, now: float) -> Key:
        here = self.core.id
        item = Subscription(here, self.core.serial(), here, (here,), filter)
        self.confirmed.await_confirmation((item.origin, item.serial), gather)
        return self.subscriptions.subscribe(client, item, number, gather, now)

    def unsubscribe(self, client: Session, key: Key, now: float) -> None:
        self.confirmed.forget(key)
        self.subscriptions.unsubscribe(client, key, now)

    def await_subscription(self, key: Key, gather: Gather) -> None:
        self.subscriptions.await_confirmation(key, gather)

    def filter_of(self, key: Key) -> Filter:
        return self.subscriptions.table.by_key[key].item.filter

    def advertise(
        self, client: Session, filter: Filter, gather: Gather, now: float, stand_in: bool = False
    ) -> Key:
        core = self.core
        item = Advertisement(
            core.id,
            core.serial(),
            core.id,
            core.name,
            client.id,
            client.incarnation,
            client.name,
            filter,
            stand_in=stand_in,
        )
        return self.advertisements.advertise(client, item, gather, now)

    def unadvertise(self, client: Session, key: Key, now: float) -> None:
        self.advertisements.unadvertise(client, key, now)

    def await_advertisement(self, key: Key, gather: Gather) -> None:
        self.advertisements.await_confirmation(key, gather)
