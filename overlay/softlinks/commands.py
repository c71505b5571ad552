"""What an administrator sees of soft links and may change: rows of `link ls`, and `strategy set`."""

from __future__ import annotations

import msgspec

from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Link
from overlay.softlinks.chooser import Chooser

DEADLINE_S = 5.0


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    strategy: str
    at: str = ""  # one broker; "": all


class StrategyCommands(Quiet):
    def __init__(self, census: Census, chooser: Chooser) -> None:
        self.census = census
        self.chooser = chooser
        census.reporters["strategy"] = self._change

    def attach(self, core: Core) -> None:
        self.core = core
        core.on_command("strategy.set", self.on_set)

    def on_set(self, link: Link, command: Command, now: float) -> None:
        change = Change(
            str(command.arguments.get("strategy") or ""), str(command.arguments.get("broker") or "")
        )
        if (wrong := self._mistake(change.strategy)) is not None:
            self._answer(link, command, "usage", {}, wrong)
            return

        def done(reports: list[Report], later: float) -> None:
            found = {r["name"]: r["strategy"] for r in reports if "strategy" in r}
            missing = [r["name"] for r in reports if r.get("missing")]
            body = {"asked": self.core.name, "brokers": found, "missing": missing}
            if change.at and not found:
                self._answer(link, command, "not-found", body, f"no broker named {change.at}")
            else:
                self._answer(link, command, "partial" if missing else "ok", body)

        self.census.ask("strategy", None, now, done, msgspec.json.encode(change), DEADLINE_S)

    def _mistake(self, strategy: str) -> str | None:
        allowed = self.chooser.strategies
        if strategy not in allowed:
            ordered = str(self.core.settings.overlay.ordered).lower()
            return f"{strategy!r} does not go with overlay.ordered = {ordered}; there: {', '.join(allowed)}"
        if strategy != "S0" and self.core.settings.overlay.delta == 1:
            return "soft links need overlay.delta of 2 or more"
        return None

    def _change(self, argument: bytes) -> Report | None:
        try:
            change = msgspec.json.decode(argument, type=Change)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if change.at not in ("", self.core.name) or self._mistake(change.strategy) is not None:
            return None
        self.chooser.set_strategy(change.strategy, self.core.now)
        return {**self.census.brief(), "strategy": self.chooser.strategy}

    def _answer(self, link: Link, command: Command, outcome: str, body: object, text: str = "") -> None:
        if self.core.links.get(link.number) is link:
            self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)
