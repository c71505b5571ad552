"""Is there another ring? (Zave's rules keep one ring one; they do not join two.)

Brokers that could not reach each other for longer than `chord.lost_after_s` are rings of their own, and stay
so when they can again: nobody looks for who is dead. So every broker asks one of `chord.members` now and then
whether it is on a ring, and looks that one up on its own. Who is not found there, twice in a row, is on
another ring, and the broker says so until it is found.
"""

from __future__ import annotations

from grapevine.wire.chord import RingNode, RingState
from overlay.behaviour import Quiet, Status
from overlay.chord.contacts import RingContacts
from overlay.chord.planes import Planes
from overlay.core import Core

TWICE = 2  # who has just joined may not be known yet


class RingProbe(Quiet):
    name = "rings"
    after = ("Planes",)

    def __init__(self, planes: Planes, contacts: RingContacts, every_s: float) -> None:
        self.planes, self.contacts = planes, contacts
        self.every_s = every_s
        self.missed: dict[str, int] = {}  # how often in a row: members of a ring, not of ours

    def attach(self, core: Core) -> None:
        self.core = core

    def start(self, now: float) -> None:
        self.core.timers.at(now + self.every_s * self.core.random.uniform(0.8, 1.2), self._probe)

    @property
    def elsewhere(self) -> list[str]:
        """Who is on another ring."""
        return sorted(name for name, times in self.missed.items() if times >= TWICE)

    def _probe(self, now: float) -> None:
        self.start(now)
        if self.planes.membership.member and self.contacts.others:
            session = self.contacts.met(self.core.random.choice(self.contacts.others), now)
            if session is not None:
                self.planes.membership.ask(session, self._said, now)

    def _said(self, state: RingState, now: float) -> None:
        if state.member:
            theirs = state.node
            self.planes.membership.fingers.find(
                theirs.position, lambda node, later: self._found(theirs, node, later), now
            )

    def _found(self, theirs: RingNode, ours: RingNode, now: float) -> None:
        if ours.broker == theirs.broker:
            self.missed.pop(theirs.name, None)
            return
        self.missed[theirs.name] = self.missed.get(theirs.name, 0) + 1
        if self.missed[theirs.name] == TWICE:
            self.core.note(now, f"two rings: {theirs.name} is on another one than we")

    def status(self) -> Status:
        return {"two_rings": self.elsewhere}
