"""An administrator's verbs: each Command is answered once, for the whole overlay.

Outcomes: "ok", "partial" (some broker did not answer, or rows were left out), "usage", "not-found",
"failed". The body is a JSON object. Reading verbs are questions to the census; `trace` follows a path.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import msgspec

from grapevine.filters.normal import Value
from grapevine.wire import encode_attributes
from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Answers, Census, Report
from overlay.administration.reports import ROWS, Ask
from overlay.administration.trace import Trace
from overlay.administration.verbs import VERBS
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Link

DEADLINE_S = 5.0
DEADLINE_MAX_S = 60.0

# verb -> what the census is asked; the answer lists one report per broker
QUESTIONS = {
    "status": "broker",
    "broker.ls": "broker",
    "broker.ping": "ping",
    "link.ls": "links",
    "topo.show": "topology",
    "subs.ls": "subscriptions",
    "adv.ls": "advertisements",
    "client.ls": "clients",
    "events": "events",
}
# verb -> (question, the argument that must be given, what it is)
ABOUT_ONE = {
    "broker.info": ("broker", "broker", "broker"),
    "broker.drain": ("drain", "broker", "broker"),
    "client.info": ("client", "name", "client"),
    "subs.explain": ("explain", "name", "subscription"),
}


class Administration(Quiet):
    def __init__(self, census: Census, trace: Trace) -> None:
        self.census = census
        self.trace = trace

    def attach(self, core: Core) -> None:
        self.core = core
        core.on_command("", self.on_unknown)
        core.on_command("trace", self.on_trace)
        core.on_command("pulse", self.on_pulse)
        for verb in QUESTIONS:
            core.on_command(verb, self.on_question)
        for verb in ABOUT_ONE:
            core.on_command(verb, self.on_about_one)

    def on_unknown(self, link: Link, command: Command, now: float) -> None:
        near = get_close_matches(command.verb, VERBS, 1)
        hint = f", did you mean {near[0]}?" if near else ": " + ", ".join(VERBS)
        self._answer(link, command, "usage", {}, f"{self.core.name} knows no {command.verb!r}{hint}")

    def on_question(self, link: Link, command: Command, now: float) -> None:
        ask = self._read(link, command)
        if ask is not None:
            self._ask(QUESTIONS[command.verb], ask, command, now, self._listing(link, command, ask))

    def on_pulse(self, link: Link, command: Command, now: float) -> None:
        """Reports pass as the bytes they are: a thousand of them are not read on the loop's thread."""
        at = str(command.arguments.get("broker") or "")

        def done(answers: Answers, later: float) -> None:
            body = {
                "asked": self.core.name,
                "t_ms": round(later * 1000),
                "pulses": [msgspec.Raw(report) for report in answers.reports],
                "missing": answers.missing,
                "cut_off": answers.cut_off,
            }
            self._answer(link, command, "partial" if answers.missing else "ok", body)

        self.census.ask_raw("pulse", None, now, done, at.encode(), _deadline(command))

    def _listing(self, link: Link, command: Command, ask: Ask) -> Callable[[list[Report], float], None]:
        def done(reports: list[Report], now: float) -> None:
            brokers = [r for r in reports if not r.get("missing") and "left_out" not in r]
            missing = [r["name"] for r in reports if r.get("missing") and not r.get("cut_off")]
            left_out = sum(r["left_out"] for r in reports if "left_out" in r)
            if ask.at and not brokers and not left_out:
                self._not_found(link, command, "broker", ask.at, missing)
                return
            body = {"asked": self.core.name, "brokers": brokers, "missing": missing, "left_out": left_out}
            if cut_off := [r["name"] for r in reports if r.get("cut_off")]:
                body["cut_off"] = cut_off
            self._answer(link, command, "partial" if missing or left_out else "ok", body)

        return done

    def on_about_one(self, link: Link, command: Command, now: float) -> None:
        question, argument, noun = ABOUT_ONE[command.verb]
        ask = self._read(link, command)
        if ask is None:
            return
        wanted = ask.at if argument == "broker" else ask.name
        if not wanted:
            self._answer(link, command, "usage", {}, f"{command.verb} needs {argument!r}: the {noun}")
            return

        def done(reports: list[Report], later: float) -> None:
            found = [r for r in reports if not r.get("missing") and "left_out" not in r]
            missing = [r["name"] for r in reports if r.get("missing")]
            if found:
                self._answer(link, command, "ok", {"asked": self.core.name, "brokers": found})
            else:
                self._not_found(link, command, noun, wanted, missing)

        self._ask(question, ask, command, now, done)

    def _not_found(self, link: Link, command: Command, noun: str, name: str, missing: list[str]) -> None:
        text = f"no {noun} named {name}"
        if missing:
            self._answer(link, command, "partial", {"missing": missing}, text + " among those that answer")
        else:
            self._answer(link, command, "not-found", {}, text)

    def on_trace(self, link: Link, command: Command, now: float) -> None:
        arguments = command.arguments
        try:
            given = msgspec.json.decode(str(arguments.get("attributes", "")), type=dict[str, Value])
            attributes = encode_attributes(given)
        except (msgspec.MsgspecError, ValueError) as error:
            self._answer(link, command, "usage", {}, f"attributes: {error}")
            return
        name = str(arguments.get("client") or "")
        client = next((c for c in self.core.clients.values() if c.name == name), None)
        if name and client is None:
            self._not_found(link, command, "client", f"{name} at {self.core.name}", [])
            return

        def done(rows: list[Report], later: float) -> None:
            missing = [row["broker"] for row in rows if row.get("missing")]
            path = [row for row in rows if not row.get("missing")]
            body = {"asked": self.core.name, "attributes": given, "path": path, "missing": missing}
            self._answer(link, command, "partial" if missing else "ok", body)

        self.trace.ask(attributes, client, now, done, _deadline(command))

    # --- asking and answering -------------------------------------------------------------------------

    def _read(self, link: Link, command: Command) -> Ask | None:
        """The arguments of a question; a wrong one is answered and None is returned."""
        given = command.arguments
        limit = given.get("limit")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            self._answer(link, command, "usage", {}, "limit is a number of rows")
            return None
        at, name = str(given.get("broker") or ""), str(given.get("name") or "")
        since = given.get("since")
        if since is not None and (isinstance(since, bool) or not isinstance(since, int)):
            self._answer(link, command, "usage", {}, "since is the number of an event")
            return None
        return Ask(at, name, ROWS if limit is None else limit, since or 0, bool(given.get("table")))

    def _ask(
        self,
        question: str,
        ask: Ask,
        command: Command,
        now: float,
        done: Callable[[list[Report], float], None],
    ) -> None:
        argument = msgspec.json.encode(ask)
        self.census.ask(question, None, now, done, argument, _deadline(command))

    def _answer(self, link: Link, command: Command, outcome: str, body: Any, text: str = "") -> None:
        if self.core.links.get(link.number) is link:
            self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)


def _deadline(command: Command) -> float:
    given = command.arguments.get("timeout_s")
    if isinstance(given, int | float) and 0 < given <= DEADLINE_MAX_S:
        return float(given)
    return DEADLINE_S
