"""What an administrator says about relocation: show, plan, set, apply.

`show` and `plan` are questions to the census; `set` changes every broker that answers; `apply` looks where
the publisher and the broker are, works out the path, and has the publisher's broker make the offer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grapevine.wire.identity import identify
from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Link
from overlay.relocate.relocation import Relocation
from overlay.tree.peer import peers_of

SETTABLE = ("algorithm", "priority", "weight", "threshold", "gain", "moves_per_minute")


class Order(msgspec.Struct, frozen=True):
    """The argument of "relocation-apply": what the broker `at` is to offer."""

    at: str
    publisher: str
    path: tuple[int, ...]
    name: str
    addresses: tuple[str, ...]


class RelocationCommands(Quiet):
    def __init__(self, census: Census, relocation: Relocation, addresses: tuple[str, ...]) -> None:
        self.census = census
        self.relocation = relocation
        self.addresses = addresses
        census.reporters["relocation"] = lambda argument: {**census.brief(), **relocation.status()}
        census.reporters["relocation-map"] = lambda argument: self._place()
        census.reporters["relocation-set"] = self._set
        census.reporters["relocation-apply"] = self._apply

    def attach(self, core: Core) -> None:
        self.core = core
        core.on_command("relocate.show", self.on_show)
        core.on_command("relocate.plan", self.on_show)
        core.on_command("relocate.set", self.on_set)
        core.on_command("relocate.apply", self.on_apply)

    # --- one broker ---------------------------------------------------------------------------------

    def _place(self) -> Report:
        neighbours = [peer.id for peer in peers_of(self.core).values() if peer.link is not None]
        publishers = [client.name for client in self.core.clients.values() if client.advertisements]
        place = {"neighbours": neighbours, "publishers": publishers, "addresses": list(self.addresses)}
        return {**self.census.brief(), **place}

    def _set(self, argument: bytes) -> Report | None:
        try:
            changes = msgspec.json.decode(argument, type=dict[str, str | float])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        given: dict[str, Any] = {key: value for key, value in changes.items() if key in SETTABLE}
        if not (wrong := self._check(given)):
            if "threshold" in given:
                given["threshold"] = int(given["threshold"])
            self.relocation.change(**given)
        return {**self.census.brief(), "wrong": wrong, "algorithm": self.relocation.settings.algorithm}

    def _apply(self, argument: bytes) -> Report | None:
        try:
            order = msgspec.json.decode(argument, type=Order)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        client = self.core.clients.get(identify(order.publisher))
        if order.at != self.core.name or client is None:
            return None
        now = self.core.now
        outcome = self.relocation.offer(client, order.path, order.name, order.addresses, now)
        return {**self.census.brief(), "outcome": outcome}

    # --- the whole overlay --------------------------------------------------------------------------

    def on_show(self, link: Link, command: Command, now: float) -> None:
        plan = command.verb == "relocate.plan"

        def done(reports: list[Report], later: float) -> None:
            brokers = [r for r in reports if not r.get("missing") and "left_out" not in r]
            rows = [row for report in brokers for row in report.get("publishers", ())]
            if plan:
                rows = [row for row in rows if row["target"] not in (None, row["at"])]
            body = {
                "asked": self.core.name,
                "algorithms": {report["name"]: report["algorithm"] for report in brokers},
                "moved": sum(report["moved"] for report in brokers),
                "publishers": rows,
                "missing": _missing(reports),
            }
            self._answer(link, command, "partial" if body["missing"] else "ok", body)

        self.census.ask("relocation", None, now, done)

    def on_set(self, link: Link, command: Command, now: float) -> None:
        given = {k: v for k, v in command.arguments.items() if k in SETTABLE and v is not None}
        if wrong := self._check(given):
            self._answer(link, command, "usage", {}, wrong)
            return

        def done(reports: list[Report], later: float) -> None:
            names = [r["name"] for r in reports if not r.get("missing")]
            body = {
                "asked": self.core.name,
                "settings": given,
                "brokers": names,
                "missing": _missing(reports),
            }
            self._answer(link, command, "partial" if body["missing"] else "ok", body)

        self.census.ask("relocation-set", None, now, done, msgspec.json.encode(given))

    def _check(self, given: dict[str, Any]) -> str:
        if not given:
            return "nothing to set: " + ", ".join(SETTABLE)
        numbers = [key for key in given if key not in ("algorithm", "priority")]
        for key in numbers:
            if isinstance(given[key], bool) or not isinstance(given[key], int | float):
                return f"{key} is a number"
        return self.relocation.check(**given)

    def on_apply(self, link: Link, command: Command, now: float) -> None:
        publisher = str(command.arguments.get("publisher") or "")
        target = str(command.arguments.get("broker") or "")
        if not publisher or not target:
            self._answer(link, command, "usage", {}, "relocate.apply needs 'publisher' and 'broker'")
            return

        def done(reports: list[Report], later: float) -> None:
            places = {r["id"]: r for r in reports if not r.get("missing") and "left_out" not in r}
            source = next((r for r in places.values() if publisher in r["publishers"]), None)
            goal = next((r for r in places.values() if r["name"] == target), None)
            if source is None or goal is None:
                noun, name = ("publisher", publisher) if source is None else ("broker", target)
                self._answer(link, command, "not-found", {}, f"no {noun} named {name}")
                return
            self._order(link, command, source, goal, places, later)

        self.census.ask("relocation-map", None, now, done)

    def _order(
        self,
        link: Link,
        command: Command,
        source: Report,
        goal: Report,
        places: dict[int, Report],
        now: float,
    ) -> None:
        path = way(places, source["id"], goal["id"])
        publisher = str(command.arguments["publisher"])
        body = {"publisher": publisher, "from": source["name"], "to": goal["name"], "hops": len(path) - 1}
        if len(path) < 2 or command.arguments.get("dry_run"):
            outcome = "ok" if path else "failed"
            text = "" if path else "there is no path between the two brokers"
            self._answer(link, command, outcome, {**body, "outcome": "nothing done"}, text)
            return

        def done(reports: list[Report], later: float) -> None:
            said = next((r["outcome"] for r in reports if "outcome" in r), "its broker did not answer")
            outcome = "ok" if said == "offered" else "failed"
            self._answer(link, command, outcome, {**body, "outcome": said}, "" if outcome == "ok" else said)

        order = Order(source["name"], publisher, path, goal["name"], tuple(goal["addresses"]))
        self.census.ask("relocation-apply", None, now, done, msgspec.json.encode(order))

    def _answer(self, link: Link, command: Command, outcome: str, body: Any, text: str = "") -> None:
        if self.core.links.get(link.number) is link:
            self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)


def way(places: dict[int, Report], source: int, target: int) -> tuple[int, ...]:
    paths: dict[int, tuple[int, ...]] = {source: (source,)}
    front = [source]
    while front and target not in paths:
        broker = front.pop(0)
        for other in places[broker]["neighbours"]:
            if other in places and other not in paths:
                paths[other] = (*paths[broker], other)
                front.append(other)
    return paths.get(target, ())


def _missing(reports: list[Report]) -> list[str]:
    return [report["name"] for report in reports if report.get("missing")]
