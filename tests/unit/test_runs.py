"""The loops of the data path, compiled and in Python, do the same and refuse what is not theirs."""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.wire import identify
from grapevine.wire.messages import PROTOCOL, Attach, Publication
from matching.index import Index
from overlay.data import runs
from overlay.data.client import Client
from overlay.data.routes import Fan, Route, Streams, streams_of
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings

both = pytest.mark.parametrize("compiled", [runs.compiled, None], ids=["compiled", "python"])
needs_compiled = pytest.mark.skipif(runs.compiled is None, reason="built without a compiler")


def publications(sequences: list[int]) -> list[Publication]:
    return [Publication(b"%d" % (sequence % 3), b"", sequence) for sequence in sequences]


def fan(queues: int, clients: int) -> Fan:
    made = Fan((), streams_of([]))
    made.listed = [[] for _ in range(clients)]
    made.queues = [[] for _ in range(queues + clients)]
    return made


class Twice:
    """A queue that is no list."""

    def __init__(self) -> None:
        self.got: list[Publication] = []

    def append(self, publication: Publication) -> None:
        self.got += [publication, publication]

    def __iadd__(self, publications: Any) -> Twice:
        for publication in publications:
            self.append(publication)
        return self


@both
def test_a_stamp_is_on_every_publication(
    compiled: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "compiled", compiled)
    run = publications([1, 2])
    runs.stamp(run, 1 << 60, 7, 2.5)
    runs.stamp(run[:1], 9, 7, 2.5, plane=4)
    stamped = [(p.publisher, p.incarnation, p.accepted_at, p.plane) for p in run]
    assert stamped == [(9, 7, 2.5, 4), (1 << 60, 7, 2.5, 0)]


@given(st.lists(st.integers(0, 30)), st.integers(0, 10))
def test_rising_is_strictly_rising(sequences: list[int], last: int) -> None:
    run = publications(sequences)
    expected = all(a < b for a, b in zip([last, *sequences], sequences))
    for compiled in {runs.compiled, None}:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(runs, "compiled", compiled)
            assert runs.rising(run, last) == expected


@both
def test_routes_are_looked_up_by_attributes(
    compiled: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "compiled", compiled)
    known = {b"0": Route(fan(0, 0), (), True), b"2": Route(fan(0, 0), (), True)}
    found = runs.look_up(publications([3, 4, 5]), known)
    assert found == [known[b"0"], None, known[b"2"]]
    found = runs.look_up(publications([3, 3, 4, 4, 3, 5, 5]), known)
    assert found == [known[b"0"], known[b"0"], None, None, known[b"0"], known[b"2"], known[b"2"]]
    prefixes = [Publication(attributes, b"", 1) for attributes in (b"0", b"00", b"", b"0")]
    assert runs.look_up(prefixes, known) == [known[b"0"], None, None, known[b"0"]]


@given(st.lists(st.integers(0, 3), min_size=1))
def test_each_publication_goes_to_the_queues_of_its_route(places: list[int]) -> None:
    results = []
    run = publications(list(range(1, len(places) + 1)))
    for compiled in (runs.compiled, None):
        fans = [fan(2, 0), fan(1, 2), fan(0, 1)]
        odd: Any = Twice()
        fans[0].queues[1] = odd
        routes = [
            Route(fans[0], (), True),
            Route(fans[1], (b"a", b"b"), True),
            Route(fans[1], (b"c", b"d"), True),
            Route(fans[2], (b"e",), True),
        ]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(runs, "compiled", compiled)
            met = runs.scatter(run, [routes[place] for place in places])
        results.append(
            (
                [fans.index(each) for each in met],
                [list(q) for each in fans for q in each.queues if isinstance(q, list)],
                [each.listed for each in fans],
                odd.got,
            )
        )
    assert results[0] == results[1]
    assert sum(map(len, results[0][2][1])) == 2 * sum(place in (1, 2) for place in places)


@needs_compiled
def test_what_is_no_publication_is_refused() -> None:
    compiled: Any = runs.compiled
    sequence: Any = Publication.sequence
    with pytest.raises(TypeError):
        compiled.rising([object()], sequence, 0)
    with pytest.raises(TypeError):
        compiled.rising(publications([1]), object(), 0)
    with pytest.raises(ValueError, match="one value"):
        compiled.stamp([], (sequence,), ())
    with pytest.raises(TypeError):
        compiled.look_up([None], sequence, {})
    wrong = Route(fan(0, 1), (), True)  # one client, no ids
    with pytest.raises(TypeError):
        compiled.scatter(publications([1]), [wrong], runs._ROUTED)


@needs_compiled
def test_references_are_neither_lost_nor_kept() -> None:
    import sys

    value = 1 << 61
    run = publications([1, 2, 3])
    before = sys.getrefcount(value)
    runs.stamp(run, value, 1, 1.0)
    assert sys.getrefcount(value) == before + 3
    del run
    assert sys.getrefcount(value) == before


@both
def test_gathered_are_ids_clients_and_their_lists(
    compiled: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "compiled", compiled)
    core = tree_broker("b", 1, CoreSettings(), Random(1), matcher=Index)
    clients = [Client(core, attach(f"c{n}"), lambda client: None, 0.0) for n in range(12)]
    numbered = {client.number: client for client in clients}
    ids, streams = runs.gather([(client.number, b"%d" % client.number) for client in clients[2:]], numbered)
    assert ids == tuple(b"%d" % client.number for client in clients[2:])
    assert streams.clients == clients[2:]
    assert all(q is client.out.queue for q, client in zip(streams.queues, clients[2:], strict=True))
    assert all(q is client.out.ids for q, client in zip(streams.listed, clients[2:], strict=True))
    assert runs.gather([], numbered) == ((), Streams([], [], []))
    with pytest.raises(KeyError):
        runs.gather([(0, b"")], numbered)


def attach(name: str) -> Attach:
    return Attach(PROTOCOL, PROTOCOL, name, identify(name), 7, 1, 100, 0)


@needs_compiled
def test_gather_refuses_what_is_no_client() -> None:
    assert runs.compiled is not None
    for pairs, table in (([(1,)], {1: 2}), ([1], {1: 2}), ([(1, b"")], {1: 2})):
        with pytest.raises(TypeError):
            runs.compiled.gather(pairs, table, runs._GATHERED)
