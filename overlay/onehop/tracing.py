"""What a member would do with a publication, and why: a dispatcher's candidates, its choice, the reason.

A matcher is asked next and says at which homes somebody matches, by the first of its sets that covers the
value; those say who.
"""

from __future__ import annotations

from collections import Counter

from grapevine.filters.evaluate import matches
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.messages import TraceRequest
from matching.interface import Attributes
from overlay.administration.reports import Row
from overlay.core import Core
from overlay.links.session import Remote, Session
from overlay.onehop.asking import Asking
from overlay.onehop.cluster import Cluster
from overlay.onehop.matcher import Matching
from overlay.onehop.placing import Placing
from overlay.onehop.policies import SCORES, Policy, pick_matcher
from overlay.onehop.segments import Candidate, owns
from overlay.onehop.values import values_of


class OneHopDecision:
    def __init__(self, row: Row) -> None:
        self.row = row
        self.onward: dict[Remote, tuple[int, ...]] = {}


class OneHopDecisions:
    def __init__(self, core: Core, cluster: Cluster, placing: Placing, asking: Asking) -> None:
        self.core, self.cluster, self.placing, self.asking = core, cluster, placing, asking
        self.matching: Matching | None = None  # of a matcher

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
        if not isinstance(side, Remote):
            self._deliver(row, content)
            self._choose(decision, content)
        elif self.matching is not None and request.hops == 1:
            row["verdict"] = self._find(decision, content, request.origin, self.matching)
        else:
            self._deliver(row, content)
            row["verdict"] = "delivers"
        return decision

    def _deliver(self, row: Row, content: Attributes) -> None:
        """To clients here that want it."""
        wanting = Counter(
            mine.client.name for mine in self.placing.subscriptions.values() if matches(mine.filter, content)
        )
        row["clients"] = [{"name": n, "count": c, "subscriptions": []} for n, c in wanting.items()]
        row["client_count"] = len(wanting)

    def _choose(self, decision: OneHopDecision, content: Attributes) -> None:
        row, asking, core = decision.row, self.asking, self.core
        candidates = self.cluster.table.candidates(values_of(content, self.cluster.table.dimensions))
        row["candidates"] = [self._candidate(one) for one in candidates]
        if not candidates:
            row["verdict"] = "uncovered: no matcher owns a value of it"
            return
        chosen = pick_matcher(asking.policy, candidates, asking.reporting.loads, core.now, core.random)
        row["verdict"] = (
            f"asks {self._name(chosen.matcher)} for {self.cluster.table.dimensions[chosen.dimension]};"
            f" candidates {', '.join(map(_words, row['candidates']))}; {_reason(asking.policy)}"
        )
        member = self.cluster.get(chosen.matcher)
        if member is self.cluster.itself and self.matching is not None:
            row["verdict"] += f"; {self._find(decision, content, core.id, self.matching)}"
        elif member is not None and member.reachable:
            decision.onward[member] = ()

    def _find(self, decision: OneHopDecision, content: Attributes, asker: int, matching: Matching) -> str:
        """The homes of who matches hear of it next."""
        segments = self.cluster.own.segments
        values = values_of(content, matching.dimensions)
        owned = [d for d, value in enumerate(values) if owns(segments[d], value)]
        found = matching.sets.match(owned[0], [(0, content)]) if owned else ()
        names = [self._name(one.home) for one in found]
        for one in found:
            member = self.cluster.get(one.home)
            if one.home not in (asker, self.core.id) and member is not None and member.reachable:
                decision.onward[member] = ()
            elif one.home == self.core.id != asker:
                self._deliver(decision.row, content)
        return f"finds clients of {', '.join(names)}" if names else "finds nobody"

    def _name(self, member: int) -> str:
        return self.core.names.get(member, str(member))

    def _candidate(self, candidate: Candidate) -> Row:
        load = self.asking.reporting.loads.get(candidate.matcher)
        score = SCORES.get(self.asking.policy)
        known = load is not None and score is not None
        return {
            "matcher": self._name(candidate.matcher),
            "dimension": self.cluster.table.dimensions[candidate.dimension],
            "score": score(candidate, load, self.core.now) if known else None,  # type: ignore[misc, arg-type]
        }


def _words(candidate: Row) -> str:
    score = "" if candidate["score"] is None else f" ({candidate['score']:.3g})"
    return f"{candidate['matcher']} for {candidate['dimension']}{score}"


def _reason(policy: Policy) -> str:
    return "policy random" if policy == "random" else f"policy {policy}: the least"
