"""Nothing newer of a publisher and topic comes to whom a durable publication did not reach."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from grapevine.wire.messages import CUT_LINK_LOST, DURABLE, OLDEST, Publication
from overlay.chord.behind import Behind
from overlay.links.settling import Settling

TOPIC = 7


def behind() -> Behind:
    found = Behind(lambda attributes: TOPIC)
    core: Any = SimpleNamespace(now=0.0)
    found.attach(core)
    return found


def publication(sequence: int, flags: int = DURABLE) -> Publication:
    return Publication(b"", b"", sequence, flags, 1, 1)


def test_down_it_is_kept_from_those_who_lack_an_older_one() -> None:
    found, record = behind(), Settling(None)
    found.heard(publication(5), (10,), CUT_LINK_LOST)
    assert [targets for _, targets in found.split([publication(6)], (10, 20), record, 0.0)] == [(20,)]
    assert [cut.first for cut in record.cuts] == [6]


def test_what_waited_for_a_new_root_does_not_go_to_it_before_what_was_cut_here() -> None:
    """The old root knew whom it had missed; the new one, the home of a stream itself, did not."""
    found = behind()
    found.heard(publication(5), (10,), CUT_LINK_LOST)
    assert len(found.goes_on([publication(6)], TOPIC, Settling(None), 0.0, leaves=False)) == 1
    assert not found.goes_on([publication(6)], TOPIC, Settling(None), 0.0, leaves=True)


def test_the_first_of_a_replay_ends_it() -> None:
    found = behind()
    found.heard(publication(5), (), CUT_LINK_LOST)
    found.come_by([publication(5, DURABLE | OLDEST)])
    assert not found
