"""How a broker stops: clients are sent to its neighbours, what they published is waited for, then it ends.

Nothing settled can be lost by stopping, since what is not settled is kept by whoever sent it; waiting makes
the stop quiet, and is limited. The tree is left as it is: neighbours keep what is for this broker for
`links.lost_after_s`, and a restart within that time goes on where it was. A second signal does not wait.
"""

from __future__ import annotations

from daemon.logs import log
from overlay.core import Core

LOOK_S = 0.02


class Stopping:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.asked = 0
        self.over = False
        self._deadline = 0.0

    def ask(self, now: float, limit_s: float) -> None:
        self.asked += 1
        if self.asked > 1:
            self.over = True
            return
        self._deadline = now + limit_s
        log.info("stopping: waiting up to %g s for what was accepted to settle", limit_s)
        self.core.drain(now)

    def __call__(self, now: float) -> float:
        """Called at intervals."""
        if self.asked and (self.settled() or now >= self._deadline):
            self.over = True
        return now + LOOK_S if self.asked else now + 3600.0

    def settled(self) -> bool:
        """Whether everything that our clients sent or are to get is acknowledged."""
        return not any(
            client.incoming.records
            or (client.link is not None and client.deliveries.in_flight and not client.deliveries.stalled)
            for client in self.core.numbered.values()
        )
