"""`reconfigure.*`: an administrator's verbs about positions on the ring, said to any broker.

Everybody is asked (a census question) and answers with its part; the manager acts on what is its own. Brokers
in doubt whose manager is gone act on finish and abort themselves: that is what an operator has these for.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.chord.participation import Participation
from overlay.coordinate.manager import Manager
from overlay.coordinate.planning import Proposal
from overlay.core import Core
from overlay.links.session import Link

QUESTION = "reconfiguration"
SHOW, PLAN, APPLY, FINISH, ABORT = "show", "plan", "apply", "finish", "abort"
NO_MANAGER = 'no broker is the manager: give one roles = ["broker", "coordinator"]'


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    verb: str = SHOW
    fresh: bool = False  # ask all brokers and search anew


class ReconfigureCommands(Quiet):
    def __init__(self, census: Census, participation: Participation, manager: Manager | None) -> None:
        self.census, self.participation, self.manager = census, participation, manager
        census.reporters[QUESTION] = self._report

    def attach(self, core: Core) -> None:
        self.core = core
        for verb in (SHOW, PLAN, APPLY, FINISH, ABORT):
            core.on_command(f"reconfigure.{verb}", self.on_command)

    def on_command(self, link: Link, command: Command, now: float) -> None:
        verb = command.verb.removeprefix("reconfigure.")
        order = Order(verb, bool(command.arguments.get("fresh")))

        def done(reports: list[Report], later: float) -> None:
            missing = [report["name"] for report in reports if report.get("missing")]
            rows = [report for report in reports if not report.get("missing")]
            manager = next((row["manager"] for row in rows if row.get("manager")), None)
            body = {"asked": self.core.name, "brokers": rows, "missing": missing, "manager": manager}
            outcome, text = "partial" if missing else "ok", ""
            if manager is None and verb in (PLAN, APPLY):
                outcome, text = "failed", NO_MANAGER
            elif manager is not None and manager.get("refused"):
                outcome, text = "failed", manager["refused"]
            answer = Answer(command.request, outcome, msgspec.json.encode(body), text)
            if self.core.links.get(link.number) is link:
                self.core.send(answer, link)

        self.census.ask(QUESTION, None, now, done, msgspec.json.encode(order))

    # --- our part ---------------------------------------------------------------------------------------

    def _report(self, argument: bytes) -> Report | None:
        try:
            order = msgspec.json.decode(argument, type=Order)
        except msgspec.MsgspecError:
            return None
        now = self.census.asked_at or self.core.now
        refused = self._act(order, now)
        row = {**self.census.brief(), **self.participation.status()}
        row["position"] = f"{self.participation.planes.membership.me.position:016x}"
        if self.manager is not None:
            row["manager"] = self.manager.status() | {"refused": refused, "name": self.core.name}
            if self.manager.proposal is not None:
                row["manager"]["proposal"] = proposal_row(self.manager.proposal)
        return row

    def _act(self, order: Order, now: float) -> str:
        """Why nothing comes of it; empty: something does, or it is not for us."""
        manager = self.manager
        if order.verb in (FINISH, ABORT):
            return self._decide(order.verb == FINISH, now)
        if manager is None:
            return ""
        if order.verb == PLAN and order.fresh:
            manager.plan_afresh(now)
        elif order.verb == APPLY:
            if manager.proposal is None:
                return "nothing is planned: pubctl reconfigure plan"
            return manager.begin(manager.proposal, now)
        return ""

    def _decide(self, finish: bool, now: float) -> str:
        manager, running = self.manager, self.participation.running
        if manager is not None and manager.attempt is not None:
            if finish:
                return "" if manager.attempt.decided else "it is not decided: wait for it, or abort"
            return "" if manager.abort("an operator's word", now) else "it is decided: it can only go forward"
        if running is not None:
            leader = self.core.peers.get(running.version.manager)
            if leader is None or leader.link is None:
                self.participation.decide(finish, now)
        return ""


def proposal_row(proposal: Proposal) -> dict[str, Any]:
    plan = proposal.plan
    return {
        "brokers": len(proposal.nodes),
        "topics": proposal.topics,
        "cost": round(proposal.now, 3),
        "cost_after": round(proposal.then, 3),
        "reconfiguration_cost": round(plan.cost, 3),
        "worth": bool(proposal.worth),
        "pays": bool(plan.pays),
        "moves": [
            {"broker": goes.name, "to": f"{place.position:016x}", "place_of": place.name}
            for goes, place in proposal.moves
        ],
    }
