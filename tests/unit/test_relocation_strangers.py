"""Questions about relocation that no broker of ours would ask: they cost little, are over in time and break
nothing."""

from __future__ import annotations

import time
from random import Random

import pytest

from grapevine.wire import decode, encode
from grapevine.wire.limits import LIST_ENTRIES
from grapevine.wire.messages import TRACED, CensusAnswer, CensusRequest, Publication
from grapevine.wire.relocation import (
    Probe,
    SessionId,
    TraceInformationAnswer,
    TraceInformationRequest,
    TraceResult,
    Ways,
)
from overlay.administration.census import MISSING_MAX, Census
from overlay.core import Core
from overlay.data.routes import Fan, Route, streams_of
from overlay.links.session import Kind, Link
from overlay.profiles import tree_broker
from overlay.relocate import grape, pop
from overlay.relocate.relocation import Relocation
from overlay.relocate.ways import onward
from overlay.settings import CoreSettings
from overlay.tree.peer import Peer
from tools.simulator.tables import behaviour

ASKER, SILENT, QUIET, UNKNOWN = 1, 2, 3, 1_000


def broker() -> tuple[Core, Peer, Relocation]:
    """With a neighbour that asks and two that say nothing."""
    core = tree_broker("here", 1, CoreSettings(), Random(1))
    for id in (ASKER, SILENT, QUIET):
        peer = core.peers[id] = Peer(core, id, f"b{id}")
        peer.link = Link(id, peer.name, Kind.PEER, 0, 0.0)
    core.out.sends.clear()
    return core, core.peers[ASKER], behaviour(core, Relocation)


def request(number: int, direct: Ways, deadline_s: float = 10.0) -> TraceInformationRequest:
    return TraceInformationRequest(9, 9, number, 9, 9, deadline_s, False, direct)


def test_as_many_ways_as_a_message_holds_are_sorted_in_a_moment() -> None:
    ways = [(SILENT, UNKNOWN + number) for number in range(LIST_ENTRIES)]
    began = time.perf_counter()
    ((first, (served, direct)),) = onward(ways).items()
    assert time.perf_counter() - began < 1.0
    assert (first, served, len(direct)) == (SILENT, False, LIST_ENTRIES)


def test_who_is_named_alone_and_as_a_step_is_served_and_asked_on() -> None:
    assert onward([(2,), (1, 5, 6), (2, 4), (1, 3)]) == {
        1: (False, ((3,), (5, 6))),
        2: (True, ((4,),)),
    }


def test_a_session_nobody_knows_is_over_after_our_own_patience() -> None:
    core, asker, relocation = broker()
    relocation.grape.on_request(asker, request(1, ((SILENT,),), deadline_s=1e12), 0.0)
    assert [type(message) for message, _ in core.out.sends] == [TraceInformationRequest]
    core.tick(grape.ANSWER_S)
    assert not relocation.grape._open
    answer = core.out.sends[-1][0]
    assert isinstance(answer, TraceInformationAnswer) and answer.missing == ("b2",)


def test_sessions_nobody_knows_are_followed_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grape, "OPEN_MAX", 3)
    core, asker, relocation = broker()
    for number in range(5):
        relocation.grape.on_request(asker, request(number, ((SILENT,),)), 0.0)
    assert len(relocation.grape._open) == 3
    refused = [message for message, _ in core.out.sends if isinstance(message, TraceInformationAnswer)]
    assert [(answer.number, answer.missing) for answer in refused] == [(3, ("here",)), (4, ("here",))]


def test_ways_through_ourselves_the_asker_and_strangers_lead_nowhere() -> None:
    core, asker, relocation = broker()
    strangers = tuple((UNKNOWN + number, SILENT) for number in range(2 * MISSING_MAX))
    relocation.grape.on_request(asker, request(1, ((core.id, SILENT), (ASKER, 7), *strangers)), 0.0)
    ((answer, links),) = core.out.sends
    assert isinstance(answer, TraceInformationAnswer) and links == (ASKER,)
    assert len(answer.missing) == MISSING_MAX and not relocation.grape._open


def test_probes_are_followed_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop, "OPEN_MAX", 0)
    core, asker, relocation = broker()
    relocation.pop.on_probe(asker, Probe(9, 9, 1, 9, 9, b"\x80"), 0.0)
    assert core.out.sends == [(TraceResult(9, 9, 1, 0, False), (ASKER,))]
    assert core.refused["probes"] == 1 and not relocation.pop._open


def test_traced_publications_are_followed_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop, "OPEN_MAX", 0)
    _, asker, relocation = broker()
    publication = Publication(b"\x80", b"", 1, flags=TRACED, publisher=9, incarnation=9)
    relocation.pop.passes(asker, publication, SessionId(9, 9, 1), 0.0)
    assert not publication.flags & TRACED and not relocation.pop._open


def test_a_probe_with_bytes_that_are_no_attributes_finds_nobody() -> None:
    core, asker, relocation = broker()
    relocation.pop.on_probe(asker, Probe(9, 9, 1, 9, 9, b"\xc1rubbish"), 0.0)
    assert core.out.sends == [(TraceResult(9, 9, 1, 0, True), (ASKER,))]
    assert core.refused["attributes"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        b'{"threshold":"many"}',
        b'{"threshold":65536}',  # more than a trace can say
        b'{"threshold":0}',
        b'{"weight":"x"}',
        b'{"gain":"x"}',
        b'{"algorithm":1}',
        b'{"nonsense":1}',
        b"{}",
    ],
)
def test_settings_from_a_stranger_are_checked_as_an_administrators_are(changes: bytes) -> None:
    core, asker, relocation = broker()
    before = relocation.settings
    census = CensusRequest(9, 9, 1, "relocation-set", changes)
    behaviour(core, Census).on_request(asker, census, 0.0)
    assert relocation.settings == before
    core.tick(5.0)
    assert isinstance(core.out.sends[-1][0], CensusAnswer)


def test_settings_that_are_right_are_taken() -> None:
    core, asker, relocation = broker()
    census = CensusRequest(9, 9, 1, "relocation-set", b'{"threshold":65535,"algorithm":"grape"}')
    behaviour(core, Census).on_request(asker, census, 0.0)
    assert (relocation.settings.threshold, relocation.settings.algorithm) == (65_535, "grape")


def test_more_subscribers_than_a_result_can_say_are_said_as_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    core, asker, relocation = broker()
    others = tuple(peer for peer in core.peers.values() if peer is not asker)
    route = Route(Fan(others, streams_of([])), (), False)
    monkeypatch.setattr(relocation.tracer, "route", lambda side, attributes: route)
    relocation.pop.on_probe(asker, Probe(9, 9, 1, 9, 9, b"\x80"), 0.0)
    core.out.sends.clear()
    for other in others:
        relocation.pop.on_result(other, TraceResult(9, 9, 1, 2**63 - 1, True), 0.0)
    ((answer, _),) = core.out.sends
    assert decode(encode(answer)) == TraceResult(9, 9, 1, 2**63 - 1, True)
