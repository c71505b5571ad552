"""What the subscribers of this broker want of the ring, and the roots' answers.

A broker is a member of a topic while one of its subscriptions names it; the first and the last one are told
to the root. Every word has a number that rises, so that an old one that comes late is known as old. A word
is repeated until the root answers, and all of them once in a while. What is to reach a key is split by next
hops, one message for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from grapevine.wire.chord import Member, MemberGone, RingNode, TopicKnown, TopicWant
from grapevine.wire.limits import HOPS
from overlay.behaviour import Quiet, Status
from overlay.chord.membership import Membership
from overlay.chord.registry import CHUNK
from overlay.chord.roots import Roots
from overlay.core import Core
from overlay.links.session import Session


class Wants(Quiet):
    def __init__(self, membership: Membership, roots: Roots) -> None:
        self.membership = membership
        self.roots = roots
        self.contacts = membership.contacts
        self.subscribed: dict[int, int] = {}  # topic -> subscriptions of ours
        self.lasting: dict[int, int] = {}  # topic -> streams among them
        self.known: dict[int, bool] = {}  # topics told: whether their root has answered
        self._numbers: dict[int, int] = {}  # of the first word that said what is so now
        self._left: dict[int, None] = {}  # topics left, until their roots answer
        self._refreshing: dict[int, None] = {}  # topics repeated, until their roots answer
        self._waiting: dict[Callable[[float], None], set[int]] = {}
        self._number = 0

    @property
    def unanswered(self) -> bool:
        """Whether a root may still take us for a member that we are not."""
        return bool(self._left)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def attach(self, core: Core) -> None:
        self.core = core
        self._number = core.incarnation << 20
        core.on(TopicWant, self.on_want)
        core.on(TopicKnown, self.on_known)
        core.on(MemberGone, self.on_gone)
        self.membership.on_member.append(self._joined)

    def start(self, now: float) -> None:
        self._refreshed_at = now
        self._again(now)

    def _again(self, now: float) -> None:
        settings = self.membership.settings
        if now - self._refreshed_at >= settings.refresh_s:
            self._refreshed_at = now
            self._refreshing = dict.fromkeys(self.subscribed)
        unknown = (topic for topic, known in self.known.items() if not known)
        self._say(dict.fromkeys((*unknown, *self._refreshing)), list(self._left), now)
        self.core.timers.at(now + settings.retry_s, self._again)

    def _joined(self, now: float) -> None:
        """As another node than before, perhaps: all is said anew."""
        self.known = dict.fromkeys(self.subscribed, False)
        self._numbers.clear()
        self._left.clear()
        self._say(list(self.subscribed), (), now)

    # --- our subscriptions ------------------------------------------------------------------------------

    def subscribe(
        self, topics: Iterable[int], confirmed: Callable[[float], None], now: float, lasting: bool = False
    ) -> None:
        """`confirmed` is called when the roots of all of them know."""
        fresh = []
        for topic in topics:
            self.subscribed[topic] = self.subscribed.get(topic, 0) + 1
            if topic not in self.known or (lasting and topic not in self.lasting):
                self.known[topic] = False
                self._numbers.pop(topic, None)
                fresh.append(topic)
            if lasting:
                self.lasting[topic] = self.lasting.get(topic, 0) + 1
            if topic in self._left:
                del self._left[topic]
                self._numbers.pop(topic, None)
        self.await_known(topics, confirmed, now)
        self._say(fresh, (), now)

    def await_known(self, topics: Iterable[int], confirmed: Callable[[float], None], now: float) -> None:
        missing = {topic for topic in topics if not self.known.get(topic)}
        if missing:
            self._waiting[confirmed] = missing
        else:
            confirmed(now)

    def unsubscribe(self, topics: Iterable[int], now: float, lasting: bool = False) -> None:
        left: list[int] = []
        changed: list[int] = []
        for topic in topics:
            self.subscribed[topic] -= 1
            if lasting and self._last_stream(topic) and self.subscribed[topic]:
                changed.append(topic)
            if not self.subscribed[topic]:
                del self.subscribed[topic]
                del self.known[topic]
                self._refreshing.pop(topic, None)
                self._numbers.pop(topic, None)
                self._left[topic] = None
                left.append(topic)
        for call, missing in list(self._waiting.items()):
            missing.difference_update(left)
            if not missing:  # what has ended is waited for by nobody else
                del self._waiting[call]
                call(now)
        self._say(changed, left, now)

    def _last_stream(self, topic: int) -> bool:
        """Nothing is owed any more to who is away; who waits to be known need not wait for that."""
        self.lasting[topic] -= 1
        if self.lasting[topic]:
            return False
        del self.lasting[topic]
        self._refreshing[topic] = None
        return True

    def unwanted(self, topic: int, now: float) -> None:
        """A publication came for a topic that nobody here wants any more."""
        if topic not in self.subscribed and topic not in self._left:
            self._left[topic] = None
            self._say((), (topic,), now)

    def _say(self, topics: Iterable[int], left: Iterable[int], now: float) -> None:
        if not self.membership.member or not self.membership.known_before:
            return
        wanted = list(topics)
        if self.lasting:
            lasting = [topic for topic in wanted if topic in self.lasting]
            wanted = [topic for topic in wanted if topic not in self.lasting]
            self._say_all(lasting, (), True, now)
        self._say_all(wanted, left, False, now)

    def _say_all(self, topics: Iterable[int], left: Iterable[int], lasting: bool, now: float) -> None:
        me, each = self.membership.me, iter((*((t, True) for t in topics), *((t, False) for t in left)))
        while chunk := tuple(islice(each, CHUNK)):
            self._number += 1
            member = Member(me.position, me.broker, me.incarnation, self._number, lasting)
            wanted = tuple(topic for topic, joins in chunk if joins)
            gone = tuple(topic for topic, joins in chunk if not joins)
            for topic, _ in chunk:
                self._numbers.setdefault(topic, self._number)
            self._route(TopicWant(self._number, member, wanted, gone, 0), now)

    def abandon(self, now: float) -> None:
        """This plane goes: nobody waits for its roots any more."""
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            call(now)

    def take_over(self, before: Wants) -> None:
        """All that was wanted elsewhere, and who waits for it."""
        self.subscribed, self.lasting = dict(before.subscribed), dict(before.lasting)
        self.known = dict.fromkeys(self.subscribed, False)
        self._waiting, before._waiting = before._waiting, {}

    # --- on the way -------------------------------------------------------------------------------------

    def on_want(self, session: Session, want: TopicWant, now: float) -> None:
        self._route(want, now)

    def _route(self, want: TopicWant, now: float) -> None:
        """Take what is ours, pass the rest on; what leads nowhere now is repeated by who wants it."""
        hops: dict[RingNode, tuple[list[int], list[int]]] = {}
        mine: list[int] = []
        gone: list[int] = []
        for topics, joins in ((want.topics, True), (want.left, False)):
            for topic in topics:
                if self.roots.is_root(topic):
                    (mine if joins else gone).append(topic)
                elif self.roots.rebuilding.takes(topic):
                    # Not answered: another may be the root, and only a root's word counts.
                    self._note(topic, want, joins, now)
                elif not self.membership.is_here(topic):
                    if (hop := self.membership.hop_to_key(topic)) is not None:
                        hops.setdefault(hop, ([], []))[not joins].append(topic)
        if mine:
            self._take(want, tuple(mine), now)
        if gone:
            for topic in gone:
                self._note(topic, want, False, now)
            self._answer(TopicKnown(want.number, want.member, tuple(gone), False, 0), now)
        if want.hops < HOPS:
            for hop, (wanted, left) in hops.items():
                passed = TopicWant(want.number, want.member, tuple(wanted), tuple(left), want.hops + 1)
                self.contacts.tell(hop, passed)

    def _note(self, topic: int, want: TopicWant, joins: bool, now: float) -> None:
        if joins:
            self.roots.add(topic, want.member, lambda later: None, now)
        else:
            self.roots.remove(topic, want.member.position, want.member.incarnation, want.number)

    def _take(self, want: TopicWant, topics: tuple[int, ...], now: float) -> None:
        def known(later: float) -> None:
            self._answer(TopicKnown(want.number, want.member, topics, False, 0), later)

        for topic in topics[:-1]:
            self._note(topic, want, True, now)
        self.roots.add(topics[-1], want.member, known, now)

    def on_known(self, session: Session, known: TopicKnown, now: float) -> None:
        self._answer(known, now)

    def _answer(self, known: TopicKnown, now: float) -> None:
        me = self.membership.me
        if known.member.position == me.position:
            if known.member.incarnation == me.incarnation:
                self._answered(known, now)
        elif known.hops < HOPS and (hop := self.membership.hop_to(known.member.position)) is not None:
            passed = TopicKnown(known.number, known.member, known.topics, known.gone, known.hops + 1)
            self.contacts.tell(hop, passed)

    def _answered(self, known: TopicKnown, now: float) -> None:
        if known.gone:
            again = [topic for topic in known.topics if topic in self.known]
            self.known |= dict.fromkeys(again, False)
            for topic in again:
                self._numbers.pop(topic, None)
            self._say(again, (), now)
            return
        for topic in known.topics:
            if known.number >= self._numbers.get(topic, 0):  # of our last word, or a later one
                self._left.pop(topic, None)
                self._refreshing.pop(topic, None)
                if topic in self.known:
                    self.known[topic] = True
                else:
                    self._numbers.pop(topic, None)
        for call, missing in list(self._waiting.items()):
            missing.difference_update([topic for topic in known.topics if self.known.get(topic)])
            if not missing:
                del self._waiting[call]
                call(now)

    # --- the dead ---------------------------------------------------------------------------------------

    def gone(self, position: int, incarnation: int, topics: Iterable[int], now: float) -> None:
        """Publications for a node that is no longer there were cut: its roots forget it."""
        self._pass_gone(MemberGone(position, incarnation, tuple(topics), 0), now)

    def on_gone(self, session: Session, gone: MemberGone, now: float) -> None:
        me = self.membership.me
        if gone.topics or (gone.position, gone.incarnation) != (me.position, me.incarnation):
            self._pass_gone(gone, now)
        elif self.membership.member:
            self.membership.rejoin(now)  # another took our place while we were silent

    def _pass_gone(self, gone: MemberGone, now: float) -> None:
        hops: dict[RingNode, list[int]] = {}
        for topic in gone.topics:
            if self.roots.is_root(topic):
                self._forget(topic, gone, now)
            elif (hop := self.membership.hop_to_key(topic)) is not None:
                hops.setdefault(hop, []).append(topic)
        if gone.hops < HOPS:
            for hop, topics in hops.items():
                passed = MemberGone(gone.position, gone.incarnation, tuple(topics), gone.hops + 1)
                self.contacts.tell(hop, passed)

    def _forget(self, topic: int, gone: MemberGone, now: float) -> None:
        known = self.roots.members(topic).get(gone.position)
        if known is not None and known.incarnation <= gone.incarnation:
            self.roots.lose(topic, known, now)
            self._answer(TopicKnown(known.number, known, (topic,), True, 0), now)

    def status(self) -> Status:
        return {}
