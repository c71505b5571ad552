"""`pubctl balance ...` at any broker: it asks the coordinator (contact.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Report
from overlay.behaviour import Quiet
from overlay.coordinate.balance import Balance, Proposal, summary
from overlay.coordinate.contact import Contact
from overlay.core import Core
from overlay.links.session import Link
from overlay.settings import BalancingSettings

QUESTION = "balance.verb"
VERBS = ("balance.show", "balance.plan", "balance.set", "balance.apply")
CHOICES = {
    "mode": ("off", "plan", "on"),
    "assign": ("nearest", "round_robin", "random"),
    "scheme": ("LDM", "SDM"),
}
ABOVE = ("alpha", "gamma", "check_s", "report_s", "window_s", "in_flight")  # zero, to make sense
NOBODY = 'there is no coordinator: give one broker roles = ["broker", "coordinator"]'


class Asked(msgspec.Struct):
    verb: str
    arguments: dict[str, Any]


class BalanceVerbs(Quiet):
    """`balance` is the coordinator's."""

    def __init__(self, contact: Contact, balance: Balance | None) -> None:
        self.contact = contact
        self.census = census = contact.census
        self.balance = balance
        census.reporters[QUESTION] = self._report
        self._answers: dict[str, Callable[[Balance, dict[str, Any], float], Report]] = {
            "balance.show": shown,
            "balance.plan": lambda balance, arguments, now: proposed(balance.propose()),
            "balance.set": changed,
            "balance.apply": applied,
        }

    def attach(self, core: Core) -> None:
        self.core = core
        for verb in VERBS:
            core.on_command(verb, self.on_command)

    def on_command(self, link: Link, command: Command, now: float) -> None:
        def done(reports: list[Report], later: float) -> None:
            found = next((report for report in reports if "outcome" in report), None)
            outcome, body, text = "failed", {}, NOBODY
            if found is not None:
                outcome, body, text = found["outcome"], found["body"], found["text"]
            self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)

        given = {key: value for key, value in command.arguments.items() if key != "timeout_s"}
        argument = msgspec.json.encode(Asked(command.verb, given))
        self.contact.ask(QUESTION, argument, done, now)

    def _report(self, argument: bytes) -> Report | None:
        if self.balance is None:
            return None
        try:
            asked = msgspec.json.decode(argument, type=Asked)
            body = self._answers[asked.verb](self.balance, asked.arguments, self.census.asked_at)
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, ValueError) as error:
            return {**self.census.brief(), "outcome": "usage", "body": {}, "text": str(error)}
        return {**self.census.brief(), "outcome": "ok", "body": body, "text": ""}


def shown(balance: Balance, arguments: dict[str, Any], now: float) -> Report:
    loads = balance.registry.assignment()
    carried = dict(zip(loads.brokers, loads.at.loads.tolist()))
    rows = [
        {
            "broker": known.name,
            "serves": known.serves,
            "clients": known.clients,
            "subscribers": len(known.subscribers),
            "movable": sum(each.movable for each in known.subscribers.values()),
            "front_end": sum(len(each.wanted) for each in known.subscribers.values()),
            "back_end": len({be for each in known.subscribers.values() for be in each.wanted}),
            "load_bytes_s": round(carried.get(known.name, 0.0), 1),
            "location": list(known.location),
            "heard_s": round(now - known.heard_at, 1),
        }
        for known in sorted(balance.registry.brokers.values(), key=lambda known: known.name)
    ]
    return {
        **balance.status(),
        **summary(loads),
        "coordinator": balance.core.name,
        "brokers": rows,
        "waits_for": balance.waits_for(now),
        "trouble": balance.migrations.last,
        "settings": msgspec.to_builtins(balance.settings),
    }


def proposed(proposal: Proposal) -> Report:
    moves = [{"subscriber": s.subscriber, "from": s.source, "to": s.target} for s in proposal.steps]
    after = {f"{key}_after": value for key, value in proposal.after.items()}
    return {"stage": proposal.stage, "moves": moves, "ended": proposal.ended, **proposal.before, **after}


def applied(balance: Balance, arguments: dict[str, Any], now: float) -> Report:
    """A round now, whatever the mode."""
    if balance.migrations.busy:
        raise ValueError("subscribers are moving already: `balance show` says how many")
    if waiting := balance.waits_for(now):
        raise ValueError(f"not all brokers have reported yet: {', '.join(waiting)}")
    proposal = balance.propose()
    balance.apply(proposal, now)
    return proposed(proposal)


def changed(balance: Balance, arguments: dict[str, Any], now: float) -> Report:
    """Until the coordinator restarts or reads its configuration again."""
    known = msgspec.to_builtins(balance.settings)
    if strange := sorted(arguments.keys() - known.keys()):
        raise ValueError(f"no such setting: {', '.join(strange)}; there are {', '.join(known)}")
    settings = msgspec.convert({**known, **arguments}, BalancingSettings, strict=False)
    for key, words in CHOICES.items():
        if getattr(settings, key) not in words:
            raise ValueError(f"{key} is one of {', '.join(words)}")
    for key in ABOVE:
        if not getattr(settings, key) > 0:
            raise ValueError(f"{key} is above 0")
    balance.set(settings)
    return {"settings": msgspec.to_builtins(settings)}
