"""What can be changed from the page, only with `--actions`: always tried first, then done.

The dry run says what would happen. To have it done the request repeats the broker's or publisher's name as
the user typed it. Every attempt that is not a dry run is an event.
"""

from __future__ import annotations

from typing import Any

from tools.pubctl.failure import NOT_ALLOWED, NOT_FOUND, USAGE, Failure
from tools.web.engine import Engine
from tools.web.model import Event

NAMES = ("drain", "move", "strategy", "relocate", "reload")
Outcome = dict[str, Any]


class Actions:
    def __init__(self, engine: Engine, allowed: bool) -> None:
        self.engine = engine
        self.allowed = allowed

    def act(self, name: str, given: dict[str, Any], now: float) -> tuple[Outcome, list[Event]]:
        if not self.allowed:
            raise Failure("this page only looks: start it with `pubctl web --actions`", NOT_ALLOWED)
        if name not in NAMES:
            raise Failure(f"no action {name}: there are {', '.join(NAMES)}", NOT_FOUND)
        about = str(given.get("publisher" if name == "relocate" else "broker") or "")
        if not about and name != "strategy":
            raise Failure("which broker?", USAGE)
        dry = bool(given.get("dry_run", True))
        if not dry and given.get("typed") != (about or "all"):
            raise Failure(f"type {about or 'all'} to have it done", USAGE)
        outcome = getattr(self, f"_{name}")(about, given, dry)
        if dry:
            return outcome, []
        text = f"{name} of {about or 'all brokers'} from the page: {outcome['text']}"
        event = self.engine.note(now, about, "action", "warn", text, action=name, outcome=outcome["outcome"])
        return outcome, [event]

    def _drain(self, broker: str, given: dict[str, Any], dry: bool) -> Outcome:
        report = self._info(broker)
        members = self.engine.members
        at = members.brokers[broker].i if broker in members.brokers else -1
        children = [b.name for b in members.brokers.values() if b.parent == at]
        would = [f"{report['clients']} clients are sent to its neighbours"]
        if children:
            would.append(f"{', '.join(children)} get another parent")
        if dry:
            return {"outcome": "dry run", "text": f"{broker} would leave the overlay", "would": would}
        reply = self.engine.source.ask("broker.drain", broker=broker)
        return {"outcome": reply.outcome, "text": f"{broker} leaves", "would": would}

    def _move(self, broker: str, given: dict[str, Any], dry: bool) -> Outcome:
        to = str(given.get("to") or "")
        reply = self.engine.source.ask("broker.move", broker=broker, to=to, dry_run=dry or None)
        would = [f"the way there: {' - '.join(reply.body.get('path', []))}"]
        text = f"{broker} {'would move' if dry else 'moves'} below {to}"
        return {
            "outcome": "dry run" if dry else reply.body.get("outcome", reply.outcome),
            "text": text,
            "would": would,
        }

    def _strategy(self, _: str, given: dict[str, Any], dry: bool) -> Outcome:
        strategy = str(given.get("strategy") or "")
        if dry:
            count = sum(b.state == "ready" for b in self.engine.members.brokers.values())
            return {"outcome": "dry run", "text": f"{count} brokers would forward by {strategy}", "would": []}
        reply = self.engine.source.ask("strategy.set", strategy=strategy)
        return {"outcome": reply.outcome, "text": reply.text or f"all forward by {strategy}", "would": []}

    def _relocate(self, publisher: str, given: dict[str, Any], dry: bool) -> Outcome:
        to = str(given.get("to") or "")
        if dry:
            rows = self.engine.source.ask("relocate.show").body.get("publishers", [])
            row = next((row for row in rows if row["publisher"] == publisher), None)
            if row is None:
                raise Failure(f"no publisher named {publisher}", NOT_FOUND)
            return {
                "outcome": "dry run",
                "text": f"{publisher} would go from {row['at']} to {to}",
                "would": [],
            }
        reply = self.engine.source.ask("relocate.apply", publisher=publisher, broker=to)
        return {
            "outcome": reply.outcome,
            "text": reply.text or f"{publisher} is asked to go to {to}",
            "would": [],
        }

    def _reload(self, broker: str, given: dict[str, Any], dry: bool) -> Outcome:
        """A configuration is its own daemon's: only the broker that this page asks can be told."""
        if broker != self.engine.members.asked:
            raise Failure(
                f"only {self.engine.members.asked}, which this page asks, can be told to reload", USAGE
            )
        if dry:
            return {"outcome": "dry run", "text": f"{broker} would read its configuration again", "would": []}
        reply = self.engine.source.ask("reload")
        restart = ", ".join(reply.body.get("restart", []))
        text = f"{broker} has read its configuration" + (
            f"; a restart is needed for {restart}" if restart else ""
        )
        return {"outcome": reply.outcome, "text": text, "would": []}

    def _info(self, broker: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.engine.source.ask("broker.info", broker=broker).body["brokers"]
        return found[0]
