"""SPEC G1 to G3: the Greedy Relocation Algorithm for Publishers of Events, decided at the first broker.

A session traces consecutive publications. Every broker notes which of them it delivered and to whom it
passed them on. When all of them are settled the first broker asks (TIR), each broker asks those to whom it
passed some on, and answers for all of them (TIA); what was noted is forgotten then. Questions go over
primary links: they name the brokers that soft links served, and one that was passed by asks on towards
these and answers as the pure forwarder that it would be without soft links. The first broker works
out the delay and the load with the publisher at each broker, in bounded pieces, and chooses.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from grapevine.wire.messages import RESENT, Publication
from grapevine.wire.relocation import (
    BrokerAddress,
    BrokerTrace,
    NeighbourDelay,
    RoundTripsAnswer,
    RoundTripsRequest,
    SessionId,
    TraceInformationAnswer,
    TraceInformationRequest,
    Way,
)
from overlay.administration.census import MISSING_MAX
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.duplicates import Source
from overlay.data.routes import Side
from overlay.gather import Gather
from overlay.relocate.selection import Candidate, Evaluation, nodes_of
from overlay.relocate.tagging import Tracer
from overlay.relocate.traces import SessionTrace
from overlay.relocate.ways import onward, way_to
from overlay.settings import RelocationSettings
from overlay.tree.peer import Peer, peers_of

LOOK_AGAIN_S = 0.05
SETTLE_S = 30.0  # a session whose publications do not settle in this time is asked for all the same
ANSWER_S = 10.0
PINGS_S = 1.0  # a client that does not measure round trips is not waited for longer
MARGIN = 0.9  # of its own time a broker leaves to the next
OPEN_MAX = 4096  # questions at a time: who was passed by knows nothing of a session and must ask all the same


class TracedSession:
    """The session of a publisher at its first broker."""

    __slots__ = ("began_at", "client", "id", "index", "last")

    def __init__(self, client: Client, id: SessionId, now: float) -> None:
        self.client = client
        self.id = id
        self.began_at = now
        self.index = 0
        self.last = 0  # position of its last publication on the client's link


class Choice:
    """What a session came to."""

    def __init__(self, traces: tuple[BrokerTrace, ...], candidates: list[Candidate]) -> None:
        self.traces = {trace.broker: trace for trace in traces}
        self.candidates = candidates


class Grape:
    def __init__(self, tracer: Tracer, addresses: tuple[str, ...]) -> None:
        self.tracer = tracer
        self.addresses = addresses
        self.noted: dict[Source, SessionTrace] = {}
        self.sessions: dict[Client, TracedSession] = {}
        self.judged: Callable[[Client, Choice, float], None] = lambda client, choice, now: None
        self._open: dict[SessionId, Gather] = {}
        self._pings: dict[int, Callable[[dict[int, float], float], None]] = {}
        self._number = 0

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(TraceInformationRequest, self.on_request)
        core.on(TraceInformationAnswer, self.on_answer)
        core.on(RoundTripsAnswer, self.on_round_trips)

    # --- phase 1: a session -------------------------------------------------------------------------

    def tag(self, client: Client, batch: list[Publication], settings: RelocationSettings, now: float) -> None:
        session = self.sessions.get(client)
        if session is None:
            session = self.sessions[client] = TracedSession(client, self.tracer.new_id(), now)
        elif session.index >= settings.threshold:
            if session.last or now - session.began_at < settings.window_s:
                return  # being asked for, or the next one is not due
            session = self.sessions[client] = TracedSession(client, self.tracer.new_id(), now)
        for publication in batch:
            if not publication.flags & RESENT:
                self.tracer.mark(publication, session.id, session.index)
                self.note(client, publication, session.id, session.index)
                session.index += 1
                if session.index >= settings.threshold:
                    session.last = client.incoming.received
                    self._ask_when_settled(session, now + SETTLE_S, now)
                    return

    def note(self, side: Side, publication: Publication, id: SessionId, index: int) -> None:
        """A publication of a session passes."""
        source = (publication.publisher, publication.incarnation)
        if not self.tracer.known(source):
            return  # late: nobody would forget it
        trace = self.noted.get(source)
        if trace is None or trace.id != id:
            trace = self.noted[source] = SessionTrace(id)
        route = self.tracer.route(side, publication.attributes)
        trace.delivered(index, len(route.clients))
        trace.sent.update(map(way_to, route.remotes))

    # --- phase 1: asking ----------------------------------------------------------------------------

    def _ask_when_settled(self, session: TracedSession, deadline: float, now: float) -> None:
        client = session.client
        if self.sessions.get(client) is not session:
            return
        if client.incoming.settled < session.last and now < deadline:
            again = now + LOOK_AGAIN_S
            self.core.timers.at(again, lambda later: self._ask_when_settled(session, deadline, later))
            return

        def answered(traces: tuple[BrokerTrace, ...], missing: tuple[str, ...], later: float) -> None:
            if self.sessions.get(client) is session:
                session.last = 0
                if not missing:
                    self._judge(client, traces, later)

        request = TraceInformationRequest(*session.id, client.id, client.incarnation, ANSWER_S)
        self._spread(request, None, answered, now)

    def on_request(self, peer: Peer, request: TraceInformationRequest, now: float) -> None:
        link = peer.link

        def answered(traces: tuple[BrokerTrace, ...], missing: tuple[str, ...], later: float) -> None:
            if link is not None and peer.link is link:
                id = (request.origin, request.incarnation, request.number)
                self.core.send(TraceInformationAnswer(*id, traces, missing), link)

        self._spread(request, peer, answered, now)

    def _spread(
        self,
        request: TraceInformationRequest,
        asker: Peer | None,
        answered: Callable[[tuple[BrokerTrace, ...], tuple[str, ...], float], None],
        now: float,
    ) -> None:
        id = SessionId(request.origin, request.incarnation, request.number)
        source = (request.publisher, request.publisher_incarnation)
        trace = self.noted.get(source)
        if trace is None or trace.id != id:
            trace = None if request.served else SessionTrace(id)  # soft links have passed us by
        if trace is None or id in self._open or len(self._open) >= OPEN_MAX:
            answered((), (self.core.name,), now)  # we have restarted since, or are asked too much
            return
        own = trace.answer(self.core.id, self.core.name, self.addresses, self._delays(), self.core.report)

        def done(gather: Gather, later: float) -> None:
            self._open.pop(id, None)
            if self.noted.get(source) is trace:
                del self.noted[source]
            traces, missing = [own], [peer.name for peer in gather.missing]
            for answer in gather.answers:
                traces += answer.traces
                missing += answer.missing
            answered(tuple(traces), tuple(missing[:MISSING_MAX]), later)

        gather = self._open[id] = Gather(done)
        ways = onward(trace.sent.union(request.direct))
        if asker is not None:
            ways.pop(asker.id, None)
        self._pass_on(request, ways, gather, now)

    def _pass_on(
        self,
        request: TraceInformationRequest,
        ways: dict[int, tuple[bool, tuple[Way, ...]]],
        gather: Gather,
        now: float,
    ) -> None:
        core, deadline_s = self.core, request.deadline_s * MARGIN
        for broker, (served, direct) in ways.items():
            peer = core.peers.get(broker)
            if peer is not None and peer.link is not None:
                gather.wait_for(peer)
                core.tell(replace(request, deadline_s=deadline_s, served=served, direct=direct), peer)
            else:  # what is behind it now, others may know
                missing = (core.names.get(broker, f"{broker:x}"),)
                id = (request.origin, request.incarnation, request.number)
                gather.answers.append(TraceInformationAnswer(*id, (), missing))
        patience_s = min(request.deadline_s, ANSWER_S)  # whatever another broker names
        gather.deadline = core.timers.at(now + patience_s, gather.expire)
        gather.start(now)

    def on_answer(self, peer: Peer, answer: TraceInformationAnswer, now: float) -> None:
        gather = self._open.get(SessionId(answer.origin, answer.incarnation, answer.number))
        if gather is not None:
            gather.answer(peer, answer, now)

    def _delays(self) -> tuple[NeighbourDelay, ...]:
        output_s = max(self.core.report.get("output_delay_s", 0.0), 0.0)
        return tuple(NeighbourDelay(p.id, output_s, p.round_trip_s) for p in peers_of(self.core).values())

    # --- phase 2: the choice ------------------------------------------------------------------------

    def _judge(self, client: Client, traces: tuple[BrokerTrace, ...], now: float) -> None:
        settings = self.tracer.settings
        if settings.algorithm != "grape" or client.ended:
            return

        def measured(round_trips: dict[int, float], later: float) -> None:
            evaluation = Evaluation(nodes_of(traces, settings.delay_model), self.core.id, round_trips)

            def piece(at: float) -> bool:
                more = evaluation.step()
                if not more and not client.ended:
                    self.judged(client, Choice(traces, evaluation.candidates), at)
                return more

            self.core.defer(piece)

        if settings.priority == "load" and settings.weight >= 100:
            measured({}, now)
        else:
            self._ask_round_trips(client, traces, measured, now)

    def _ask_round_trips(
        self,
        client: Client,
        traces: tuple[BrokerTrace, ...],
        measured: Callable[[dict[int, float], float], None],
        now: float,
    ) -> None:
        """The client knows how far the candidates are from it, if its driver measures that."""
        self._number += 1
        number = self._number
        self._pings[number] = measured
        brokers = tuple(BrokerAddress(trace.broker, trace.addresses) for trace in traces)
        self.core.tell(RoundTripsRequest(number, brokers), client)
        self.core.timers.at(now + PINGS_S, lambda later: self._pinged(number, {}, later))

    def on_round_trips(self, client: Client, answer: RoundTripsAnswer, now: float) -> None:
        self._pinged(answer.number, {row.broker: row.round_trip_s for row in answer.round_trips}, now)

    def _pinged(self, number: int, round_trips: dict[int, float], now: float) -> None:
        if (measured := self._pings.pop(number, None)) is not None:
            measured(round_trips, now)

    # --- ends ---------------------------------------------------------------------------------------

    def forget_publisher(self, source: Source) -> None:
        self.noted.pop(source, None)

    def forget_client(self, client: Client) -> None:
        self.sessions.pop(client, None)


def path_between(traces: dict[int, BrokerTrace], source: int, target: int) -> tuple[int, ...]:
    """Along the links that both ends named; empty if there is none."""
    paths: dict[int, tuple[int, ...]] = {source: (source,)}
    front = [source]
    while front and target not in paths:
        broker = front.pop(0)
        for neighbour in traces[broker].neighbours:
            other = neighbour.broker
            if other in traces and other not in paths:
                paths[other] = (*paths[broker], other)
                front.append(other)
    return paths.get(target, ())
