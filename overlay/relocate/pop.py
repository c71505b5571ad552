"""SPEC P1 to P4: Publisher Optimistic Placement, fully distributed.

Single publications are traced; each broker on their way answers how many subscribers at and behind it got
one, when all to whom it passed it on have answered. Where soft links pass a neighbour by, or a copy for it
excludes some behind it, a probe with the publication's attributes asks in the publication's place; behind
a probe all is asked by probes. From these answers every broker keeps a profile of the
publisher. After enough traces the source asks from broker to broker for the one where no neighbour has the
majority. State of a publisher ends with its advertisements, its profile also when it moves.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.messages import RESENT, TRACED, Publication
from grapevine.wire.relocation import (
    Probe,
    RelocationAnswer,
    RelocationRequest,
    SessionId,
    TraceResult,
)
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.duplicates import Source
from overlay.data.routes import Route, Side
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.relocate.profile import PublisherProfileTable, TagWindow, closest_neighbour
from overlay.relocate.tagging import Tracer
from overlay.relocate.ways import sides_of, whole_side
from overlay.settings import RelocationSettings
from overlay.tree.peer import Peer, peers_of

ANSWER_S = 10.0  # a trace or a request that nobody answers is over after this
OPEN_MAX = 10_000  # traces under way at one broker; what comes beyond them is not followed
SUBSCRIBERS_MAX = 2**63 - 1  # that a result can say; only strangers have so many


class Profiled:
    """A publisher at its first broker."""

    __slots__ = ("asked", "client", "outstanding", "traces", "window")

    def __init__(self, client: Client, now: float) -> None:
        self.client = client
        self.window = TagWindow(now)
        self.traces = 0  # since the last decision
        self.outstanding = 0
        self.asked: SessionId | None = None  # a request on its way


class Pop:
    def __init__(self, tracer: Tracer, addresses: tuple[str, ...]) -> None:
        self.tracer = tracer
        self.addresses = addresses
        self.tables: dict[Source, PublisherProfileTable] = {}
        self.publishers: dict[Client, Profiled] = {}
        self.selected: Callable[[Client, RelocationAnswer | None, float], None] = lambda c, a, now: None
        self._open: dict[SessionId, dict[int, Gather]] = {}  # by trace, then by the session it came from

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Probe, self.on_probe)
        core.on(TraceResult, self.on_result)
        core.on(RelocationRequest, self.on_request)
        core.on(RelocationAnswer, self.on_answer)

    # --- phase 1: tracing ---------------------------------------------------------------------------

    def tag(self, client: Client, batch: list[Publication], settings: RelocationSettings, now: float) -> None:
        profiled = self.publishers.get(client)
        if profiled is None:
            profiled = self.publishers[client] = Profiled(client, now)
        window = profiled.window
        if window.tagged >= settings.traces_max and now - window.began_at < settings.window_s:
            return
        for publication in batch:
            if profiled.traces + profiled.outstanding >= settings.threshold:
                return  # a decision comes first, and it needs all answers
            if not publication.flags & RESENT:
                if window.tag(settings.traces_max, settings.window_s, now, self.core.random):
                    profiled.outstanding += 1
                    id = self.tracer.mark(publication, None, 0)
                    probe = _probe(id, publication)
                    self._trace(client, probe, self.tracer.route(client, probe.attributes), True, now)

    def passes(self, side: Side, publication: Publication, id: SessionId, now: float) -> None:
        """A traced publication passes. One that is not for all behind us was sent with a probe, and whoever
        waited for one that is sent again has gone on: these are traced no further, nor is one too many."""
        peer = whole_side(side)
        if peer is None or publication.flags & RESENT or len(self._open) >= OPEN_MAX:
            publication.flags &= ~TRACED
        else:
            route = self.tracer.route(side, publication.attributes)
            self._trace(peer, _probe(id, publication), route, True, now)

    def on_probe(self, peer: Peer, probe: Probe, now: float) -> None:
        """As if the publication had come from there, for everybody here and behind us."""
        if len(self._open) >= OPEN_MAX:
            self.core.refuse("probes")
            self.core.tell(TraceResult(probe.origin, probe.incarnation, probe.number, 0, False), peer)
        else:
            self._trace(peer, probe, self.tracer.route(peer, probe.attributes), False, now)

    def _trace(self, side: Session, probe: Probe, route: Route, carried: bool, now: float) -> None:
        """Answer when everybody behind us has. `carried`: by the publication itself, which asks those that
        get a whole copy; the others are asked by the probe."""
        id = SessionId(probe.origin, probe.incarnation, probe.number)
        waiting = self._open.setdefault(id, {})
        if side.number in waiting:
            return
        source = (probe.publisher, probe.publisher_incarnation)
        link, local = side.link, len(route.clients)

        def done(gather: Gather, later: float) -> None:
            waiting.pop(side.number, None)
            if not waiting:
                self._open.pop(id, None)
            counts = {broker: result.subscribers for broker, result in gather.answers}
            complete = not gather.missing and all(result.complete for _, result in gather.answers)
            if complete and self.tracer.known(source):
                table = self.tables.setdefault(source, PublisherProfileTable())
                table.record(local, {broker: float(count) for broker, count in counts.items()})
            if isinstance(side, Client):
                self._traced(side, complete, later)
            elif side.link is link and link is not None:
                subscribers = min(local + sum(counts.values()), SUBSCRIBERS_MAX)
                self.core.send(TraceResult(*id, subscribers, complete), link)

        gather = waiting[side.number] = Gather(done)
        probed = []
        for peer, whole in sides_of(route, peers_of(self.core)).items():
            if peer.link is None or not isinstance(peer, Peer):
                gather.missing.append(peer)
                continue
            gather.wait_for(peer)
            if not (carried and whole):
                probed.append(peer)
        self.core.tell(probe, *probed)
        gather.deadline = self.core.timers.at(now + ANSWER_S, gather.expire)
        gather.start(now)

    def on_result(self, peer: Peer, result: TraceResult, now: float) -> None:
        id = SessionId(result.origin, result.incarnation, result.number)
        for gather in list(self._open.get(id, {}).values()):
            gather.answer(peer, (peer.id, result), now)

    def _traced(self, client: Client, complete: bool, now: float) -> None:
        profiled = self.publishers.get(client)
        if profiled is not None:
            profiled.outstanding -= 1
            profiled.traces += complete
            if not profiled.outstanding and profiled.asked is None:
                self._decide_if_due(profiled, now)

    # --- phase 2: who is closest --------------------------------------------------------------------

    def _decide_if_due(self, profiled: Profiled, now: float) -> None:
        settings = self.tracer.settings
        if settings.algorithm != "pop" or profiled.traces < settings.threshold:
            return
        client = profiled.client
        table = self.tables.get((client.id, client.incarnation))
        profiled.traces = 0
        if table is None:
            return
        neighbour, others = closest_neighbour(table.downstream, table.local, margin=settings.gain)
        peer = peers_of(self.core).get(neighbour) if neighbour is not None else None
        if peer is None or peer.link is None:
            self.selected(client, None, now)
            return
        id = profiled.asked = self.tracer.new_id()
        request = RelocationRequest(*id, client.id, client.incarnation, others, (self.core.id,))
        self.core.tell(request, peer)
        self.core.timers.at(now + ANSWER_S, lambda later: self._unanswered(profiled, id))

    def _unanswered(self, profiled: Profiled, id: SessionId) -> None:
        if profiled.asked == id:
            profiled.asked = None

    def on_request(self, peer: Peer, request: RelocationRequest, now: float) -> None:
        core = self.core
        path = (*request.path, core.id)
        table = self.tables.get((request.publisher, request.publisher_incarnation))
        if table is not None:
            behind = {broker: count for broker, count in table.downstream.items() if broker != peer.id}
            closer, others = closest_neighbour(behind, table.local, request.subscribers)
            onward = core.peers.get(closer) if closer is not None else None
            if onward is not None and onward.link is not None and onward.id not in path:
                id = (request.origin, request.incarnation, request.number)
                publisher = (request.publisher, request.publisher_incarnation)
                core.tell(RelocationRequest(*id, *publisher, others, path), onward)
                return
        answer = RelocationAnswer(
            request.origin,
            request.incarnation,
            request.number,
            request.publisher,
            request.publisher_incarnation,
            path,
            core.name,
            self.addresses,
        )
        core.tell(answer, peer)

    def on_answer(self, peer: Peer, answer: RelocationAnswer, now: float) -> None:
        if self.core.id not in answer.path:
            return
        place = answer.path.index(self.core.id)
        if place:
            onward = peers_of(self.core).get(answer.path[place - 1])
            if onward is not None:
                self.core.tell(answer, onward)
            return
        id = SessionId(answer.origin, answer.incarnation, answer.number)
        for profiled in self.publishers.values():
            if profiled.asked == id:
                profiled.asked = None
                self.selected(profiled.client, answer, now)
                return

    # --- ends ---------------------------------------------------------------------------------------

    def forget_publisher(self, source: Source) -> None:
        self.tables.pop(source, None)

    def forget_client(self, client: Client) -> None:
        self.publishers.pop(client, None)

    def forget_neighbour(self, broker: int) -> None:
        for table in self.tables.values():
            table.forget(broker)


def _probe(id: SessionId, publication: Publication) -> Probe:
    return Probe(*id, publication.publisher, publication.incarnation, publication.attributes)
