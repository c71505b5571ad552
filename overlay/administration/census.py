"""SPEC T8: one broker answers for the whole overlay.

The overlay says who is asked next (on a tree: all but who asked); each broker adds its own report to those of
its neighbours. A neighbour that does not answer in time is named as missing, and with it those who are known
to be behind it. One that has not been heard of since it failed to answer is asked and not waited for: a
stopped broker makes one question slow, not all of them. What no longer fits into one frame is left out and
counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from grapevine.wire.identity import identify
from grapevine.wire.messages import CensusAnswer, CensusRequest
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.gather import PATIENCE_S, Gather
from overlay.links.session import Kind, Remote, Session

Report = dict[str, Any]
# Who is asked next, and what: by the overlay. The second argument is who asked us; None: we begin.
Spread = Callable[[CensusRequest, Remote | None], list[tuple[Remote, CensusRequest]]]
MARGIN = 0.9  # of its own time a broker leaves to the next
ANSWER_BYTES = 8 * 1024 * 1024
OPEN_MAX = 4096  # questions at a time
REPORT_SPARE = 128  # so that the shortest are not too many for one message
MISSING_MAX = 4096  # names in an answer
OF_ALL = ("pulse", "broker", "ping")  # short reports; with an argument they may be meant for one
NAME = "name"  # asked before joining: a neighbour that is slow may yet know somebody of that name
OVERDUE = 1.5  # times ping_s without a word: a healthy neighbour has answered a ping by then


class Answers(NamedTuple):
    """All that came back: reports as they were written, who did not answer, who is behind these."""

    reports: tuple[bytes, ...]
    missing: tuple[str, ...]
    cut_off: tuple[str, ...]


Finished = Callable[[Answers, float], None]


class Census(Quiet):
    def __init__(self, spread: Spread) -> None:
        self.spread = spread
        self.reporters: dict[str, Callable[[bytes], Report | list[Any] | None]] = {NAME: self._namesake}
        self._number = 0
        self._open: dict[tuple[int, int, int], Gather] = {}
        self._unanswered: dict[Remote, float] = {}  # since when a neighbour owes an answer
        self.asked_at = 0.0  # the time of the question that is being answered
        self.nearby: Callable[[Remote], list[str]] = lambda peer: []  # on the map, behind a neighbour
        self._reported: dict[Remote, tuple[bytes, ...]] = {}  # the last reports of all behind a neighbour
        self._of_all: set[tuple[int, int, int]] = set()  # open questions that everybody answers

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(CensusRequest, self.on_request)
        core.on(CensusAnswer, self.on_answer)

    @staticmethod
    def identify(name: str) -> int:
        return identify(name)

    @property
    def asking(self) -> bool:
        """Whether a question of ours or of others is being answered."""
        return bool(self._open)

    def _namesake(self, name: bytes) -> Report | None:
        """Only who is asked for answers: else a large overlay would list itself for everybody who joins."""
        return self.brief() if name == self.core.name.encode() else None

    def brief(self) -> Report:
        return {"id": self.core.id, "name": self.core.name, "incarnation": self.core.incarnation}

    def ask(
        self,
        question: str,
        through: Remote | None,
        now: float,
        done: Callable[[list[Report], float], None],
        argument: bytes = b"",
        deadline_s: float = 5.0,
    ) -> None:
        """Ask everybody behind `through`, or the whole overlay including this broker."""

        def finished(answers: Answers, later: float) -> None:
            decoded = read_reports(answers.reports)
            answered = {report.get("name") for report in decoded}
            decoded += [{"id": identify(name), "name": name, "missing": True} for name in answers.missing]
            decoded += [
                {"id": identify(name), "name": name, "missing": True, "cut_off": True}
                for name in answers.cut_off
                if name not in answered
            ]
            done(decoded, later)

        self.ask_raw(question, through, now, finished, argument, deadline_s)

    def ask_raw(
        self,
        question: str,
        through: Remote | None,
        now: float,
        done: Finished,
        argument: bytes = b"",
        deadline_s: float = 5.0,
    ) -> None:
        """The same; reports are passed on as the bytes they are."""
        self._number += 1
        core = self.core
        request = CensusRequest(core.id, core.incarnation, self._number, question, argument, deadline_s)
        others = [(through, request)] if through is not None else self.spread(request, None)
        own = None if through is not None else self._report(request, now)
        self._spread(request, others, own, done, now)

    def on_request(self, peer: Remote, request: CensusRequest, now: float) -> None:
        others = self.spread(request, peer) if peer.kind is Kind.PEER else []  # beside: we alone are asked
        link = peer.link

        def finished(answers: Answers, later: float) -> None:
            if link is not None and peer.link is link:
                answer = CensusAnswer(request.origin, request.incarnation, request.number, *answers)
                self.core.send(answer, link)

        self._spread(request, others, self._report(request, now), finished, now)

    def on_answer(self, peer: Remote, answer: CensusAnswer, now: float) -> None:
        key = (answer.origin, answer.incarnation, answer.number)
        gather = self._open.get(key)
        if gather is not None:
            if key in self._of_all and peer in gather.parts:
                self._reported[peer] = answer.reports
            gather.answer(peer, answer, now)

    def behind(self, peer: Remote) -> list[str]:
        """Whom we know behind a neighbour: who was there when all were last asked, and who is on the map."""
        names = dict.fromkeys(self.nearby(peer))
        for report in self._reported.get(peer, ()):
            try:
                content = msgspec.json.decode(report)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            name = content[0] if isinstance(content, list) and content else _name(content)
            if isinstance(name, str) and name:
                names[name] = None
        names.pop(peer.name, None)
        return list(names)

    def _report(self, request: CensusRequest, now: float) -> bytes | None:
        self.asked_at = now
        reporter = self.reporters.get(request.question)
        report = reporter(request.argument) if reporter is not None else self.brief()
        return None if report is None else msgspec.json.encode(report)

    def _spread(
        self,
        request: CensusRequest,
        others: list[tuple[Remote, CensusRequest]],
        own: bytes | None,
        finished: Finished,
        now: float,
    ) -> None:
        key = (request.origin, request.incarnation, request.number)
        if key in self._open or len(self._open) >= OPEN_MAX:
            # On a cycle the question comes round: it is being answered.
            finished(Answers((), (), ()), now)
            return

        def done(gather: Gather, later: float) -> None:
            self._open.pop(key, None)
            self._of_all.discard(key)
            reports = [] if own is None else [own]
            missing = [peer.name for peer in gather.missing]
            cut_off = [
                name for peer in gather.missing if isinstance(peer, Remote) for name in self.behind(peer)
            ]
            for answer in gather.answers:
                reports += answer.reports
                missing += answer.missing
                cut_off += answer.cut_off
            self._remember(gather, awaited, now)
            finished(
                Answers(bounded(reports), tuple(missing[:MISSING_MAX]), tuple(cut_off[:MISSING_MAX])), later
            )

        gather = self._open[key] = Gather(done)
        if request.question in OF_ALL and not (request.argument and request.argument != b"{}"):
            self._of_all.add(key)
        patient = request.question == NAME
        asked = [peer for peer, _ in others if peer.link is not None]
        awaited = [peer for peer in asked if patient or not self._silent(peer, now)]
        for peer in awaited:
            gather.wait_for(peer)
        gather.missing += [peer for peer, _ in others if peer not in awaited]
        gather.deadline = self.core.timers.at(now + min(request.deadline_s, PATIENCE_S), gather.expire)
        for peer, question in others:
            onward = msgspec.structs.replace(question, deadline_s=request.deadline_s * MARGIN)
            self.core.tell(onward, peer)
        gather.start(now)

    def _silent(self, peer: Remote, now: float) -> bool:
        """Whether no answer can be expected soon: nothing heard since one was due, or for longer than a ping
        takes."""
        link = peer.link
        assert link is not None
        since = self._unanswered.get(peer)
        if since is not None and link.heard_at <= since:
            return True
        self._unanswered.pop(peer, None)
        return now - link.heard_at > OVERDUE * self.core.settings.links.ping_s

    def _remember(self, gather: Gather, asked: list[Remote], asked_at: float) -> None:
        """Who was asked, did not answer and said nothing else meanwhile."""
        for peer in gather.missing:
            if isinstance(peer, Remote) and peer in asked and peer.link is not None:
                if peer.link.heard_at <= asked_at:
                    self._unanswered[peer] = asked_at

    def link_lost(self, session: Session, now: float) -> None:
        self._unanswered.pop(session, None)  # type: ignore[call-overload]
        self._reported.pop(session, None)  # type: ignore[call-overload]


def _name(content: Any) -> Any:
    return content.get("name") if isinstance(content, dict) else None


def everybody(core: Core) -> Spread:
    """Without a cycle: every neighbour but the one who asked."""

    def spread(request: CensusRequest, came_from: Remote | None) -> list[tuple[Remote, CensusRequest]]:
        return [(peer, request) for peer in core.peers.values() if peer is not came_from]

    return spread


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
