"""The path of one publication, with the reason at every broker on it.

The question travels exactly as the publication would: each broker decides, asks the neighbours it would
send to, and answers with its own row and theirs. Nothing is published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from grapevine.wire.limits import HOPS
from grapevine.wire.messages import TraceAnswer, TraceRequest
from overlay.administration.census import MARGIN, MISSING_MAX, bounded, read_reports
from overlay.administration.reports import Row
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.gather import PATIENCE_S, Gather
from overlay.links.session import Remote, Session

DUPLICATE = "duplicate"
LEGS = (1, 0)
OPEN_MAX = 1_000  # traces under way at one broker
Finished = Callable[[tuple[bytes, ...], tuple[str, ...], float], None]


class Decision(Protocol):
    """What this broker would do: its row, and who would get the publication from here, each with whom its
    copy excludes."""

    row: Row
    onward: dict[Remote, tuple[int, ...]]


Decide = Callable[[Session | None, TraceRequest], Decision]
Leg = Callable[[TraceRequest], int]  # a way may pass a broker once on each of its legs


class Trace(Quiet):
    def __init__(self, decide: Decide, leg: Leg = lambda request: 0) -> None:
        self.decide = decide
        self.leg = leg
        self._number = 0
        self._open: dict[tuple[int, int, int, int], Gather] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(TraceRequest, self.on_request)
        core.on(TraceAnswer, self.on_answer)

    def ask(
        self,
        attributes: bytes,
        client: Session | None,
        now: float,
        done: Callable[[list[Row], float], None],
        deadline_s: float,
    ) -> None:
        """Trace from here, as if `client` published it, or somebody who may."""
        self._number += 1
        core = self.core
        request = TraceRequest(core.id, core.incarnation, self._number, attributes, 0, deadline_s)

        def finished(reports: tuple[bytes, ...], missing: tuple[str, ...], later: float) -> None:
            rows = read_reports(reports)
            rows += [{"broker": name, "missing": True} for name in missing]
            done(rows, later)

        self._follow(request, client, finished, now)

    def on_request(self, peer: Remote, request: TraceRequest, now: float) -> None:
        link = peer.link

        def finished(reports: tuple[bytes, ...], missing: tuple[str, ...], later: float) -> None:
            if link is not None and peer.link is link:
                answer = TraceAnswer(request.origin, request.incarnation, request.number, reports, missing)
                self.core.send(answer, link)

        self._follow(request, peer, finished, now)

    def on_answer(self, peer: Remote, answer: TraceAnswer, now: float) -> None:
        for leg in LEGS:  # the later leg's answers come first: the earlier one waits for it
            gather = self._open.get((answer.origin, answer.incarnation, answer.number, leg))
            if gather is not None and peer in gather.parts:
                gather.answer(peer, answer, now)
                return

    def _follow(self, request: TraceRequest, side: Session | None, finished: Finished, now: float) -> None:
        key = (request.origin, request.incarnation, request.number, self.leg(request))
        if key in self._open or len(self._open) >= OPEN_MAX:
            finished((self._again(request, side),), (), now)
            return
        decision = self.decide(side, request)

        def done(gather: Gather, later: float) -> None:
            self._open.pop(key, None)
            reports = [msgspec.json.encode(decision.row)]
            missing = [peer.name for peer in gather.missing]
            for answer in gather.answers:
                reports += answer.reports
                missing += answer.missing
            finished(bounded(reports), tuple(missing[:MISSING_MAX]), later)

        gather = self._open[key] = Gather(done)
        for peer in decision.onward:
            gather.wait_for(peer)
        gather.deadline = self.core.timers.at(now + min(request.deadline_s, PATIENCE_S), gather.expire)
        hops, deadline_s = min(request.hops + 1, HOPS), request.deadline_s * MARGIN
        for peer, excluded in decision.onward.items():
            onward = msgspec.structs.replace(request, hops=hops, deadline_s=deadline_s, excluded=excluded)
            self.core.tell(onward, peer)
        gather.start(now)

    def _again(self, request: TraceRequest, side: Session | None) -> bytes:
        """On a cycle the question comes round: the publication would be dropped as a duplicate."""
        row = {"id": self.core.id, "broker": self.core.name, "hops": request.hops, "verdict": DUPLICATE}
        row |= {"from": side.name if side is not None else None, "neighbours": [], "clients": []}
        return msgspec.json.encode(row)

    def validate(self) -> None:
        assert len(self._open) <= OPEN_MAX
