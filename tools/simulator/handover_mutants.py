"""Mistakes in handing clients over (mutants.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grapevine.client.session.handover import Target
from grapevine.wire import messages as wire
from overlay.handover.flush import Flush

Replacement = tuple[Any, str, Any]


def _without_flush() -> list[Replacement]:
    """Done is said when the subscriptions are confirmed, whatever is still on its way."""
    return [(Flush, "when_settled", lambda self, then, now: then(now))]


def _not_held() -> list[Replacement]:
    """What the new broker sends is taken as it comes."""
    hold = Target._hold

    def eager(self: Target, deliver: wire.Deliver, now: float) -> None:
        hold(self, deliver, now)
        self.session.incoming.take_over(
            self.session.incoming.taken, self.session.incoming.credit_granted, self.held
        )
        self.held.clear()

    return [(Target, "_hold", eager)]


HANDOVER_MUTANTS: dict[str, Callable[[], list[Replacement]]] = {
    "handover-without-flush": _without_flush,
    "handover-not-held": _not_held,
}
