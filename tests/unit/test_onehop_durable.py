"""Custody where routes are asked for first: it is ahead of the streams, and waits for who is away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from grapevine.filters import parse
from grapevine.wire.messages import CUT_LINK_LOST, DURABLE, RESENT, Publication
from grapevine.wire.onehop import LEFT, SERVING
from overlay.journal.bodies import StreamBody, TopicsHead, Wanted, bits_of, encode_body
from overlay.journal.contents import Contents
from overlay.journal.pool import Pool
from overlay.journal.record import STREAM
from overlay.links.settling import Settling
from overlay.onehop.adopting import Adopting

SOURCE = (1, 7)


def publication(sequence: int, flags: int = DURABLE) -> Publication:
    return Publication(b"", b"x", sequence, flags, *SOURCE)


def test_streams_know_what_they_have_and_not_what_is_in_custody_beside_it() -> None:
    """5 to 7 are answered and go into a stream while 8 to 10 have just been taken into custody: these come
    to the stream later, and are no duplicates then."""
    pool = Pool()
    pool.hold([publication(n) for n in (8, 9, 10)])
    pool.want(1, [publication(n) for n in (5, 6, 7)])
    (part,) = pool.parts()
    contents = Contents()
    contents.take(STREAM, 1, 1, encode_body(StreamBody(1, "all", 1, parse("n > 0"), "", "acked", 0.0, 0)))
    items = len(part.publications)
    wanted = [Wanted(number, 1, bits_of(places, items)) for number, places in part.wanted.items()]
    contents.take_pubs(2, items, TopicsHead(part.runs, wanted))
    assert contents.sources == {SOURCE: 7}
    assert [(held.first, held.last) for held in contents.custody.held[SOURCE]] == [(8, 10)]


def test_a_run_that_is_partly_wanted_is_known_up_to_there() -> None:
    batch = [publication(n) for n in (8, 9, 10)]
    pool = Pool()
    pool.hold(batch)
    pool.want(1, batch[:1])  # answered in the same burst, by this broker itself
    (part,) = pool.parts()
    assert [(run.first, run.last, run.held) for run in part.runs] == [(8, 8, True), (9, 10, True)]


class Members:
    """A cluster with one other dispatcher, number 9, which is away at first."""

    def __init__(self) -> None:
        self.member: Any = None
        entry = SimpleNamespace(owner=9, state=SERVING, roles=1)
        self.table = SimpleNamespace(entries={9: entry})

    def get(self, member: int) -> Any:
        return self.member


def adopting() -> tuple[Adopting, Members, Any]:
    cluster, missed = Members(), []
    path = SimpleNamespace(
        behind={}, keep=object(), adopted=None, miss=lambda run, home: missed.append((len(run), home))
    )
    path.missed = missed
    made = Adopting(cluster, path)  # type: ignore[arg-type]
    settings = SimpleNamespace(links=SimpleNamespace(lost_after_s=5.0))
    made.core = SimpleNamespace(now=1.0, settings=settings, timers=SimpleNamespace(at=lambda *_: None))  # type: ignore[assignment]
    return made, cluster, path


def test_what_is_durable_waits_for_a_dispatcher_that_is_away() -> None:
    made, cluster, path = adopting()
    made._miss(9, 1.0)
    record = Settling(None)
    made._adopted([publication(5, DURABLE | RESENT), publication(6)], record)
    assert [(cut.first, cut.last, cut.reason) for cut in record.cuts] == [(5, 5, CUT_LINK_LOST)]
    assert path.missed == [(1, 9)]
    assert not made.is_time(SOURCE)
    cluster.member = SimpleNamespace(connected=True, counts=False)
    assert not made.is_time(SOURCE), "it does not serve yet: answers may lack its streams"
    cluster.member = SimpleNamespace(connected=True, counts=True)
    assert made.is_time(SOURCE)


def test_nobody_waits_for_who_has_left() -> None:
    made, cluster, path = adopting()
    path.behind[SOURCE] = {9}
    assert not made.is_time(SOURCE)
    cluster.table.entries[9].state = LEFT
    assert made.is_time(SOURCE)


def test_a_volatile_one_is_told_for_a_while_only() -> None:
    made, _, _ = adopting()
    made._miss(9, 1.0)
    early, late = Settling(None), Settling(None)
    made._adopted([publication(5, RESENT)], early)
    made.core.now = 1_000.0
    made._adopted([publication(5, RESENT)], late)
    assert early.cuts and not late.cuts
