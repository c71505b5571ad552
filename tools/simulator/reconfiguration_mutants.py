"""Named mistakes of a reconfiguration (mutants.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overlay.chord import planes as planes_module
from overlay.chord.participation import Participation
from overlay.chord.planes import Planes
from overlay.coordinate.attempt import Attempt
from overlay.coordinate.manager import Manager
from overlay.data.reroute import let_go

Replacement = tuple[Any, str, Any]


def _finish_before_journal() -> list[Replacement]:
    """The decision is said and not kept: a manager that restarts aborts what others have finished."""

    def decide(self: Manager, attempt: Attempt, now: float) -> None:
        attempt.decided = True

    return [(Manager, "_decide", decide)]


def _dropped_early() -> list[Replacement]:
    """Nobody waits for what is under way in the old plane, and it goes with the plane."""

    def evacuate(old: Any, new: Any, now: float) -> None:
        for peer in old.core.peers.values():
            for lane in old.lanes(peer):
                let_go(lane)

    left_behind = property(lambda self: self.switched)
    return [(Planes, "left_behind", left_behind), (planes_module, "evacuate", evacuate)]


def _enters_unsettled() -> list[Replacement]:
    """A client's publications enter the next plane while older ones are under way in the old."""
    return [(Planes, "_may_enter", lambda self, client: True)]


def _wants_not_said() -> list[Replacement]:
    """The third step is acknowledged before the roots of the next plane know what is wanted."""
    real = Participation._is_done

    def is_done(self: Participation, running: Any) -> bool:
        return True if running.step == 165 and self.planes.next is not None else real(self, running)

    return [(Participation, "_is_done", is_done)]


RECONFIGURATION_MUTANTS: dict[str, Callable[[], list[Replacement]]] = {
    "reconfiguration-unjournalled": _finish_before_journal,
    "reconfiguration-dropped-early": _dropped_early,
    "reconfiguration-enters-unsettled": _enters_unsettled,
    "reconfiguration-wants-not-said": _wants_not_said,
}
