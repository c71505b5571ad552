"""Pulses and reports as brokers write them, for tests of the page process."""

from __future__ import annotations

from typing import Any

import msgspec

from tools.pubctl.channel import Argument, Reply
from tools.pubctl.failure import NOT_FOUND, UNREACHABLE, Failure
from tools.web.model import Look, SourceState


def beat(
    name: str,
    t_ms: int,
    *links: list[Any],
    incarnation: int = 1,
    generation: int = 1,
    state: str = "ready",
    accepted: int = 0,
    forwarded: int = 0,
    delivered: int = 0,
    received: int = 0,
    busy: float = 0.1,
    slow: int = 0,
    backlog: int = 0,
    events: int = 0,
) -> list[Any]:
    head = [name, 7, incarnation, t_ms, generation, state, accepted, forwarded, delivered, 0, 0, 0.1, busy]
    return [*head, 0.2, 1.0, backlog, slow, 1, events, list(links), received, 4e7, 2, 3]


def link(peer: str, sent: int = 0, received: int = 0, kind: str = "primary") -> list[Any]:
    return [peer, kind, sent, received, None, None, 0, 1.5, 12.5 if kind == "soft" else None]


def look(*beats: list[Any], missing: tuple[str, ...] = (), cut_off: tuple[str, ...] = ()) -> Look:
    document = {"asked": "b1", "t_ms": 0, "pulses": beats, "missing": missing, "cut_off": cut_off}
    return msgspec.json.decode(msgspec.json.encode(document), type=Look)


def report(name: str, parent: str | None = None, *rows: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "parent": parent,
        "state": "ready",
        "addresses": [f"tcp://10.0.0.{len(name)}:7470"],
        "settings": {"overlay.kind": "tree", "overlay.delta": "4"},
        "rows": list(rows),
    }


def row(
    name: str, parent: bool = False, kind: str = "primary", bypasses: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {"name": name, "parent": parent, "kind": kind, "state": "ready", "bypasses": list(bypasses)}


class Script:
    """A source that answers what it is told to, one look after the other."""

    kind = "broker"

    def __init__(self, *looks: Look | Failure, reports: list[dict[str, Any]] | None = None) -> None:
        self.looks = list(looks)
        self.reports = reports or []
        self.state = SourceState("slow", "", 0.0, "connecting")
        self.happened: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, Argument]]] = []
        self.overlays = 0

    def pulse(self) -> Look:
        if not self.looks:
            raise Failure("nobody listens", UNREACHABLE)
        found = self.looks.pop(0)
        if isinstance(found, Failure):
            raise found
        return found

    def overlay(self) -> list[dict[str, Any]]:
        self.overlays += 1
        return self.reports

    def events(self, look: Look) -> list[dict[str, Any]]:
        found, self.happened = self.happened, []
        return found

    def ask(self, verb: str, **arguments: Argument) -> Reply:
        self.asked.append((verb, arguments))
        if verb == "relocate.show":
            return Reply("ok", {"publishers": [], "algorithms": {}, "moved": 0}, "")
        raise Failure(verb, NOT_FOUND)

    def close(self) -> None:
        return
