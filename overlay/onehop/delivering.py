"""`delivery = "matcher"`: the paper's own path (II-B). A dispatcher gives a publication to one of its
candidates, and that one sends it to the homes of whom it matches. Nothing is ordered; payloads travel twice.

* Publications go to matchers on lane 0, from matchers to homes on lane 1. On one lane two brokers with both
  roles would wait for each other's windows for good.
* The dispatcher says before which registrations it needs (`Needs`), and a matcher that lacks one, or does not
  own the value, refuses. It must not forward to some and leave the rest to the next candidate: where a copy
  has been delivered a second one is a duplicate, whomever it names.
* When the link to a matcher breaks, everything that is not settled on it is given to other candidates. Who
  has it already recognises it. The session begins a new epoch then: the positions taken back are gone.
"""

from __future__ import annotations

from grapevine.wire.messages import CUT_LINK_LOST, Batch, HomeBatch, Publication
from grapevine.wire.onehop import Ask, Forwarded, Needs, Registered
from overlay.core import Core
from overlay.data.reroute import let_go, unsettled
from overlay.links.lane import Lane
from overlay.links.session import Session
from overlay.links.settling import Settling, cuts_of
from overlay.onehop.asking import Asking, Question, has_all
from overlay.onehop.member import Member
from overlay.onehop.packed import pack_question, unpack_question
from overlay.onehop.publications import OneHopPublications
from overlay.onehop.segments import Candidate
from overlay.onehop.stage import Group, Homes, Slot

HOME_LANE = 1
NUMBERS = 1 << 32


class MatcherPublications(OneHopPublications):
    """The matcher's side, and the homes'."""

    def attach(self, core: Core) -> None:
        super().attach(core)
        self._needs: dict[int, tuple[Registered, ...]] = {}  # by dispatcher, since its link is up
        core.on(Needs, self.on_needs)

    def lane_to(self, home: Member) -> Lane:
        lane = home.lane(HOME_LANE)
        assert lane is not None
        return lane

    def link_down(self, session: Session, now: float) -> None:
        self._needs.pop(session.id, None)

    def on_needs(self, member: Member, message: Needs, now: float) -> None:
        self._needs[member.id] = message.registered

    def forward(self, peer: Lane, batch: Batch, repeated: int, now: float) -> None:
        asked = isinstance(batch, HomeBatch) and batch.clients and unpack_question(batch.clients[0])
        if not asked or not isinstance(batch, HomeBatch):
            super().forward(peer, batch, repeated, now)
            return
        questions = [unpack_question(packed) or (0, 0) for packed in batch.clients[repeated:]]
        publications = batch.publications[repeated:]
        record = Settling(peer.incoming)
        peer.received_total += len(publications)
        for publication in publications:
            publication.hops += 1
        homes = self.find_homes(publications, [dimension for _, dimension in questions], peer.session.id)
        self.release(peer, [(p, found) for p, found in zip(publications, homes) if found], record, now)
        peer.incoming.settle_after(record)
        peer.touch()
        refused = [place for place, found in enumerate(homes) if found is None]
        if self.matching is not None and questions:
            numbers = [number for number, _ in questions]
            self.core.tell(Forwarded(numbers, refused, self.matching.load()), peer.session)

    def find_homes(
        self, publications: list[Publication], dimensions: list[int], asker: int
    ) -> list[Homes | None]:
        """For each whom it is for; None: that is not for us to say."""
        homes: list[Homes | None] = [None] * len(publications)
        needed = self._needs.get(asker)
        if self.matching is None or needed is None or not has_all(self.matching.registered(), needed):
            return homes
        for dimension in dict.fromkeys(dimensions):
            if dimension >= len(self.matching.dimensions):
                self.core.refuse("dimension")
                continue
            places = [place for place, one in enumerate(dimensions) if one == dimension]
            self.matching.meter.arrive(dimension, len(places))
            ask = Ask(0, dimension, [publications[place].attributes for place in places])
            matched = self.matching.match(ask)
            for position in set(range(len(places))).difference(matched.refused):
                homes[places[position]] = {}
            for match in matched.matches:
                for position, clients in zip(match.positions, match.clients):
                    found = homes[places[position]]
                    if found is not None:
                        found[match.home] = match.incarnation, clients
        return homes


