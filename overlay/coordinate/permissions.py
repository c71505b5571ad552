"""SPEC M7: the coordinator permits Delta-moves, one at a time in any neighbourhood (paper, 6).

Who wants to move asks the coordinator (contact.py), or everybody: the broker with the role answers. A
permission is an epoch: the coordinator's id, its incarnation, and its own count. It covers the brokers around
the mover and ends with the mover's word, or by itself: a mover that is gone says nothing. A coordinator that
restarts has forgotten what it permitted; the brokers on a path refuse a second move themselves
(softlinks/move.py).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from overlay.administration.census import Report
from overlay.behaviour import Quiet, Status
from overlay.coordinate.contact import Contact
from overlay.core import Core

Operation = tuple[int, int, int]  # origin, incarnation, number
PERMIT, RELEASE = "move.permit", "move.release"


class Wish(msgspec.Struct, frozen=True):
    mover: str
    brokers: tuple[int, ...]  # the mover's neighbourhood, old and new


class Permission:
    __slots__ = ("brokers", "mover", "until")

    def __init__(self, wish: Wish, until: float) -> None:
        self.mover = wish.mover
        self.brokers = frozenset(wish.brokers)
        self.until = until


class Permissions(Quiet):
    """Every broker asks through here."""

    name = "coordinator"

    def __init__(self, contact: Contact) -> None:
        self.contact = contact
        self.census = census = contact.census
        self.hosts = contact.hosts
        self.granted: dict[int, Permission] = {}
        self._number = 0
        census.reporters[PERMIT] = self._permit
        census.reporters[RELEASE] = self._release

    def attach(self, core: Core) -> None:
        self.core = core
        self.lifetime_s = 60.0 + 2 * core.settings.links.lost_after_s

    # --- who wants to move --------------------------------------------------------------------------------

    def ask(
        self, brokers: tuple[int, ...], done: Callable[[Operation | None, str, float], None], now: float
    ) -> None:
        """`done` with the epoch, or without one and why not."""

        def answered(reports: list[Report], later: float) -> None:
            answers = [report for report in reports if "number" in report or "refused" in report]
            if not answers:
                done(
                    None, 'there is no coordinator: give one broker roles = ["broker", "coordinator"]', later
                )
                return
            refused = [str(answer["refused"]) for answer in answers if "refused" in answer]
            if refused or len(answers) > 1:
                for answer in answers:
                    if "number" in answer:
                        self.release((answer["id"], answer["incarnation"], answer["number"]), later)
                done(None, refused[0] if refused else "there are two coordinators", later)
                return
            answer = answers[0]
            done((int(answer["id"]), int(answer["incarnation"]), int(answer["number"])), "", later)

        wish = msgspec.json.encode(Wish(self.core.name, brokers))
        self.contact.ask(PERMIT, wish, answered, now)

    def release(self, operation: Operation, now: float) -> None:
        self.contact.ask(RELEASE, msgspec.json.encode(operation), lambda reports, later: None, now)

    # --- the coordinator ------------------------------------------------------------------------------

    def _permit(self, argument: bytes) -> Report | None:
        if not self.hosts:
            return None
        try:
            wish = msgspec.json.decode(argument, type=Wish)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        now = self.core.now
        self.granted = {n: p for n, p in self.granted.items() if p.until > now}
        for permission in self.granted.values():
            if not permission.brokers.isdisjoint(wish.brokers):
                return {
                    **self.census.brief(),
                    "refused": f"{permission.mover} moves near there: try again later",
                }
        self._number += 1
        self.granted[self._number] = Permission(wish, now + self.lifetime_s)
        return {**self.census.brief(), "number": self._number}

    def _release(self, argument: bytes) -> Report | None:
        try:
            broker, incarnation, number = msgspec.json.decode(argument, type=Operation)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if (broker, incarnation) == (self.core.id, self.core.incarnation):
            self.granted.pop(number, None)
        return None

    def status(self) -> Status:
        if not self.hosts:
            return {}
        return {"permitted": [permission.mover for permission in self.granted.values()]}
