"""Two neighbours tell us the same thing: whose word counts, and from when."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from grapevine.filters import EVERYTHING
from grapevine.wire.messages import Subscription
from overlay.core import Core
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings
from overlay.tree.peer import Peer
from overlay.tree.table import Change, Table

KEY = (1, 1)
WORD = Subscription(9, 1, 9, (9,), EVERYTHING)


@pytest.fixture
def core() -> Core:
    return tree_broker("b0", 1, CoreSettings(), Random(0), ("test://b0",))


def neighbour(core: Core, number: int, *, linked: bool, synced: bool, ever: bool) -> Peer:
    peer = Peer(core, number, f"b{number}")
    link: Any = object()  # only whether there is one is looked at
    peer.link = link if linked else None
    peer.synced_by_peer, peer.ever_synced = synced, ever
    return peer


def told_by_both(
    core: Core, old: dict[str, bool], new: dict[str, bool]
) -> tuple[Table[Subscription], Peer, Peer, Change]:
    table: Table[Subscription] = Table()
    first, second = neighbour(core, 1, **old), neighbour(core, 2, **new)
    table.learn(KEY, WORD, first)
    _, change = table.learn(KEY, WORD, second)
    return table, first, second, change


SYNCED = {"linked": True, "synced": True, "ever": True}
FRESH = {"linked": True, "synced": False, "ever": False}
BROKEN = {"linked": False, "synced": False, "ever": True}
BACK = {"linked": True, "synced": False, "ever": True}


@pytest.mark.parametrize(
    ("old", "new", "yields"),
    [
        (SYNCED, SYNCED, False),
        (SYNCED, FRESH, False),
        (BROKEN, SYNCED, True),
        (BROKEN, FRESH, False),  # it may repeat what somebody heard from us
        (FRESH, SYNCED, True),  # so may the old one, who gets no publication before its SyncDone
        (FRESH, FRESH, False),
        (BACK, SYNCED, False),
    ],
)
def test_whose_word_counts(core: Core, old: dict[str, bool], new: dict[str, bool], yields: bool) -> None:
    table, first, second, change = told_by_both(core, old, new)
    entry = table.by_key[KEY]
    assert (change is Change.MOVED) == yields
    assert entry.source is (second if yields else first)
    assert (first.shadows, second.shadows) == ((1, 0) if yields else (0, 1))


@pytest.mark.parametrize(("new", "yields"), [(SYNCED, True), (FRESH, False), (BROKEN, False)])
def test_what_a_neighbour_no_longer_says_is_anothers_to_say(
    core: Core, new: dict[str, bool], yields: bool
) -> None:
    """Its link has come back and its tables are in, its SyncDone is not: that may wait for us."""
    table: Table[Subscription] = Table()
    old, other = neighbour(core, 1, **SYNCED), neighbour(core, 2, **new)
    entry, _ = table.learn(KEY, WORD, old)
    old.begin_sync()
    assert not table.outdated(old)
    old.tables_received = True
    assert (table.learn(KEY, WORD, other)[1] is Change.MOVED) == yields
    assert table.outdated(old) == ([entry] if yields else [])


@pytest.mark.parametrize("first", [False, True])
def test_or_of_one_who_is_on_the_way_there_by_the_edges(core: Core, first: bool) -> None:
    """Its SyncDone may wait for ours, and ours for that of the neighbour whose word is old; whichever comes
    first."""
    table: Table[Subscription] = Table()
    old, other = neighbour(core, 1, **SYNCED), neighbour(core, 2, **FRESH)
    table.leads = lambda peer, home: peer is other and home == WORD.home
    entry, _ = table.learn(KEY, WORD, old)
    old.begin_sync()
    if first:
        assert table.learn(KEY, WORD, other)[1] is Change.SAME  # nobody knows yet what the old one will say
    old.tables_received = True
    if not first:
        assert table.learn(KEY, WORD, other)[1] is Change.MOVED
    assert table.outdated(old) == [entry]


def test_a_word_that_is_said_again_stands(core: Core) -> None:
    table: Table[Subscription] = Table()
    old, other = neighbour(core, 1, **SYNCED), neighbour(core, 2, **SYNCED)
    table.learn(KEY, WORD, old)
    table.learn(KEY, WORD, other)
    old.begin_sync()
    old.tables_received = True
    table.learn(KEY, WORD, old)
    assert not table.outdated(old) and table.by_key[KEY].source is old


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize(("state", "heir", "yields"), [(FRESH, True, True), (SYNCED, False, False)])
def test_a_leavers_word_is_its_heirs(
    core: Core, state: dict[str, bool], heir: bool, yields: bool, gone: bool
) -> None:
    """Anybody else may repeat what was heard from us, and what is held for the leaver goes to the heirs."""
    table: Table[Subscription] = Table()
    leaver, new = neighbour(core, 1, **BROKEN if gone else SYNCED), neighbour(core, 2, **state)
    leaver.paused, leaver.heirs = True, (new.id,) if heir else (3,)
    table.learn(KEY, WORD, leaver)
    assert (table.learn(KEY, WORD, new)[1] is Change.MOVED) == yields


def test_a_neighbour_that_goes_has_no_say_any_more(core: Core) -> None:
    table: Table[Subscription] = Table()
    fresh, leaver = neighbour(core, 1, **FRESH), neighbour(core, 2, **SYNCED)
    leaver.paused = True
    table.learn(KEY, WORD, fresh)
    assert table.learn(KEY, WORD, leaver)[1] is Change.SAME
    assert table.by_key[KEY].source is fresh


def test_a_late_word_of_the_old_side_does_not_end_that_of_the_new(core: Core) -> None:
    """While a broker moves; the new side's link has not said SyncDone yet, and would yield otherwise."""
    table: Table[Subscription] = Table()
    old, new = neighbour(core, 1, **SYNCED), neighbour(core, 2, **FRESH)
    table.takes_over = lambda before, after: (before, after) == (old, new)
    table.learn(KEY, WORD, new)
    assert table.learn(KEY, WORD, old)[1] is Change.SAME
    assert table.by_key[KEY].source is new
