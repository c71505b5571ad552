"""Who is dead: a member that does not answer, neither to us nor to anybody whom we ask to try (III-C).

* As in SWIM: a suspect is asked directly and through up to three others; a word of its own, by whichever way,
  clears it. Suspected is who has no link or is silent for a while, and at once a matcher that a dispatcher
  cannot do without: some publication has no other candidate.
* A verdict is for taking its segments over, not for routing: questions go round it at once. A wrong one costs
  work and no message, and its owner overrules it.
"""

from __future__ import annotations

from grapevine.wire.onehop import AliveAnswer, AliveProbe
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Session
from overlay.onehop.cluster import Cluster
from overlay.onehop.member import Member
from overlay.onehop.segments import is_gone

PROBES = 3


class Suspicion:
    """`waited` answers are still to come, our own link's among them if there is one."""

    __slots__ = ("since", "waited")

    def __init__(self, since: float, waited: int) -> None:
        self.since, self.waited = since, waited


class Verdicts(Quiet):
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._suspects: dict[int, Suspicion] = {}
        self._alive: dict[int, float] = {}  # when a word of its own came last, by whichever way
        self._askers: dict[int, dict[Member, None]] = {}  # who wants to know of this member

    def attach(self, core: Core) -> None:
        self.core = core
        self.settings = core.settings.onehop
        self.cluster.suspect = self.suspect
        core.on(AliveProbe, self.on_probe)
        core.on(AliveAnswer, self.on_answer)

    def start(self, now: float) -> None:
        self.core.timers.at(now + self.settings.probe_s, self._tick)

    def _tick(self, now: float) -> None:
        for entry in list(self.cluster.table.entries.values()):
            if entry.owner != self.core.id and not is_gone(entry) and self._is_silent(entry.owner, now):
                self.suspect(entry.owner, now)
        self._askers.clear()
        self.core.timers.at(now + self.settings.probe_s, self._tick)

    def _is_silent(self, member: int, now: float) -> bool:
        found = self.cluster.get(member)
        if found is None or found.link is None:
            return self.cluster.unreachable_s(member, now) >= self.settings.probe_s
        return now - found.link.heard_at >= self.settings.dead_after_s

    def suspect(self, member: int, now: float) -> None:
        entry = self.cluster.table.entries.get(member)
        if member in self._suspects or member == self.core.id or entry is None or is_gone(entry):
            return
        others = [one for one in self.cluster.others() if one.reachable and one.id != member]
        asked = self.core.random.sample(others, min(PROBES, len(others)))
        itself = self.cluster.get(member)
        if itself is not None and itself.link is not None:
            asked.append(itself)
        for one in asked:
            one.tell(AliveProbe(member))
        suspicion = self._suspects[member] = Suspicion(now, len(asked))
        self.core.timers.at(now + self.settings.hedge_s, lambda later: self._judge(member, suspicion, later))

    def _judge(self, member: int, suspicion: Suspicion, now: float) -> None:
        if self._suspects.get(member) is not suspicion:
            return
        del self._suspects[member]
        entry = self.cluster.table.entries.get(member)
        if self._alive.get(member, -1.0) < suspicion.since and entry is not None and not is_gone(entry):
            text = f"{entry.name} is dead: nobody asked gets an answer from it"
            self.core.event(now, "member.dead", text, "warn", peer=entry.name)
            self.cluster.declare_dead(member, now)

    def on_probe(self, session: Member, message: AliveProbe, now: float) -> None:
        if message.member == self.core.id:
            session.tell(AliveAnswer(self.core.id, True))
        elif (found := self.cluster.get(message.member)) is not None and found.reachable:
            self._askers.setdefault(message.member, {})[session] = None
            found.tell(AliveProbe(message.member))
        else:
            session.tell(AliveAnswer(message.member, False))

    def on_answer(self, session: Member, message: AliveAnswer, now: float) -> None:
        if not message.alive:
            if (suspicion := self._suspects.get(message.member)) is not None:
                suspicion.waited -= 1
                if not suspicion.waited:  # nobody has a link to it
                    self._judge(message.member, suspicion, now)
            return
        self._alive[message.member] = now
        if message.member == session.id:
            for asker in self._askers.pop(message.member, ()):
                asker.tell(message)

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, Member):
            self._alive[session.id] = now
