"""What a member would do with a publication, and why: a dispatcher's candidates, its choice, the reason.

A matcher is asked next and says who matches by its set of that dimension.
"""

from __future__ import annotations

from grapevine.wire import WireError, decode_attributes
from grapevine.wire.messages import TraceRequest
from overlay.administration.reports import Row
from overlay.core import Core
from overlay.links.session import Remote, Session
from overlay.onehop.asking import Asking
from overlay.onehop.cluster import Cluster
from overlay.onehop.policies import SCORES, pick_matcher
from overlay.onehop.segments import Candidate
from overlay.onehop.values import values_of


class OneHopDecision:
    def __init__(self, row: Row) -> None:
        self.row = row
        self.onward: dict[Remote, tuple[int, ...]] = {}


class OneHopDecisions:
    def __init__(self, core: Core, cluster: Cluster, asking: Asking) -> None:
        self.core, self.cluster, self.asking = core, cluster, asking

    def decide(self, side: Session | None, request: TraceRequest) -> OneHopDecision:
        core = self.core
        decision = OneHopDecision({"id": core.id, "broker": core.name, "hops": request.hops, "verdict": ""})
        row = decision.row
        row["from"] = side.name if isinstance(side, Remote) else None
        row["neighbours"], row["clients"] = [], []
        try:
            content = decode_attributes(request.attributes)
        except WireError:
            row["verdict"] = "malformed"
            return decision
        if isinstance(side, Remote):
            row["verdict"] = "asked"
            return decision
        values = values_of(content, self.cluster.table.dimensions)
        candidates = self.cluster.table.candidates(values)
        row["candidates"] = [self._candidate(one) for one in candidates]
        if not candidates:
            row["verdict"] = "uncovered"
            return decision
        asking = self.asking
        chosen = pick_matcher(asking.policy, candidates, asking.reporting.loads, core.now, core.random)
        row["verdict"] = f"asks {core.names.get(chosen.matcher, '')} by {asking.policy}"
        member = self.cluster.get(chosen.matcher)
        if member is not None and member is not self.cluster.itself and member.reachable:
            decision.onward[member] = ()
        return decision

    def _candidate(self, candidate: Candidate) -> Row:
        load = self.asking.reporting.loads.get(candidate.matcher)
        score = SCORES.get(self.asking.policy)
        known = load is not None and score is not None
        return {
            "matcher": self.core.names.get(candidate.matcher, str(candidate.matcher)),
            "dimension": self.cluster.table.dimensions[candidate.dimension],
            "score": score(candidate, load, self.core.now) if known else None,  # type: ignore[misc, arg-type]
        }
