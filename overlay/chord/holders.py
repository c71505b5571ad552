"""Who has a copy of what a root knows: its first successors, told every change.

Something that is to outlive the root, a member's confirmation or an arc on its way, waits until all of them
have answered. A holder that changes, or whose link broke, is told everything anew; one that is a holder no
longer is told that too, so that no old copy is ever used, but not before who comes in its place has answered:
a root that died then would have fewer copies than it is promised. So it is with a holder that wants to leave:
it says so (an answer to nothing, number 0), and goes when it is told that it is none any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from grapevine.wire.chord import RingNode, RootCopied, RootCopy, TopicEntry
from overlay.chord.membership import Membership
from overlay.chord.registry import Pending, Topics, entries
from overlay.core import Core
from overlay.links.session import Session


class Source(Protocol):
    """What is copied."""

    begin: int | None  # of the root's arc; None: it is no root
    topics: Topics

    @property
    def given(self) -> RingNode | None: ...


class Holders:
    def __init__(self, membership: Membership, source: Source) -> None:
        self.membership = membership
        self.contacts = membership.contacts
        self.source = source
        self.nodes: dict[RingNode, int] = {}  # the last number sent to each; 0: all of it is to be sent
        self.acknowledged: dict[RingNode, int] = {}  # the last one that each has answered
        self.retiring: list[RingNode] = []  # of them: who is a holder until its successor has everything
        self._leaving: set[RingNode] = set()
        self._pending: list[Pending] = []
        self._number = 0

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(RootCopied, self.on_copied)

    # --- telling ----------------------------------------------------------------------------------------

    def tell(self, keys: tuple[int, ...]) -> None:
        """These topics have changed."""
        for some in entries(self.source.topics, keys):
            for node in self.nodes:
                self._copy(node, some, first=False, last=True)

    def tell_given(self) -> None:
        """Those who would follow us must not take for theirs what may be another's by then."""
        for node in self.nodes:
            self._copy(node, (), first=False, last=False)

    def _copy(self, node: RingNode, some: tuple[TopicEntry, ...], *, first: bool, last: bool) -> None:
        source = self.source
        if source.begin is None:
            return
        self._number += 1
        self.nodes[node] = self._number
        copy = RootCopy(self._number, self.membership.me, source.begin, first, last, some, source.given)
        if not self.contacts.tell(node, copy):
            self.nodes[node] = 0  # all of it again when there is a link

    def sync(self, node: RingNode) -> None:
        """Everything anew to one of them."""
        chunks = list(entries(self.source.topics, sorted(self.source.topics))) or [()]
        for place, some in enumerate(chunks):
            self._copy(node, some, first=not place, last=place == len(chunks) - 1)
        for pending in self._pending:
            pending.waits[node] = self.nodes[node]

    def sync_all(self, now: float) -> None:
        """The arc has changed."""
        self.nodes = dict.fromkeys(self.nodes, 0)
        self.choose(now)

    # --- who --------------------------------------------------------------------------------------------

    def choose(self, now: float) -> None:
        self._leaving.intersection_update(self.membership.successors)
        staying = [one for one in self.membership.successors if one not in self._leaving]
        wanted = staying[: self.membership.settings.copies]
        if self.source.begin is None:
            wanted = []
        self.retiring = [one for one in self.nodes if one not in wanted]
        self._dismiss_cut_off()
        for node in (*wanted, *self.retiring):
            if not self.nodes.get(node):
                self.sync(node)
        self._check(now)

    def _dismiss_cut_off(self) -> None:
        """Whoever cannot be told any more has an old copy."""
        for node in [one for one in self.retiring if not self.contacts.linked(one)]:
            self._dismiss(node)

    def _dismiss(self, node: RingNode) -> None:
        self.retiring.remove(node)
        del self.nodes[node]
        self.acknowledged.pop(node, None)
        self.contacts.tell(node, self._void())

    def _relieve(self) -> None:
        """Those in whose place others are go when these have everything: we may die before."""
        self._dismiss_cut_off()
        staying = [node for node in self.nodes if node not in self.retiring]
        if all(0 < self.nodes[node] <= self.acknowledged.get(node, 0) for node in staying):
            for node in list(self.retiring):
                self._dismiss(node)

    def link_up(self, session: Session) -> None:
        """What was on its way when a link broke may be lost."""
        ours = [node for node in self.nodes if node.broker == session.id]
        for node in ours:
            self.sync(node)
        if not ours and self.source.begin is not None and session.id in self.core.peers:
            self.core.tell(self._void(), session)

    def _void(self) -> RootCopy:
        """We no longer copy there."""
        return RootCopy(0, self.membership.me, self.membership.me.position, True, False, ())

    def dismiss(self) -> None:
        """We are the root of nothing any more, and alive: nobody else would say that our copy is old."""
        for node in self.nodes:
            self.contacts.tell(node, self._void())

    def clear(self) -> None:
        self.nodes.clear()
        self.retiring.clear()
        self.acknowledged.clear()
        self._pending.clear()

    # --- waiting ----------------------------------------------------------------------------------------

    def when_copied(self, call: Callable[[float], None], now: float) -> None:
        """Call when all of them have what was told so far."""
        pending = Pending(call)
        known = self.acknowledged
        pending.waits = {node: n for node, n in self.nodes.items() if not n or n > known.get(node, 0)}
        self._pending.append(pending)
        self._check(now)

    def _release(self, session: Session, now: float) -> None:
        """It leaves with what it has of ours."""
        ours = [node for node in self.nodes if node.broker == session.id]
        self._leaving.update(ours)
        if ours:
            self.choose(now)
        else:
            self.core.tell(self._void(), session)

    def on_copied(self, session: Session, copied: RootCopied, now: float) -> None:
        if not copied.number:
            self._release(session, now)
            return
        for node in self.nodes:
            if node.broker == session.id:
                self.acknowledged[node] = max(self.acknowledged.get(node, 0), copied.number)
        for pending in self._pending:
            for node, number in list(pending.waits.items()):
                if node.broker == session.id and 0 < number <= copied.number:
                    del pending.waits[node]
        self._check(now)

    def _check(self, now: float) -> None:
        if self.retiring:
            self._relieve()
        for pending in self._pending:
            for node in [one for one in pending.waits if one not in self.nodes]:
                del pending.waits[node]
        done = [pending for pending in self._pending if not pending.waits]
        self._pending = [pending for pending in self._pending if pending.waits]
        for pending in done:
            pending.call(now)
