"""Exclude lists stay with their publications: on a stream, in frames that are joined, split or wait."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from daemon.receiving import _joined
from grapevine.wire.mesh import Exclusion
from grapevine.wire.messages import TRACED, Batch, ExcludingBatch, Publication
from overlay.core import Core
from overlay.data.path import Publications
from overlay.data.routes import Side
from overlay.links.exclusions import Names, of_batch, stretches
from overlay.links.lane import Lane
from overlay.links.outgoing import Chunk, Outgoing
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings, OverlaySettings
from overlay.softlinks.excludes import Narrowed
from overlay.softlinks.planes import Planes
from overlay.tree.peer import Peer

Listed = list[tuple[int, Names]]
LISTS: list[Names] = [(), (7,), (7, 8)]


def publication(sequence: int, flags: int = 0) -> Publication:
    return Publication(b"\x80", b"", sequence, flags, 1, 9)


def listed(publications: list[Publication], exclusions: list[Exclusion]) -> Listed:
    return [(p.sequence, names) for names, run in stretches(publications, exclusions) for p in run]


def told(chunks: list[Chunk]) -> Listed:
    return [one for chunk in chunks for one in listed(chunk.publications, list(chunk.exclusions))]


steps = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(LISTS), st.booleans()), min_size=1, max_size=12)


@given(steps, st.integers(1, 7), st.integers(0, 20), st.integers(0, 20))
def test_a_stream_keeps_every_list_however_it_is_cut(
    steps: list[tuple[int, Names, bool]], most: int, settled: int, first: int
) -> None:
    out, right = Outgoing(), []
    for count, names, seal in steps:
        run = [publication(len(right) + n + 1) for n in range(count)]
        right += [(p.sequence, names) for p in run]
        if names:
            out.exclude(run, names)
        else:
            out.queue += run
        if seal:
            out.seal()
    last = out.end()
    assert last == len(right)
    found = [(p.sequence, names) for p, names in out.excluding(first + 1, last)]
    assert found == right[first:], "also what is not sealed yet"
    out.seal()
    out.limit = last
    assert told(list(out.take(most))) == right
    out.settle(min(settled, last))
    out.new_epoch(last)
    assert told(list(out.take(most))) == right[settled:], "sent again with the same lists"


def test_publications_with_one_list_that_follow_each_other_need_it_once() -> None:
    out = Outgoing()
    for sequence in range(1, 6):
        out.exclude([publication(sequence)], (7,))
    out.queue.append(publication(6))
    out.exclude([publication(7)], (7,))
    out.exclude([publication(8)], (8,))
    assert out.exclusions == [Exclusion(0, 5, (7,)), Exclusion(6, 7, (7,)), Exclusion(7, 8, (8,))]


def excluding(first: int, *lists: Names) -> ExcludingBatch:
    run = [publication(first + place) for place in range(len(lists))]
    exclusions = [Exclusion(place, place + 1, names) for place, names in enumerate(lists) if names]
    return ExcludingBatch(1, first, 0, 0, 0, run, exclusions)


def test_frames_that_are_joined_keep_their_lists() -> None:
    run = excluding(1, (7,), ())
    assert _joined(run, Batch(1, 3, 0, 0, 0, [publication(3)]))
    assert _joined(run, excluding(4, (), (8,)))
    assert listed(run.publications, run.exclusions) == [(1, (7,)), (2, ()), (3, ()), (4, ()), (5, (8,))]
    plain = Batch(1, 6, 0, 0, 0, [publication(6)])
    assert not _joined(plain, excluding(7, (7,))), "it has no place for lists"


def test_what_was_here_before_takes_its_lists_away() -> None:
    batch = excluding(1, (7,), (8,), (), (8,))
    assert listed(batch.publications[1:], of_batch(batch, 1)) == [(2, (8,)), (3, ()), (4, (8,))]


# --- at a broker -------------------------------------------------------------------------------------


def broker() -> tuple[Core, Peer]:
    core = tree_broker("here", 1, CoreSettings(overlay=OverlaySettings(delta=4)), Random(1))
    peer = core.peers[1] = Peer(core, 1, "b1")
    return core, peer


def test_what_waits_for_a_plane_keeps_its_lists() -> None:
    core, peer = broker()
    planes = next(b for b in core.behaviours if isinstance(b, Planes))
    had: Listed = []

    def forward(peer: Lane, batch: Batch, repeated: int, now: float) -> None:
        had.extend(listed(batch.publications, of_batch(batch, repeated)))

    planes._forward = forward
    planes.begin(1, 99, None, None, 0.0)
    core.forward.call(peer, excluding(1, (7,), ()), 0, 0.0)
    core.forward.call(peer, excluding(2, (8,), (7,), (8,)), 1, 0.0)
    assert not had
    planes.end(0.0)
    assert had == [(1, (7,)), (2, ()), (3, (7,)), (4, (8,))]


def test_a_traced_publication_is_noted_whatever_it_excludes() -> None:
    core, peer = broker()
    publications = next(b for b in core.behaviours if isinstance(b, Publications))
    noted: list[tuple[Side, int]] = []
    publications.traced = lambda side, run, now: noted.extend((side, p.sequence) for p in run)
    batch = excluding(1, (), (7,), (8,))
    for each in batch.publications[:2]:
        each.flags |= TRACED
        each.extension = b"\x01\x00\x00"
    core.forward.call(peer, batch, 0, 0.0)
    (whole, first), (narrowed, second) = noted
    assert (whole, first, second) == (peer, 1, 2)
    assert isinstance(narrowed, Narrowed) and narrowed.session is peer and narrowed.excluded == {7}
