"""Who is the root of which topics, and what a root knows (DYNATOPS 3; docs/adr on the ring).

A broker is the root of the topics whose keys lie on its arc, from `begin` (not included) to its position:
not because the ring says so, but because it has all that is known of their members. The arc grows when the
root before it dies, by that one's copy; it shrinks when a newcomer takes its part over. So a broker that
does not know who wants a topic never takes it for one that nobody wants: publications wait.

A root tells its first successors every change, and a member is told that it is known only when they have
it. Before an arc is given away what was sent to its topics is settled; publications wait meanwhile and then
follow to the new root. A root that dies together with all its copies is rebuilt from what the members
repeat; publications wait for that, and the broker says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grapevine.wire.chord import (
    ArcAsk,
    ArcGive,
    ArcTaken,
    Member,
    RingNode,
    RootCopied,
    RootCopy,
)
from overlay.behaviour import Quiet, Status
from overlay.chord.away import FOREVER, Away
from overlay.chord.followed import Followed
from overlay.chord.former import Former
from overlay.chord.holders import Holders
from overlay.chord.membership import Membership
from overlay.chord.rebuilding import Rebuilding
from overlay.chord.registry import (
    Copy,
    Giving,
    Rest,
    Topics,
    divided,
    entries,
    founding_copies,
    silent,
    silent_s,
    take,
)
from overlay.chord.ring import between, owns
from overlay.core import Core
from overlay.links.session import Session


class Roots(Quiet):
    name = "topics"

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.contacts = membership.contacts
        self.begin: int | None = None  # of our arc; None: we are no root yet
        self.topics: Topics = {}
        self.copies: dict[RingNode, Copy] = {}
        self.followed = Followed(self)
        self.holders = Holders(membership, self)
        self._heard: dict[tuple[int, int], float] = {}  # when a topic's member last said that it is one
        self.away = Away()
        self.rest: Rest | None = None  # before our arc
        self.giving: Giving | None = None
        self.left_to: RingNode | None = None  # who is the root of what we were, since we leave
        self.rebuilding = Rebuilding(self, self._arc_changed)
        self.former = Former(membership, self)
        self.on_rooted: list[Callable[[float], None]] = []
        self.drain: Callable[[Callable[[int], bool], Callable[[float], None]], None]  # set by the path
        self._taking: dict[int, Topics] = {}
        self._number = 0
        self._asked_early: tuple[Session, ArcAsk] | None = None
        self._left: Callable[[float], None] | None = None
        membership.on_formed.append(self._formed)
        membership.on_member.append(self._joined)
        membership.on_predecessor += [self._extend, self._answer_early]
        membership.on_pointers.append(self._pointed)
        membership.on_rejoin.append(self.reset)

    def attach(self, core: Core) -> None:
        self.core = core
        self.away.patience_s = self.membership.settings.lost_after_s
        self.away.forever_s = FOREVER * core.settings.links.lost_after_s
        core.on(RootCopy, self.on_copy)
        self.holders.attach(core)
        self.rebuilding.attach(core)
        core.on(ArcAsk, self.on_ask)
        core.on(ArcGive, self.on_give)
        core.on(ArcTaken, self.on_taken)

    def start(self, now: float) -> None:
        self._again(now)

    def _again(self, now: float) -> None:
        self._ask(now)
        if self.giving is not None and self.giving.ready:
            self._send_arc(self.giving, self.giving.topics)
        self._give_to_next(now)
        self._expire(now)
        self.core.timers.at(now + self.membership.settings.stabilise_s, self._again)

    # --- questions --------------------------------------------------------------------------------------

    @property
    def here(self) -> int:
        return self.membership.me.position

    def is_root(self, key: int) -> bool:
        """Whether publications of the topic are sent to its members from here, now."""
        if self.begin is None or not owns(self.begin, self.here, key):
            return False
        return self.giving is None or not self.giving.holds(key)

    def held(self, key: int) -> bool:
        return self.giving is not None and self.giving.holds(key)

    @property
    def given(self) -> RingNode | None:
        """Who is being given the first part of our arc."""
        return None if self.giving is None or self._left is not None else self.giving.node

    def nodes(self) -> Iterator[RingNode]:
        """Whose death would be news: who is given topics, or was, and whose topics we would have then."""
        if self.giving is not None:
            yield self.giving.node
        if self.rest is not None:
            yield self.rest.node
        if self.left_to is not None:
            yield self.left_to
        yield from self.copies

    @property
    def may_be_last(self) -> bool:
        """Whether we may be the last: to know the topics of a root that has not chosen another holder of its
        copy yet, or is dead; or on the lists of those before us."""
        return self.membership.open_before or any(copy.complete for copy in self.copies.values())

    def link_up(self, session: Session, now: float) -> None:
        self.holders.link_up(session)
        self.followed.link_up(session)

    def members(self, key: int) -> dict[int, Member]:
        return self.topics.get(key, {})

    # --- members ----------------------------------------------------------------------------------------

    def add(self, key: int, member: Member, known: Callable[[float], None], now: float) -> None:
        """`known` is called when those who would follow us have it too."""
        members = self.topics.setdefault(key, {})
        self._heard[key, member.position] = now
        before = members.get(member.position)
        if before is None or (before.incarnation, before.number) < (member.incarnation, member.number):
            for elsewhere in [one for one in members.values() if one.broker == member.broker]:
                if elsewhere.incarnation < member.incarnation:  # it has restarted at another position
                    del members[elsewhere.position]
            members[member.position] = member
            self.away.heard(key, member)
            if before is None or _differ(before, member):
                self.holders.tell((key,))
        self.holders.when_copied(known, now)

    def remove(self, key: int, position: int, incarnation: int, number: int) -> bool:
        """Unless a later word of it is known."""
        members = self.topics.get(key)
        known = None if members is None else members.get(position)
        if known is None or (known.incarnation, known.number) > (incarnation, number):
            return False
        assert members is not None
        del members[position]
        self.away.forget(key, position)
        if not members:
            del self.topics[key]
        self.holders.tell((key,))
        return True

    def lose(self, key: int, member: Member, now: float) -> None:
        """No way leads to it, or it says nothing. What is lasting is away, for a while."""
        if not member.lasting or self.away.for_good(key, member, now):
            self.remove(key, member.position, member.incarnation, member.number)

    def _expire(self, now: float) -> None:
        """Who has repeated nothing for long is gone: a broker that failed says nothing else."""
        settings = self.membership.settings
        since = now - silent_s(settings.refresh_s, self.core.settings.links.ping_s, settings.lost_after_s)
        if self.giving is not None:
            self._heard.clear()  # nobody is heard meanwhile
        gone, self._heard = silent(self.topics, self._heard, now, since)
        for key, member in gone:
            self.lose(key, member, now)
        if self.begin is not None:
            self._superseded(self.begin, self.membership.me)
        for node, copy in list(self.copies.items()):
            if not self.contacts.dead(node):
                self._superseded(copy.begin, node)
            elif copy.dead_since is None:
                copy.dead_since = now
            elif now - copy.dead_since > 2 * self.membership.settings.lost_after_s and self._others(node):
                self.copies.pop(node, None)

    # --- others' copies -----------------------------------------------------------------------------------

    def on_copy(self, session: Session, message: RootCopy, now: float) -> None:
        node = message.node
        if node.broker != session.id:
            return
        for other in [one for one in self.copies if one.broker == node.broker and one != node]:
            if other.incarnation < node.incarnation and not self.contacts.dead(other):
                del self.copies[other]
        if message.first or node not in self.copies:
            self.copies[node] = Copy(node, message.begin)
        copy = self.copies[node]
        copy.begin, copy.given = message.begin, message.given
        take(copy.topics, message.entries)
        copy.complete = copy.complete or message.last
        if not message.number:
            del self.copies[node]
            return
        if self.rest is not None and self.rest.node.position == node.position:
            self.rest = None  # it has them
        self.core.tell(RootCopied(message.number), session)
        self._superseded(message.begin, node)

    def _others(self, node: RingNode) -> bool:
        """Whether what a dead root had is none of our business: somebody who lives is between us."""
        before = self.membership.predecessor
        if before is None or self.begin is None or self.contacts.dead(before):
            return False
        return before.position == self.begin or not owns(before.position, self.begin, node.position)

    def _superseded(self, begin: int, root: RingNode) -> None:
        """Another is the root there now: what the dead have left is old."""
        for other in list(self.copies):
            if other != root and owns(begin, root.position, other.position) and self.contacts.dead(other):
                del self.copies[other]

    def died(self, node: RingNode, now: float) -> None:
        if self.giving is not None and self.contacts.dead(self.giving.node):
            self.giving = None
            if self._left is not None:
                self.hand_over(self._left, now)
            else:
                self.holders.tell_given()
                self._rooted(now)
        if self.left_to is not None and self.contacts.dead(self.left_to):
            self.left_to = next((one for one in self.membership.successors if one != self.left_to), None)
        self._extend(now)
        self.holders.choose(now)

    def _extend(self, now: float) -> None:
        """The root before us is dead: its topics are ours, or go with what we give and have not sent yet."""
        giving = self.giving
        if self.begin is None or (giving is not None and (giving.ready or self._left is not None)):
            return
        extended = False
        while (copy := self._copy_before()) is not None:
            del self.copies[copy.node]
            self.rebuilding.stop()
            self._absorb(copy)
            extended = True
        rest = self.rest
        if rest is not None and self.contacts.dead(rest.node) and rest.node.position == self.begin:
            self._take_rest(rest)
            extended = True
        if extended:
            self._superseded(self.begin, self.membership.me)
            self._arc_changed(now)
            if giving is not None and self.giving is giving:
                self._number += 1
                self._give(Giving(giving.node, self.begin, giving.end, self._number))
        self.rebuilding.look(now)

    def _absorb(self, copy: Copy) -> None:
        self.followed.add(copy.node)
        begin, self.rest = divided(copy)
        self._know(copy, begin)
        self.begin = self.here if owns(begin, copy.node.position, self.here) else begin

    def _know(self, copy: Copy, begin: int) -> None:
        """What it says of the topics from there on, and of no others."""
        end = copy.node.position
        self.topics |= {key: m for key, m in copy.topics.items() if m and owns(begin, end, key)}
        if self.rest is not None:  # whether it has its part, or has died
            self.membership.want(self.rest.node, self.core.now)

    def _take_rest(self, rest: Rest) -> None:
        """Who was to have it has not, and will not."""
        self.rest = None
        self.topics |= rest.topics
        self.begin = self.here if owns(rest.begin, rest.node.position, self.here) else rest.begin

    def _copy_before(self) -> Copy | None:
        dead = [copy for node, copy in self.copies.items() if self.contacts.dead(node) and copy.complete]
        return next((copy for copy in dead if copy.node.position == self.begin != self.here), None)

    # --- arcs -------------------------------------------------------------------------------------------

    def _formed(self, nodes: tuple[RingNode, ...], now: float) -> None:
        """Nobody has members yet: each has its arc at once, and knows as much of those before it."""
        if self.rebuilding.founded_again(nodes, now):
            return
        self.begin = self.rebuilding.start
        self.copies |= founding_copies(nodes, self.membership.me, self.membership.settings.copies)

    def _joined(self, now: float) -> None:
        self._pointed(now)
        if self.begin is not None:
            self._rooted(now)

    def reset(self, now: float = 0.0) -> None:
        """We are off the ring: what we were is others' now."""
        self.begin, self.giving, self.rest = None, None, None
        self.topics.clear()
        self.away.clear()
        self.copies.clear()
        self.holders.clear()
        self._taking.clear()
        self.rebuilding.forget()

    def _pointed(self, now: float) -> None:
        self.holders.choose(now)
        if self.begin is None:
            self._ask(now)

    def _ask(self, now: float) -> None:
        membership = self.membership
        if membership.member and membership.successors and self._left is None:
            self.contacts.tell(membership.successors[0], ArcAsk(membership.me, self.begin is not None))

    def on_ask(self, session: Session, ask: ArcAsk, now: float) -> None:
        node, giving = ask.node, self.giving
        if ask.orphan:
            self._number += 1
            self.former.give(node, self._number, self._send_arc)
            return
        if self.followed.tell(node, session):
            return
        if node.broker != session.id or node != self.membership.predecessor or self.begin is None:
            # Who is a root now may not be one when it is answered.
            self._asked_early = self._asked_early if ask.rooted else (session, ask)
            return
        self._extend(now)
        if giving is not None:
            return
        if self.rest is not None and node == self.rest.node and node.position == self.begin:
            if ask.rooted:
                self.rest = None
            else:
                self._take_rest(self.rest)
                self._arc_changed(now)
        if node.position == self.begin and not ask.rooted:  # nobody has what it was, or would have been
            self.core.tell(ArcGive(0, node.position, node.position, True, True, ()), session)
            return
        if not between(self.begin, node.position, self.here):
            return
        if ask.rooted:  # it took this part from one whose old copy we had
            self._shrink(node.position, now)
            return
        self._number += 1
        self._give(Giving(node, self.begin, node.position, self._number))

    def _answer_early(self, now: float) -> None:
        """Who asked before we knew it, or had topics: many may join at once, each behind the next."""
        if self._asked_early is not None:
            (session, ask), self._asked_early = self._asked_early, None
            if not session.lost:
                self.on_ask(session, ask, now)

    def _give(self, giving: Giving) -> None:
        self.giving = giving

        def settled(later: float) -> None:
            if self.giving is giving:
                giving.topics = {key: m for key, m in self.topics.items() if giving.holds(key)}
                self.holders.tell_given()
                self.holders.when_copied(copied, later)

        def copied(later: float) -> None:
            if self.giving is giving and self._left is not None and self.may_be_last:
                self.giving = None
                self._rooted(later)
            elif self.giving is giving:
                giving.ready = True
                self._send_arc(giving, giving.topics)

        self.drain(giving.holds, settled)

    def _send_arc(self, giving: Giving, topics: Topics, given: RingNode | None = None) -> None:
        chunks = list(entries(topics, sorted(topics))) or [()]
        for place, some in enumerate(chunks):
            last = place == len(chunks) - 1
            message = ArcGive(giving.number, giving.begin, giving.end, not place, last, some, given)
            if not self.contacts.tell(giving.node, message):
                return

    def on_give(self, session: Session, give: ArcGive, now: float) -> None:
        if give.first:
            self._taking[session.id] = {}
        taken = self._taking.get(session.id)
        if taken is None or not self.membership.member or self._left is not None:
            return  # who leaves takes nothing more: it is asked again, or another is
        take(taken, give.entries)
        if not give.last:
            return
        del self._taking[session.id]
        if not give.number:
            if self.begin is None and give.end == self.here:
                self.former.ask(self.core)
                self.rebuilding.begin(now)
            return
        mine = self.begin is None and give.end == self.here
        # Not while we give: we keep what lies behind that alone when it is taken. Who leaves gives again.
        follows = self.giving is None and give.end == self.begin and give.end != self.here
        if mine:
            copy = Copy(self.membership.me, give.begin)
            copy.topics, copy.given = taken, give.given
            self.begin, self.rest = divided(copy)
            self._know(copy, self.begin)
        elif follows:
            self.topics |= {key: members for key, members in taken.items() if members}
            whole = give.begin != give.end and owns(give.begin, give.end, self.here)
            self.begin = self.here if whole else give.begin
        if mine or follows:
            self.rebuilding.stop()
            self._arc_changed(now)
            self._answer_early(now)
        if self.begin is not None and owns(self.begin, self.here, give.end):
            self.core.tell(ArcTaken(give.number), session)

    def on_taken(self, session: Session, taken: ArcTaken, now: float) -> None:
        giving = self.giving
        if giving is None or giving.number != taken.number or giving.node.broker != session.id:
            return
        self.giving = None
        if self._left is not None:
            self.holders.dismiss()
            self.reset()
            self.left_to = giving.node
            self._left(now)
            self._rooted(now)
        else:
            self._shrink(giving.end, now)

    def _shrink(self, begin: int, now: float) -> None:
        """Another has the topics up to there."""
        self.begin = begin
        self.topics = {key: m for key, m in self.topics.items() if owns(begin, self.here, key)}
        self._arc_changed(now)

    def hand_over(self, left: Callable[[float], None], now: float) -> None:
        """We leave: the first successor is the root of all that we are, or become before it has that."""
        self._extend(now)
        successors = self.membership.successors
        if self.begin is None or not successors:
            left(now)
            return
        self._left = left
        if not self.may_be_last:
            self._number += 1
            self._give(Giving(successors[0], self.begin, self.here, self._number))

    def _give_to_next(self, now: float) -> None:
        """Somebody has come between us and who was to have our topics, or nobody was because of a death."""
        if self._left is not None and self.membership.member:
            if self.giving is None or self.membership.successors[:1] not in ((), (self.giving.node,)):
                self.giving = None
                self.hand_over(self._left, now)

    def _arc_changed(self, now: float) -> None:
        self.holders.sync_all(now)
        self._rooted(now)

    def _rooted(self, now: float) -> None:
        for call in self.on_rooted:
            call(now)

    def status(self) -> Status:
        return {
            "root_of": len(self.topics),
            "root": self.begin is not None,
            "copies_of": sorted(node.name for node, copy in self.copies.items() if copy.complete),
            "copied_to": sorted(node.name for node in self.holders.nodes),
            "rebuilt": self.rebuilding.times,
        }

    def validate(self) -> None:
        if self.begin is not None and not self.rebuilding.active:
            for key, members in self.topics.items():
                assert members, key
                assert owns(self.begin, self.here, key), key


def _differ(before: Member, after: Member) -> bool:
    return (before.incarnation, before.lasting) != (after.incarnation, after.lasting)
