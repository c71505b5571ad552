"""What a lost side was owed is cut and told, not settled (DECISIONS 23; the rule *tombstone* of tests/model).

When a side is given up, publications for those behind it may still be on their way from their first brokers.
So the side's subscriptions stand for a while, as *tombstones*: they remain announced towards the publishers,
and what matches one is cut here. Of a neighbour from before our restart that never came back nobody knows
what it wanted: its tombstone matches everything, and is announced like a subscription of ours.

Everybody towards the publishers is asked (Drain). The first answer, Accepted, comes at once and says how far
each publisher had come: what is newer is not cut, nor is anything of others if all have answered. The second,
Drained, comes when all of that is settled or cut; then the tombstones go. Who cannot be asked is waited for,
and asked when it is back; until it has answered, nobody knows how far its publishers had come, and theirs is
cut. Who speaks a protocol without these messages is waited for until a deadline. A live word of a
subscription takes its tombstone's place at once; but what comes from the very side that tells it was sent for
the side that is lost, and is cut as before.

A neighbour that left in good order, or whose link a move has replaced, leaves none: what was for it has been
handed on.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from grapevine.filters import EVERYTHING
from grapevine.wire.draining import Accepted, AcceptedUpTo, Drain, Drained
from grapevine.wire.limits import ACCEPTED
from grapevine.wire.messages import CUT_LINK_LOST, RESENT, Publication
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.duplicates import LastSeen, Source
from overlay.data.path import Publications
from overlay.gather import Gather
from overlay.links.session import Session
from overlay.links.settling import Settling, cuts_of
from overlay.tree.missing import MissingBrokers
from overlay.tree.peer import Peer, peers_of
from overlay.tree.router import Burial, TreeRouter
from overlay.tree.subscriptions import SubscriptionEntry
from overlay.tree.turned import TurnedSubscriptions

LOOK_AGAIN_S = 0.02
_NUMBER = Struct("<I")  # of a client's subscription
PATIENCE = 3  # times lost_after_s: by then whoever was asked has answered or will not come back

UpTo = dict[Source, int]
Know = Callable[[UpTo, bool], None]  # with whether of nobody else anything was accepted


class Question(NamedTuple):
    know: Know  # called when all that are there have said how far publishers had come, and with later words
    accepted: Gather  # quick: who is away does not answer
    drained: Gather
    unheard: set[Peer]  # who has not spoken for everybody behind it
    own: bool  # and `know` may hear of each answer when it comes


class Absent:
    """Stands for a broker that was asked and then lost: what it had accepted may come when it is back."""

    def __init__(self) -> None:
        self.gathers: dict[Gather, None] = {}
        self.questions: list[Question] = []


class Tombstones(Quiet):
    name = "tombstones"
    after = ("Subscriptions", "Advertisements", "TreeRouter")

    def __init__(self, router: TreeRouter, publications: Publications, missing: MissingBrokers) -> None:
        self.router = router
        self.subscriptions = router.subscriptions
        self.advertisements = router.advertisements
        self.subscriptions.bury = self.bury
        self.subscriptions.turned = self._turned
        self.underway = TurnedSubscriptions(self.subscriptions.matcher)
        self.publications = publications
        self.seen: LastSeen = publications.seen
        self.seen.remembers = True  # who goes with a lost side may come back from another
        publications.was_owed = self._was_owed
        self.missing = missing
        missing.changed.append(self._missing_changed)
        self.buried = 0  # sides so far
        self._stamp = 0
        self._asked: dict[Peer, dict[int, Question]] = {}  # by stamp, until they have answered
        self._absent: dict[int, Absent] = {}  # by broker

    def attach(self, core: Core) -> None:
        self.core = core
        self.seen.now = lambda: core.last_serial + 1
        self.underway.attach(core)
        core.on(Drain, self.on_drain)
        core.on(Accepted, self.on_accepted)
        core.on(Drained, self.on_drained)
        self.subscriptions.announcements.sync.forget_stale.append(self._synced)

    # --- a side is lost -------------------------------------------------------------------------------

    def link_losing(self, session: Session, now: float) -> None:
        """What is on its way to somebody that nobody here knows must come here to be cut, also past brokers
        that have restarted meanwhile and know nobody either."""
        if not isinstance(session, Peer) or not _unknown(session) or session.departed or session.retiring:
            return
        if self._known_from(session) is None:
            self.subscriptions.stand_for(session, EVERYTHING, now)

    def bury(self, peer: Peer) -> bool:
        """Whether its subscriptions are to stand for a while."""
        if peer.departed or peer.retiring or not (_unknown(peer) or self.subscriptions.table.of(peer)):
            return False
        self.buried += 1
        peer.buried = True
        held = bool(self.publications.held)
        self.router.lost[peer] = burial = Burial(_unknown(peer), held, self.subscriptions.matcher())
        burial.only = self._known_from(peer)
        self._know_publishers()
        peer.out.undeliverable = burial.owed
        return True

    def _known_from(self, peer: Peer) -> Peer | None:
        """The neighbour behind which it lies by now, and that tells what is wanted there; None while anybody
        is missing: that may be somebody who was behind it. What comes from that very side was perhaps sent
        here for the one that was lost."""
        return None if self.missing.brokers() else self.missing.elsewhere(peer.id)

    def _look_for_lost(self) -> None:
        for peer, burial in self.router.lost.items():
            if burial.unknown and (only := self._known_from(peer)) is not burial.only:
                burial.only = only
                self.subscriptions.generation += 1

    def _turned(self, entry: SubscriptionEntry, peer: Peer) -> None:
        """Another side tells by now what was behind this one, which is lost, or has forgotten it. (The entry
        may be withdrawn and its number given to another while the tombstone stands.)"""
        if (burial := self.router.lost.get(peer)) is not None:
            burial.turned.add(len(burial.turned), entry.item.filter, entry.source.number)
            burial.filters.append(entry.item.filter)
            self.subscriptions.mentions.add(entry.item.filter)
        elif not (peer.lost or peer.departed or peer.going or self.subscriptions.table.takes_over):
            self.underway.turn(entry.item.filter, peer)  # unless a move hands on what is under way

    def _know_publishers(self) -> None:
        """Whoever comes from now on had not published before: an advertisement is confirmed when everybody
        has it. Not while a neighbour has never said SyncDone."""
        waiting = [burial for burial in self.router.lost.values() if burial.publishers is None]
        peers = peers_of(self.core).values()
        if waiting and all(peer.ever_synced or peer.going or peer.lost for peer in peers):
            publishers = frozenset(self.router.sources)
            for burial in waiting:
                burial.publishers = publishers

    def link_lost(self, session: Session, now: float) -> None:
        if not isinstance(session, Peer):
            return
        self._await_absent(session)
        if (burial := self.router.lost.get(session)) is not None:
            drained = self._drain(None, burial.know, lambda later: self._forget(session, later), now)
            burial.sides = drained.parts
            later = now + self.core.settings.links.lost_after_s
            self.core.timers.at(later, lambda then: self._withdraw(session, then))
            self.subscriptions.generation += 1

    def _await_absent(self, peer: Peer) -> None:
        """Who has come in the place of one that has left is asked in its place: it held what was for that."""
        peers = peers_of(self.core)
        for question in self._asked.pop(peer, {}).values():
            if not question.drained.open:
                continue
            if peer.departed:
                for heir in [peers[broker] for broker in peer.heirs if broker in peers]:
                    self._ask(heir, question)
            else:
                absent = self._absent.setdefault(peer.id, Absent())
                absent.questions.append(question)
                question.drained.wait_for(absent)  # type: ignore[arg-type]

    def _withdraw(self, peer: Peer, now: float) -> None:
        """Whoever has not answered by now is away: nothing waits for a tombstone any longer; what comes from
        there later is still cut."""
        if peer in self.router.lost:
            dead = [entry for entry in self.subscriptions.table.of(peer) if entry.source is peer]
            for entry in dead:  # others have a live word by now
                for announced in self.subscriptions.announced.values():
                    announced.remove(entry.number, now)
            self.subscriptions.announcements.sync.check_all(now)

    def _forget(self, peer: Peer, now: float) -> None:
        if (burial := self.router.lost.pop(peer, None)) is None:
            return
        peer.buried = False
        for filter in burial.filters:
            self.subscriptions.mentions.remove(filter)
        for entry in self.subscriptions.table.of(peer):
            self.subscriptions.forget(entry, peer, now)
        self.subscriptions.table.drop(peer)
        self.subscriptions.generation += 1

    # --- what clients send again ---------------------------------------------------------------------

    def _adopted(self, publications: list[Publication], record: Settling) -> None:
        """A client that comes from elsewhere sends its unsettled ones again. Its former broker may have owed
        them to somebody behind a side that was lost, here or elsewhere (the rule *tombstone-adopted*)."""
        if again := [publication for publication in publications if publication.flags & RESENT]:
            record.cuts += cuts_of(again, CUT_LINK_LOST)

    def _was_owed(self, clients: list[tuple[Client, bytes]], when: int) -> bool:
        """Whether one of these had a confirmed subscription for it when newer ones came. What is replayed was
        mostly settled before, and never went to those who have come since."""
        confirmed_before = self.router.confirmed.before
        return any(
            number in client.subscriptions and confirmed_before(client.subscriptions[number], when)
            for client, numbers in clients
            for (number,) in _NUMBER.iter_unpack(numbers)
        )

    def _missing_changed(self, now: float) -> None:
        self.publications.adopted = self._adopted if self.missing.brokers() else None
        self._look_for_lost()

    def _synced(self, peer: Peer, now: float) -> None:
        self._know_publishers()
        self._look_for_lost()

    # --- draining -------------------------------------------------------------------------------------

    def _drain(self, source: Peer | None, know: Know, done: Callable[[float], None], now: float) -> Gather:
        """`know` hears how far publishers here, and on other sides than `source`, have come; `done` is called
        when all that is settled."""
        here = self._accepted_here()
        quick = Gather(lambda gather, later: know(_together(here, gather.answers), not unheard))
        unheard: set[Peer] = set()

        def finish(gather: Gather, later: float) -> None:
            self._let_go(gather)
            done(later)

        gather = Gather(finish, patient=True)
        question = Question(know, quick, gather, unheard, source is None)
        if question.own:
            know(here, False)
        sides = {entry.source: None for entry in self.advertisements.table.by_key.values()}
        for peer in list(peers_of(self.core).values()):
            heard = peer.ever_synced and peer.speaks(Drain)
            gone = peer.retiring or (peer.going and peer.tells is not None)  # a leaver still answers
            if peer is source or gone or (heard and peer not in sides):
                continue
            unheard.add(peer)
            if _too_old(peer):
                gather.wait_for(peer)  # until the deadline, or until it is lost
            else:
                self._ask(peer, question)
        deadline = now + PATIENCE * self.core.settings.links.lost_after_s
        gather.deadline = self.core.timers.at(deadline, gather.expire)
        marks: dict[Session, int] = {c: c.incoming.received for c in self.core.numbered.values()}
        for client in marks:
            gather.wait_for(client)
        quick.start(now)
        gather.start(now)
        self._watch(gather, marks, now)
        return gather

    def _let_go(self, drained: Gather) -> None:
        """Nobody's answer is waited for any more: all have come, or the time is over."""
        for peer, asked in list(self._asked.items()):
            self._asked[peer] = {stamp: q for stamp, q in asked.items() if q.drained is not drained}
            if not self._asked[peer]:
                del self._asked[peer]
        for broker, absent in list(self._absent.items()):
            absent.questions = [question for question in absent.questions if question.drained is not drained]
            if not absent.questions:
                del self._absent[broker]

    def _accepted_here(self) -> UpTo:
        """Also of those that have advertised and not published yet."""
        clients = self.core.numbered.values()
        publishers = [(client.id, client.incarnation) for client in clients if client.publishes]
        last, held = self.seen.last, self.publications.held
        return {source: max(last.get(source, 0), held.get(source, 0)) for source in publishers}

    def _watch(self, gather: Gather, marks: dict[Session, int], now: float) -> None:
        """Local publishers: how far each had come when the question arrived."""
        waiting = {}
        for client, mark in marks.items():
            if client.incoming.settled >= mark or client.lost:
                gather.answer(client, None, now)
            else:
                waiting[client] = mark
        if waiting and gather.open:
            self.core.timers.at(now + LOOK_AGAIN_S, lambda later: self._watch(gather, waiting, later))

    def _ask(self, peer: Peer, question: Question) -> None:
        self._stamp += 1
        self._asked.setdefault(peer, {})[self._stamp] = question
        question.drained.wait_for(peer)
        if peer.link is not None:
            if question.accepted.open:
                question.accepted.wait_for(peer)
            self.core.tell(Drain(self._stamp), peer)

    def on_drain(self, peer: Peer, message: Drain, now: float) -> None:
        link = peer.link

        def accepted(up_to: UpTo, complete: bool) -> None:
            if link is not None and peer.link is link:
                known = [AcceptedUpTo(*source, last) for source, last in up_to.items()]
                complete = complete and len(known) <= ACCEPTED
                self.core.send(Accepted(message.stamp, tuple(known[:ACCEPTED]), complete), link)

        def done(later: float) -> None:
            if link is not None and peer.link is link:
                self.core.send(Drained(message.stamp), link)

        self._drain(peer, accepted, done, now)

    def on_accepted(self, peer: Peer, message: Accepted, now: float) -> None:
        question = self._asked.get(peer, {}).get(message.stamp)
        if question is None:
            return
        up_to = {(one.publisher, one.incarnation): one.sequence for one in message.publishers}
        if message.complete:
            question.unheard.discard(peer)
        late = not question.accepted.open  # it was away when the others answered
        if late or question.own:
            question.know(up_to, not question.unheard)
        if not late:
            question.accepted.answer(peer, up_to, now)

    def on_drained(self, peer: Peer, message: Drained, now: float) -> None:
        asked = self._asked.get(peer, {})
        question = asked.pop(message.stamp, None)
        if not asked:
            self._asked.pop(peer, None)
        if question is not None:
            question.drained.answer(peer, None, now)
            self.subscriptions.generation += 1

    def link_up(self, session: Session, now: float) -> None:
        """Its answers are lost with the former link."""
        if isinstance(session, Peer):
            if (absent := self._absent.pop(session.id, None)) is not None:
                for question in absent.questions:
                    self._ask(session, question)
                    question.drained.answer(absent, None, now)  # type: ignore[arg-type]
                return
            for stamp in self._asked.get(session, {}):
                self.core.tell(Drain(stamp), session)

    def status(self) -> Status:
        return {"buried": self.buried, "waiting": [peer.name for peer in self.router.lost]}

    def validate(self) -> None:
        for peer in self.router.lost:
            assert peer.lost and peer.buried, peer


def _unknown(peer: Peer) -> bool:
    """A neighbour from before our restart that never came back: nobody knows what was wanted there."""
    return peer.awaited and not peer.ever_synced


def _too_old(peer: Peer) -> bool:
    """Whether it is there and cannot be asked: for what may come from there only time tells."""
    return peer.link is not None and not peer.speaks(Drain)


def _together(here: UpTo, answers: list[UpTo]) -> UpTo:
    together = dict(here)
    for up_to in answers:
        for source, last in up_to.items():
            together[source] = max(last, together.get(source, 0))
    return together