class MatcherDelivery(Asking):
    """The publisher's dispatcher: a slot is answered when a matcher has forwarded it, and its batch settles
    when the matcher's stream has."""

    def attach(self, core: Core) -> None:
        super().attach(core)
        self._needed: dict[int, tuple[Registered, ...]] = {}  # what matchers know to be needed
        self._lost_at = -1.0  # a dispatcher, the last time
        core.on(Forwarded, self.on_forwarded)

    def _put(self, member: Member, candidate: Candidate, slots: list[Slot], now: float) -> None:
        numbers = [next(self._numbers) % NUMBERS for _ in slots]
        for number, slot in zip(numbers, slots):
            self.questions[number] = Question(candidate, [slot], now)
        if member is self.cluster.itself:
            self._forward_here(candidate, numbers, slots, now)
            return
        if (needs := self.needs(member)) != self._needed.get(member.id):
            self._needed[member.id] = needs
            member.tell(Needs(needs))
        out = member.out
        for place, (number, slot) in enumerate(zip(numbers, slots)):
            out.queue.append(slot.publication)
            out.ids.append(pack_question(number, candidate.dimension))
            if place + 1 == len(slots) or slots[place + 1].group is not slot.group:
                out.hold(slot.group.record)

    def _forward_here(self, candidate: Candidate, numbers: list[int], slots: list[Slot], now: float) -> None:
        """A broker with both roles is its own matcher."""
        here = self.publications
        assert isinstance(here, MatcherPublications) and here.matching is not None
        here.on_needs(self.cluster.itself, Needs(self.needs(self.cluster.itself)), now)
        dimensions = [candidate.dimension] * len(slots)
        homes = here.find_homes([slot.publication for slot in slots], dimensions, self.core.id)
        for slot, found in zip(slots, homes):
            if found:
                here.release(slot.stage.side, [(slot.publication, found)], slot.group.record, now)
        refused = [place for place, found in enumerate(homes) if found is None]
        self.on_forwarded(self.cluster.itself, Forwarded(numbers, refused, here.matching.load()), now)

    def on_forwarded(self, member: Member, message: Forwarded, now: float) -> None:
        self.reporting.learn(member.id, message.load, now)
        refused, again = set(message.refused), []
        for place, number in enumerate(message.numbers):
            question = self.questions.get(number)
            if question is None or question.candidate.matcher != member.id:
                continue
            del self.questions[number]
            self._ended(question, now)
            (slot,) = question.slots
            if place in refused:
                again.append(slot)
            elif slot.matches is None:
                slot.matches = {}
                slot.stage.answered(slot)
                self._release(slot.stage, now)
        self._ask_again(again, now)

    def link_down(self, session: Session, now: float) -> None:
        if not isinstance(session, Member):
            return
        self._needed.pop(session.id, None)
        slots = self._forget_questions(session)
        slots += self._take_back(session, {_key(slot.publication) for slot in slots}, now)
        self._ask_again(slots, now)

    def link_lost(self, session: Session, now: float) -> None:
        super().link_lost(session, now)
        if isinstance(session, Member) and session.counts:
            self._lost_at = now

    def _take_back(self, member: Member, again: set[tuple[int, int, int]], now: float) -> list[Slot]:
        """What it has forwarded, but not everywhere as far as we know; `again` are asked again anyhow.
        Whether it was owed to a dispatcher that is lost meanwhile only the matcher knew."""
        taken = []
        for one in unsettled(member):
            values = self._values(one.publication)
            if values is None or _key(one.publication) in again:
                continue
            if one.publication.accepted_at <= self._lost_at:
                one.record.cuts += cuts_of([one.publication], CUT_LINK_LOST)
            one.record.pending += 1
            source = one.publication.publisher, one.publication.incarnation
            stage = self._stage(source, member)
            slot = Slot(one.publication, values, Group(one.record, 1), stage, now)
            stage.add(slot)
            taken.append(slot)
        if member.out.end() > member.out.settled:
            let_go(member)
            member.out.new_epoch(0)
            member.epoch = 0
        return taken


def _key(publication: Publication) -> tuple[int, int, int]:
    return publication.publisher, publication.incarnation, publication.sequence
