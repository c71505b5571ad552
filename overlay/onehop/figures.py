"""What a member counts: for metrics, and where an operator looks at one broker. Nothing here takes long."""

from __future__ import annotations

from grapevine.wire.onehop import DISPATCHER
from overlay.administration.reports import Row
from overlay.onehop.asking import Asking
from overlay.onehop.cluster import Cluster
from overlay.onehop.handover import Handover
from overlay.onehop.matcher import Matching
from overlay.onehop.placing import Placing
from overlay.onehop.segments import is_gone
from overlay.onehop.watching import Watching


class Figures:
    def __init__(self, cluster: Cluster, placing: Placing, asking: Asking, watching: Watching) -> None:
        self.cluster, self.placing, self.asking, self.watching = cluster, placing, asking, watching
        self.matching: Matching | None = None  # of a matcher
        self.handover: Handover | None = None

    def row(self) -> Row:
        entries = list(self.cluster.table.entries.values())
        found: Row = {"members": sum(not is_gone(entry) for entry in entries)}
        if self.cluster.roles & DISPATCHER:
            found |= self._dispatcher()
        if self.matching is not None:
            found |= self._matcher(self.matching)
        return found

    def _dispatcher(self) -> Row:
        asking = self.asking
        return {
            "saturated": self.watching.saturated,
            "asked": asking.asked,
            "asked_again": asking.again,
            "rejected": asking.rejected,
            "waiting": asking.waiting,
            "response_s": asking.response_s,
            "broad": self.placing.broad,
        }

    def _matcher(self, matching: Matching) -> Row:
        return {
            "copies": sum(len(home.copies) for home in list(matching.sets.homes.values())),
            "spares": matching.sets.spares,
            "answered": matching.answered,
            "refused": matching.refused,
            "backlog_s": matching.load().backlog_s,
            "taking": len(matching.growths),
            "moves": 0 if self.handover is None else self.handover.moves,
        }
