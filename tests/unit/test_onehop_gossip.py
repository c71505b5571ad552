"""Gossip: digests find what each side lacks, and a change is soon with everybody."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grapevine.wire.onehop import DEAD, SERVING, Entry
from overlay.onehop.gossip import digest, entries_for, merge, owners_wanted, partners, rounds_bar

SEEDS = 1000


def entry(owner: int, incarnation: int, version: int, state: int = SERVING) -> Entry:
    return Entry(owner, incarnation, version, (), f"m{owner}", (), state)


def known() -> st.SearchStrategy[dict[int, Entry]]:
    number = st.integers(0, 3)
    some = st.builds(entry, number, number, number, st.sampled_from((SERVING, DEAD)))
    return st.lists(some, max_size=6).map(lambda found: {one.owner: one for one in found})


@given(known(), known())
def test_one_exchange_leaves_both_with_the_newest_of_each(
    mine: dict[int, Entry], theirs: dict[int, Entry]
) -> None:
    ranks = [(e.incarnation, e.version, e.state == DEAD, e.owner) for e in (*mine.values(), *theirs.values())]
    answer = entries_for(theirs, digest(mine))
    wanted = owners_wanted(theirs, digest(mine))
    merge(theirs, [mine[owner] for owner in wanted])
    merge(mine, answer)
    assert digest(mine) == digest(theirs)
    for owner, one in mine.items():
        assert (one.incarnation, one.version, one.state == DEAD, owner) == max(
            r for r in ranks if r[3] == owner
        )


def rounds_to_all(members: int, seed: int) -> int:
    """One change at one member; everybody sends one digest a round, in some order."""
    chance = Random(seed)
    tables = [{0: entry(0, 1, 1)} for _ in range(members)]
    tables[chance.randrange(members)][0] = entry(0, 1, 2)
    rounds = 0
    while any(table[0].version == 1 for table in tables):
        rounds += 1
        for one in chance.sample(range(members), members):
            (other,) = partners([m for m in range(members) if m != one], 1, chance)
            mine, theirs = tables[one], tables[other]
            wanted = owners_wanted(theirs, digest(mine))
            answer = entries_for(theirs, digest(mine))
            merge(theirs, [mine[owner] for owner in wanted])
            merge(mine, answer)
    return rounds


@pytest.mark.parametrize("members", [5, 20])
def test_a_change_is_everywhere_in_two_log_n_and_two_rounds(members: int) -> None:
    """III-C: about log N rounds. Bar: 2 log2 N + 2 in 99 of 100 of a thousand seeds."""
    late = sum(rounds_to_all(members, seed) > rounds_bar(members) for seed in range(SEEDS))
    assert late <= SEEDS // 100


def test_log_fanout_is_the_other_rule() -> None:
    assert len(partners(range(19), "log", Random(1))) == 5 and len(partners(range(19), 1, Random(1))) == 1
    assert partners([], "log", Random(1)) == []
