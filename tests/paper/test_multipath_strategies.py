"""Forwarding strategies of the soft links' paper, sections 2 and 5, figure 2."""

from __future__ import annotations

from random import Random

import pytest

from overlay.softlinks.strategies import (
    choose_links_s0,
    choose_links_s1,
    choose_links_s2,
    choose_links_sd,
    choose_links_sh,
)
from overlay.softlinks.working import WorkingOverlayMap
from tests.paper.multipath import Tree

FIGURE = Tree("A-N1 N1-N2 N2-N3 N2-N4 N4-N5 N4-N6")
MATCHING = "N3 N5 N6"


def sent(map: WorkingOverlayMap, places: list[int]) -> set[str]:
    return FIGURE.names(map.brokers[place] for place in places)


def test_s0_sends_one_copy_to_the_next_broker() -> None:
    """Figure 2(a): A sends p to N1, whether anybody there wants it or not."""
    map = FIGURE.working("A", 4, "N1")
    assert sent(map, choose_links_s0(map, map.anchors(FIGURE.ids(MATCHING)))) == {"N1"}


def test_s1_sends_to_the_farthest_broker_on_all_paths() -> None:
    """Figure 2(b): the paths to N3, N5, N6 share N1 and N2; p goes to N2 and past N1."""
    map = FIGURE.working("A", 4, "N1 N2 N3 N5 N6")
    anchors = map.anchors(FIGURE.ids(MATCHING))
    assert sent(map, choose_links_s1(map, anchors)) == {"N2"}


def test_s1_at_n2_sends_to_n3_and_n4() -> None:
    """Figure 2(b): "N2 will then be responsible to forward p to N3 and N4"."""
    map = FIGURE.working("N2", 4, "N1 N3 N4")
    assert sent(map, choose_links_s1(map, map.anchors(FIGURE.ids(MATCHING)))) == {"N3", "N4"}


def test_s2_sends_to_the_matching_brokers_themselves() -> None:
    """Figure 2(c): separate copies to N3, N5 and N6."""
    map = FIGURE.working("A", 4, "N1 N2 N3 N5 N6")
    assert sent(map, choose_links_s2(map, map.anchors(FIGURE.ids(MATCHING)))) == {"N3", "N5", "N6"}


def test_s2_leaves_what_is_behind_another_anchor_to_it() -> None:
    """Section 5: anchors with a closer reachable anchor on their primary path are left out."""
    map = FIGURE.working("A", 4, "N1 N2 N3 N5 N6")
    assert sent(map, choose_links_s2(map, map.anchors(FIGURE.ids("N2 N5 N6")))) == {"N2"}


def test_sh_is_s1_above_its_share_of_the_uplink_and_s2_below() -> None:
    """Section 5: "a threshold (e.g., 80% of their uplink capacity)"."""
    map = FIGURE.working("A", 4, "N1 N2 N3 N5 N6")
    anchors = map.anchors(FIGURE.ids(MATCHING))
    assert choose_links_sh(map, anchors, 0.79) == choose_links_s2(map, anchors)
    assert choose_links_sh(map, anchors, 0.81) == choose_links_s1(map, anchors)


def test_sd_serves_every_anchor_directly_and_excludes_it_from_nearer_copies() -> None:
    """Ours: p matches N4 (no link: served by N2) and N5, N6 (linked): N2's copy names N3, N5 and N6."""
    map = FIGURE.working("A", 4, "N1 N2 N3 N5 N6")
    chosen = choose_links_sd(map, map.anchors(FIGURE.ids("N4 N5 N6")))
    named = {FIGURE.name[map.brokers[place]]: sent(map, excluded) for place, excluded in chosen}
    assert named == {"N2": {"N3", "N5", "N6"}, "N5": set(), "N6": set()}


def test_sd_names_the_nearest_excluded_brokers_alone() -> None:
    """Naming a broker excludes all behind it."""
    map = FIGURE.working("A", 4, "N1 N4 N5")
    chosen = choose_links_sd(map, map.anchors(FIGURE.ids("N3")))
    assert [(sent(map, [place]), sent(map, excluded)) for place, excluded in chosen] == [({"N1"}, {"N4"})]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("strategy", ["S1", "S2", "SD"])
def test_every_anchor_is_served_once(seed: int, strategy: str) -> None:
    """On random trees and links: each matching broker lies beyond exactly one copy (SD: and outside what that
    copy excludes), and S1 never sends more copies than S2."""
    random = Random(seed)
    edges = " ".join(f"b{random.randrange(n):02}-b{n:02}" for n in range(1, 50))
    tree = Tree(edges)
    here = random.choice(list(tree.id))
    master = tree.master(here, 4)
    primary = [tree.id[n] for n in tree.beside[here]]
    map = WorkingOverlayMap(master, {*primary, *random.sample(sorted(master.via), len(master) // 3)})
    matching = random.sample(sorted(master.via), min(6, len(master)))
    anchors = map.anchors(matching)
    if strategy == "SD":
        copies = [(map.brokers[n], [map.brokers[e] for e in out]) for n, out in choose_links_sd(map, anchors)]
    else:
        choose = choose_links_s1 if strategy == "S1" else choose_links_s2
        copies = [(map.brokers[n], []) for n in choose(map, anchors)]
    for broker in matching:
        path = master.path(broker)
        serving = [hop for hop, out in copies if hop in path and not {*out} & {*path}]
        assert len(serving) == 1, (broker, copies)
    assert len(choose_links_s1(map, anchors)) <= len(choose_links_s2(map, anchors))
