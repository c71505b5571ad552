"""SPEC T8: one broker answers for the whole overlay.

A question goes down every link but the one it came by; each broker adds its own report to those of its
neighbours. A neighbour that does not answer in time is named as missing. What no longer fits into one
frame is left out and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from grapevine.wire.identity import identify
from grapevine.wire.messages import CensusAnswer, CensusRequest
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.gather import PATIENCE_S, Gather
from overlay.links.session import Peer

Report = dict[str, Any]
MARGIN = 0.9  # of its own time a broker leaves to the next
ANSWER_BYTES = 8 * 1024 * 1024
OPEN_MAX = 4096  # questions at a time
REPORT_SPARE = 128  # so that the shortest are not too many for one message
MISSING_MAX = 4096  # names in an answer


class Census(Quiet):
    def __init__(self) -> None:
        self.reporters: dict[str, Callable[[bytes], Report | None]] = {"name": self._namesake}
        self._number = 0
        self._open: dict[tuple[int, int, int], Gather] = {}

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(CensusRequest, self.on_request)
        core.on(CensusAnswer, self.on_answer)

    @staticmethod
    def identify(name: str) -> int:
        return identify(name)

    def _namesake(self, name: bytes) -> Report | None:
        """Only who is asked for answers: else a large overlay would list itself for everybody who joins."""
        return self.brief() if name == self.core.name.encode() else None

    def brief(self) -> Report:
        return {"id": self.core.id, "name": self.core.name, "incarnation": self.core.incarnation}

    def ask(
        self,
        question: str,
        through: Peer | None,
        now: float,
        done: Callable[[list[Report], float], None],
        argument: bytes = b"",
        deadline_s: float = 5.0,
    ) -> None:
        """Ask everybody behind `through`, or the whole overlay including this broker."""
        self._number += 1
        core = self.core
        request = CensusRequest(core.id, core.incarnation, self._number, question, argument, deadline_s)
        others = [through] if through is not None else list(core.peers.values())
        own = None if through is not None else self._report(request)

        def finished(reports: tuple[bytes, ...], missing: tuple[str, ...], later: float) -> None:
            decoded = read_reports(reports)
            decoded += [{"id": identify(name), "name": name, "missing": True} for name in missing]
            done(decoded, later)

        self._spread(request, others, own, finished, now)

    def on_request(self, peer: Peer, request: CensusRequest, now: float) -> None:
        others = [other for other in self.core.peers.values() if other is not peer]
        link = peer.link

        def finished(reports: tuple[bytes, ...], missing: tuple[str, ...], later: float) -> None:
            if link is not None and peer.link is link:
                answer = CensusAnswer(request.origin, request.incarnation, request.number, reports, missing)
                self.core.send(answer, link)

        self._spread(request, others, self._report(request), finished, now)

    def on_answer(self, peer: Peer, answer: CensusAnswer, now: float) -> None:
        gather = self._open.get((answer.origin, answer.incarnation, answer.number))
        if gather is not None:
            gather.answer(peer, answer, now)

    def _report(self, request: CensusRequest) -> bytes | None:
        reporter = self.reporters.get(request.question)
        report = reporter(request.argument) if reporter is not None else self.brief()
        return None if report is None else msgspec.json.encode(report)

    def _spread(
        self,
        request: CensusRequest,
        others: list[Peer],
        own: bytes | None,
        finished: Callable[[tuple[bytes, ...], tuple[str, ...], float], None],
        now: float,
    ) -> None:
        key = (request.origin, request.incarnation, request.number)
        if key in self._open or len(self._open) >= OPEN_MAX:
            # On a cycle the question comes round: it is being answered.
            finished((), (), now)
            return

        def done(gather: Gather, later: float) -> None:
            self._open.pop(key, None)
            reports = [] if own is None else [own]
            missing = [peer.name for peer in gather.missing]
            for answer in gather.answers:
                reports += answer.reports
                missing += answer.missing
            finished(bounded(reports), tuple(missing[:MISSING_MAX]), later)

        gather = self._open[key] = Gather(done)
        asked = [peer for peer in others if peer.link is not None]
        for peer in asked:
            gather.wait_for(peer)
        gather.missing += [peer for peer in others if peer.link is None]
        gather.deadline = self.core.timers.at(now + min(request.deadline_s, PATIENCE_S), gather.expire)
        onward = msgspec.structs.replace(request, deadline_s=request.deadline_s * MARGIN)
        if asked:
            self.core.tell(onward, *asked)
        gather.start(now)


def bounded(reports: list[bytes]) -> tuple[bytes, ...]:
    """Those that fit into one answer, and one that says how many did not."""
    room = ANSWER_BYTES
    for count, report in enumerate(reports):
        room -= len(report) + REPORT_SPARE
        if room < 0:
            rest = {"id": 0, "name": "", "left_out": len(reports) - count}
            return (*reports[:count], msgspec.json.encode(rest))
    return tuple(reports)


def read_reports(reports: tuple[bytes, ...]) -> list[Report]:
    """What other brokers wrote; what is not an object of one of them is passed over."""
    found = []
    for report in reports:
        try:
            content = msgspec.json.decode(report, type=Report)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        if "id" in content:
            found.append(content)
    return found
