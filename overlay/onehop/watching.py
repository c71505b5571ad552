"""Is the cluster saturated? Response times grow by a line, and every matcher has work waiting (IV-B, IV-E).

It says so and asks for a matcher; a person or a tool adds one.
"""

from __future__ import annotations

from collections import deque

from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.onehop.asking import Asking
from overlay.onehop.cluster import Cluster
from overlay.onehop.loads import Known, backlogs
from overlay.onehop.reporting import Reporting
from overlay.onehop.saturation import saturated

SAMPLE_S = 1.0
SAMPLES = 30


class Watching(Quiet):
    name = "saturation"

    def __init__(self, cluster: Cluster, asking: Asking, reporting: Reporting) -> None:
        self.cluster, self.asking, self.reporting = cluster, asking, reporting
        self.saturated = False
        self._looked_at = 0.0
        reporting.rounds.append(self._look)
        self._responses: deque[tuple[float, float]] = deque(maxlen=SAMPLES)

    def attach(self, core: Core) -> None:
        self.core = core

    def _look(self, now: float) -> None:
        if now - self._looked_at < 0.9 * SAMPLE_S:  # reports may come more often
            return
        self._looked_at = now
        self._responses.append((now, self.asking.response_s))
        matchers = {entry.owner for entry in self.cluster.table.serving}
        known = {m: Known(self.reporting.report(m), load.at) for m, load in self.reporting.loads.items()}
        waiting = [backlog for m, backlog in backlogs(known, now).items() if m in matchers]
        before, self.saturated = self.saturated, saturated(self._responses, waiting)
        if self.saturated and not before:
            text = "saturated: answers take longer and longer and every matcher has work; add one"
            self.core.event(now, "saturated", text, "warn", response_ms=1000 * self.asking.response_s)
        elif before and not self.saturated:
            self.core.event(now, "saturated.ended", "answers do not take longer any more")

    def status(self) -> Status:
        return {"saturated": self.saturated}
