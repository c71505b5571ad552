"""`broker move`: the broker that is asked has the named one move, and answers when it has or has not.

The question travels by the census; the mover begins at once if nothing speaks against it and is asked again
until it is through.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from grapevine.wire.identity import identify
from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.coordinate.permissions import Operation, Permissions
from overlay.core import Core
from overlay.links.session import Link
from overlay.softlinks.move import Moves

ASK_S = 3.0
AGAIN_S = 0.25
PATIENCE_S = 40.0
BEGIN, LOOK = "move.begin", "move.look"


class Wanted(msgspec.Struct, frozen=True):
    broker: str
    to: str
    dry_run: bool = False


class MoveCommands(Quiet):
    def __init__(self, census: Census, moves: Moves, permissions: Permissions) -> None:
        self.census = census
        self.moves = moves
        self.permissions = permissions
        self.outcome = ""  # of the last move of this broker: "", "moving", "moved", or why not
        census.reporters[BEGIN] = self._begin
        census.reporters[LOOK] = self._look
        moves.release = permissions.release

    def attach(self, core: Core) -> None:
        self.core = core
        core.on_command("broker.move", self.on_move)

    # --- the mover ------------------------------------------------------------------------------------

    def move(self, target: int, now: float) -> str:
        """Ask for permission and move; why not, if it cannot."""
        if self.outcome == "moving":
            return f"{self.core.name} is moving already"
        if refusal := self.moves.refusal(target):
            return refusal
        self.outcome = "moving"

        def permitted(operation: Operation | None, refusal: str, later: float) -> None:
            if operation is None:
                ended(refusal, later)
            else:
                self.moves.begin(target, operation, ended, later)

        def ended(refusal: str, later: float) -> None:
            self.outcome = refusal or "moved"
            self.core.note(later, f"move: {self.outcome}")

        self.permissions.ask((self.core.id, *self.moves.neighbourhoods.master.via), permitted, now)
        return ""

    def _begin(self, argument: bytes) -> Report | None:
        wanted = _read(argument)
        if wanted is None or wanted.broker != self.core.name:
            return None
        target = identify(wanted.to)
        refusal = self.moves.refusal(target) if wanted.dry_run else self.move(target, self.core.now)
        names = [self._name(broker) for broker in self.moves.path_to(target)]
        return {**self.census.brief(), "refused": refusal, "path": names}

    def _look(self, argument: bytes) -> Report | None:
        wanted = _read(argument)
        if wanted is None or wanted.broker != self.core.name:
            return None
        return {**self.census.brief(), "outcome": self.outcome}

    def _name(self, broker: int) -> str:
        nearby = self.moves.neighbourhoods.master.nearby.get(broker)
        return nearby.name if nearby is not None else self.core.names.get(broker, f"{broker:016x}")

    # --- who is asked -----------------------------------------------------------------------------------

    def on_move(self, link: Link, command: Command, now: float) -> None:
        arguments = command.arguments
        wanted = Wanted(
            str(arguments.get("broker") or ""),
            str(arguments.get("to") or ""),
            bool(arguments.get("dry_run")),
        )

        def begun(reports: list[Report], later: float) -> None:
            found = next((report for report in reports if "path" in report), None)
            if found is None:
                self._answer(link, command, "not-found", {}, f"no broker named {wanted.broker}")
            elif found["refused"]:
                body = {"broker": wanted.broker, "to": wanted.to, "path": found["path"]}
                self._answer(link, command, "failed", body, str(found["refused"]))
            elif wanted.dry_run:
                body = {
                    "broker": wanted.broker,
                    "to": wanted.to,
                    "path": found["path"],
                    "outcome": "could move",
                }
                self._answer(link, command, "ok", body)
            else:
                self._await(wanted, lambda outcome: self._end(link, command, wanted, found, outcome), later)

        self.census.ask(BEGIN, None, now, begun, msgspec.json.encode(wanted), ASK_S)

    def _await(self, wanted: Wanted, done: Callable[[str], None], now: float) -> None:
        deadline = now + PATIENCE_S

        def looked(reports: list[Report], later: float) -> None:
            outcome = next((str(report["outcome"]) for report in reports if "outcome" in report), "moving")
            if outcome != "moving" or later >= deadline:
                done(outcome)
            else:
                self.core.timers.at(later + AGAIN_S, look)

        def look(later: float) -> None:
            self.census.ask(LOOK, None, later, looked, msgspec.json.encode(wanted), ASK_S)

        self.core.timers.at(now + AGAIN_S, look)

    def _end(self, link: Link, command: Command, wanted: Wanted, found: Report, outcome: str) -> None:
        body = {"broker": wanted.broker, "to": wanted.to, "path": found["path"], "outcome": outcome}
        word = "ok" if outcome == "moved" else "partial" if outcome == "moving" else "failed"
        self._answer(link, command, word, body, "" if outcome == "moved" else outcome)

    def _answer(self, link: Link, command: Command, outcome: str, body: object, text: str = "") -> None:
        if self.core.links.get(link.number) is link:
            self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)


def _read(argument: bytes) -> Wanted | None:
    try:
        return msgspec.json.decode(argument, type=Wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
