"""What an administrator says about handovers: have these clients go there, and what has become of them."""

from __future__ import annotations

from typing import Any

import msgspec

from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client
from overlay.handover.handover import Handovers, Outcome
from overlay.links.session import Link

ORDER, ENDED = "handover-order", "handover-ended"
KEPT = 64  # orders whose outcomes are remembered


class Wanted(msgspec.Struct, frozen=True):
    """The argument of "handover-order": clients by name, or all of one broker."""

    order: str
    target: str
    names: tuple[str, ...] = ()
    all_of: str = ""
    dry_run: bool = False


class HandoverCommands(Quiet):
    after = ("Handovers",)

    def __init__(self, census: Census, handovers: Handovers) -> None:
        self.census = census
        self.handovers = handovers
        self.ended: dict[str, list[Outcome] | None] = {}  # by order; None: under way
        census.reporters[ORDER] = self._order
        census.reporters[ENDED] = self._ended

    def attach(self, core: Core) -> None:
        self.core = core
        core.on_command("client.move", self.on_move)
        core.on_command("client.moved", self.on_moved)

    # --- one broker ---------------------------------------------------------------------------------

    def _order(self, argument: bytes) -> Report | None:
        try:
            wanted = msgspec.json.decode(argument, type=Wanted)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        clients = self._clients(wanted)
        if clients and not wanted.dry_run:
            if len(self.ended) >= KEPT:
                del self.ended[next(iter(self.ended))]
            self.ended[wanted.order] = None

            def finished(outcomes: list[Outcome], now: float) -> None:
                self.ended[wanted.order] = outcomes

            self.handovers.move(clients, wanted.target, finished, self.census.asked_at)
        return {**self.census.brief(), "clients": [client.name for client in clients]}

    def _clients(self, wanted: Wanted) -> list[Client]:
        here = self.core.clients.values()
        if wanted.all_of:
            return [client for client in here if client.link is not None and wanted.all_of == self.core.name]
        names = set(wanted.names)
        return [client for client in here if client.name in names]

    def _ended(self, order: bytes) -> Report | None:
        name = order.decode(errors="replace")
        if name not in self.ended:
            return None
        outcomes = self.ended[name]
        rows = [] if outcomes is None else [one._asdict() for one in outcomes]
        return {**self.census.brief(), "under_way": outcomes is None, "rows": rows}

    # --- the whole overlay --------------------------------------------------------------------------

    def on_move(self, link: Link, command: Command, now: float) -> None:
        given = command.arguments
        names = tuple(name for name in str(given.get("names") or "").split("\n") if name)
        target, all_of = str(given.get("to") or ""), str(given.get("all_of") or "")
        if not target or bool(names) == bool(all_of):
            self._answer(link, command, "usage", {}, "client.move needs 'to', and either 'names' or 'all_of'")
            return
        order = f"{self.core.name}.{self.core.serial():x}"
        wanted = Wanted(order, target, names, all_of, bool(given.get("dry_run")))

        def done(reports: list[Report], later: float) -> None:
            found = [r for r in reports if r.get("clients")]
            known = {r["name"] for r in reports if not r.get("missing")}
            missing = [r["name"] for r in reports if r.get("missing")]
            if target not in known:
                self._answer(link, command, "not-found", {}, f"no broker named {target} answers")
                return
            rows = [{"client": name, "from": r["name"]} for r in found for name in r["clients"]]
            body = {"asked": self.core.name, "order": order, "clients": rows, "missing": missing}
            if rows:
                self._answer(link, command, "partial" if missing else "ok", body)
            else:
                what = f"{all_of} has no clients" if all_of else f"no client named {', '.join(names[:3])}"
                self._answer(link, command, "not-found", body, what)

        self.census.ask(ORDER, None, now, done, msgspec.json.encode(wanted))

    def on_moved(self, link: Link, command: Command, now: float) -> None:
        order = str(command.arguments.get("order") or "")

        def done(reports: list[Report], later: float) -> None:
            known = [r for r in reports if "under_way" in r]
            rows = [{**row, "from": r["name"]} for r in known for row in r["rows"]]
            waiting = [r["name"] for r in known if r["under_way"]]
            body = {"asked": self.core.name, "order": order, "rows": rows, "under_way": waiting}
            self._answer(link, command, "ok", body)

        self.census.ask(ENDED, None, now, done, order.encode())

    def _answer(self, link: Link, command: Command, outcome: str, body: Any, text: str = "") -> None:
        if self.core.links.get(link.number) is link:
            self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)
