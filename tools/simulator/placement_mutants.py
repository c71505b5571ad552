"""Named mistakes of placing users (mutants.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overlay.chord.clusters import Cluster, Colleague

Replacement = tuple[Any, str, Any]


def _gone_not_said() -> list[Replacement]:
    """A broker tells the topics that it has joined and not those that it has left."""
    real = Cluster._words_since

    def words(self: Cluster, since: int, added: Any, gone: Any) -> Any:
        return real(self, since, added, ())

    return [(Cluster, "_words_since", words)]


def _gaps_taken() -> list[Replacement]:
    """A difference is taken whatever it is a difference to, and nobody asks when a link is back."""
    real = Colleague.take

    def take(self: Colleague, said: Any) -> bool:
        if said.since:
            self.version = said.since
        return real(self, said)

    return [(Colleague, "take", take), (Cluster, "link_up", lambda self, session, now: None)]


PLACEMENT_MUTANTS: dict[str, Callable[[], list[Replacement]]] = {
    "placement-gone-not-said": _gone_not_said,
    "placement-gaps-taken": _gaps_taken,
}
