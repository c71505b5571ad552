"""Mistakes of healing (overlay/tree/healing.py, granting.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overlay.data.reroute import let_go
from overlay.tree.announcements import Announcements
from overlay.tree.granting import Granting
from overlay.tree.healing import Healing
from overlay.tree.peer import Peer

Replacement = tuple[Any, str, Any]


def _grants_while_it_dials() -> list[Replacement]:
    """A root that looks for a parent grants all the same, and goes on looking."""
    return [
        (Healing, "_yields", lambda self, asker, now: True),
        (Granting, "locked", lambda self, now: False),
    ]


def _held_is_forgotten() -> list[Replacement]:
    """What was for those behind a broker that is gone round counts as settled."""

    def hand_on(self: Healing, gone: Peer, takers: set[Peer]) -> None:
        for peer in takers:
            self._places[peer].remove(gone)
            self._wait_behind(peer)
        let_go(gone)
        gone.epoch = 0
        self.router.subscriptions.generation += 1

    return [(Healing, "_hand_on", hand_on)]


def _covered_is_forgotten() -> list[Replacement]:
    """Only what the one that is gone round tells still is held, not what stood for others as well."""
    return [(Healing, "_cover", lambda self, gone: None)]


def _covered_anew() -> list[Replacement]:
    """When another comes back, only what has not been told since stands for those who are still away."""
    cover = Healing._cover

    def anew(self: Healing, gone: Peer) -> None:
        self.router.covered.pop(gone, None)
        cover(self, gone)

    return [(Healing, "_cover", anew)]


def _not_relayed() -> list[Replacement]:
    """Who comes in the place of one that is away tells only what is its own."""
    return [(Peer, "is_relayed", lambda self, source: False)]


def _confirmed_unasked() -> list[Replacement]:
    """Who waited for one that is away waits for nobody when others have come in its place."""
    return [(Announcements, "_wait_on", lambda self, find, number, gather: None)]


HEALING_MUTANTS: dict[str, Callable[[], list[Replacement]]] = {
    "healing-root-grants-while-dialling": _grants_while_it_dials,
    "healing-held-forgotten": _held_is_forgotten,
    "healing-covered-forgotten": _covered_is_forgotten,
    "healing-covered-anew": _covered_anew,
    "healing-told-not-relayed": _not_relayed,
    "healing-confirmed-unasked": _confirmed_unasked,
}
