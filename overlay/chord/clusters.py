"""The brokers among which a ring's users are placed, and what they know of each other (DYNATOPS 4).

Brokers of one `placement.cluster` are a cluster; those without a name are cut into groups by the order of
their ids. Who is in it a census tells now and then, and a session is kept to each. Every `t_update_s` a
broker whose topics or load have changed tells the others the difference. A word that was lost with a link is
missed when the link is back, when the next one does not follow on what is known, or with the next census:
then all is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from grapevine.wire.chord import RingNode
from grapevine.wire.placement import ClusterAsk, ClusterTopics, PlacementMessage
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.chord.placement import Candidate, Tally
from overlay.chord.planes import Planes
from overlay.chord.registry import CHUNK
from overlay.core import Core
from overlay.links.session import Session
from overlay.settings import PlacementSettings

QUESTION = "placement"
LOOK_EVERY = 4  # words to the cluster: who is in it is asked again


class Colleague:
    """Another broker of the cluster; version 0: nothing is known of it."""

    def __init__(self, node: RingNode) -> None:
        self.node = node
        self.topics: set[int] = set()
        self.load = self.version = 0
        self.tally = Tally()

    def forget(self) -> None:
        self.topics, self.load, self.version = set(), 0, 0

    def take(self, said: ClusterTopics) -> bool:
        """Whether it follows on what is known."""
        if said.since and said.since != self.version:
            return False
        if not said.since:
            self.forget()
        self.topics.difference_update(said.gone)
        self.topics.update(said.added)
        self.load, self.version, self.tally = said.load, said.version, Tally(*said.tally)
        return True


class Cluster(Quiet):
    after = ("Planes", "Census")

    def __init__(self, settings: PlacementSettings, planes: Planes, census: Census) -> None:
        self.settings, self.planes, self.census = settings, planes, census
        self.colleagues: dict[int, Colleague] = {}  # by broker
        self.tally: Callable[[], Tally] = Tally  # of this broker; set by Placement
        self.told: frozenset[int] = frozenset()  # as of `version`
        self.told_load = 0
        self.version = 1
        self._words = 0
        census.reporters[QUESTION] = self._report

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(ClusterTopics, self.on_topics)
        core.on(ClusterAsk, self.on_ask)

    def start(self, now: float) -> None:
        self.core.timers.at(now + self.settings.t_update_s * self.core.random.uniform(0.8, 1.2), self._update)

    # --- who is in it -----------------------------------------------------------------------------------

    def _report(self, cluster: bytes) -> Report | None:
        membership = self.planes.membership
        if cluster != self.settings.cluster.encode() or not membership.member or self.core.leaving:
            return None
        return {**self.census.brief(), QUESTION: msgspec.to_builtins(membership.me)}

    def _found(self, reports: list[Report], now: float) -> None:
        """Not while somebody is missing: the groups would shift, and shift back."""
        if any(report.get("missing") for report in reports):
            return
        nodes = {}
        for report in reports:
            try:
                node = msgspec.convert(report.get(QUESTION), RingNode)
            except msgspec.ValidationError:
                continue
            nodes[node.broker] = node
        size = len(nodes) if self.settings.cluster else self.settings.cluster_size
        group = group_of(self.core.id, nodes, size)
        self.colleagues = {
            broker: self.colleagues.get(broker) or Colleague(nodes[broker]) for broker in group
        }
        for broker, colleague in self.colleagues.items():
            colleague.node = nodes[broker]
            self.planes.membership.want(colleague.node, now)
            self.tell(broker, ClusterAsk(colleague.version))

    def nodes(self) -> list[RingNode]:
        return [colleague.node for colleague in self.colleagues.values()]

    # --- what they know of each other -------------------------------------------------------------------

    def _update(self, now: float) -> None:
        self.start(now)
        if self._words % LOOK_EVERY == 0 or not self.colleagues:
            self.census.ask(QUESTION, None, now, self._found, self.settings.cluster.encode())
        self._words += 1
        topics, load = frozenset(self.planes.subscribed), self.load()
        if (topics, load) == (self.told, self.told_load):
            return
        before, self.told, self.told_load = self.told, topics, load
        self.version += 1
        words = list(self._words_since(self.version - 1, topics - before, before - topics))
        for broker in self.colleagues:
            self.tell(broker, *words)

    def load(self) -> int:
        return sum(self.planes.subscribed.values())

    def _words_since(self, since: int, added: Iterable[int], gone: Iterable[int]) -> Iterator[ClusterTopics]:
        changes = [(topic, True) for topic in sorted(added)] + [(topic, False) for topic in sorted(gone)]
        for first in range(0, max(len(changes), 1), CHUNK):
            chunk = changes[first : first + CHUNK]
            plus = tuple(topic for topic, comes in chunk if comes)
            minus = tuple(topic for topic, comes in chunk if not comes)
            yield ClusterTopics(since, self.version, plus, minus, self.told_load, self.tally())
            since = self.version

    def tell(self, broker: int, *messages: PlacementMessage) -> None:
        """If it can be heard now; what is lost is asked for."""
        session = self.core.peers.get(broker)
        if session is not None and session.link is not None:
            for message in messages:
                self.core.tell(message, session)

    def on_topics(self, session: Session, said: ClusterTopics, now: float) -> None:
        colleague = self.colleagues.get(session.id)
        if colleague is not None and not colleague.take(said):
            self.tell(session.id, ClusterAsk(colleague.version))

    def on_ask(self, session: Session, asked: ClusterAsk, now: float) -> None:
        if asked.version != self.version:
            self.tell(session.id, *self._words_since(0, self.told, ()))

    def link_up(self, session: Session, now: float) -> None:
        if (colleague := self.colleagues.get(session.id)) is not None:
            self.tell(session.id, ClusterAsk(colleague.version))

    def link_lost(self, session: Session, now: float) -> None:
        if (colleague := self.colleagues.get(session.id)) is not None:
            colleague.forget()

    # --- for Placement ----------------------------------------------------------------------------------

    def candidates(self) -> list[Candidate]:
        """Who can be heard now: a client that goes there is announced."""
        links = {broker for broker, session in self.core.peers.items() if session.link is not None}
        return [
            Candidate(broker, known.topics, known.load)
            for broker, known in self.colleagues.items()
            if known.version and broker in links
        ]

    def validate(self) -> None:
        assert self.core.id not in self.colleagues


def group_of(broker: int, all_of_them: Iterable[int], size: int) -> list[int]:
    """The others of its group when brokers are cut, by their ids, into as few and equal ones as fit."""
    ranked = sorted({broker, *all_of_them})
    groups = -(-len(ranked) // max(size, 1))
    place = {one: rank * groups // len(ranked) for rank, one in enumerate(ranked)}
    return [one for one in ranked if one != broker and place[one] == place[broker]]
