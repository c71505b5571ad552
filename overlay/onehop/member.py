"""Another member of the cluster as this one knows it, and this one as a member of itself.

A broker with both roles asks itself like anybody else: `Loopback` is a session without a link whose messages
are handled at the end of the burst.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grapevine.wire.messages import Message
from grapevine.wire.onehop import DISPATCHER, MATCHER, Entry
from overlay.links.session import Kind, Remote

if TYPE_CHECKING:
    from overlay.core import Core


class Member(Remote):
    """`entry` is what it has said of itself since its link came up; gossip is not believed here."""

    __slots__ = ("ask", "entry", "known_as", "roles", "served", "tabled", "trusted")

    def __init__(self, core: Core, member: int, name: str) -> None:
        super().__init__(core, Kind.PEER, member, name)
        self.entry: Entry | None = None
        self.roles = 0  # as it said last, also while its link is down
        self.known_as = 0  # its incarnation when its link was up last
        self.served = False  # it has said that it serves, in this life of its or an earlier one
        self.tabled = False  # it has told its table since its link came up
        self.trusted = False  # and, a dispatcher, from which registrations on it counts (placing)
        self.ask: Callable[[Member], None] = lambda member: None  # set by Asking

    @property
    def reachable(self) -> bool:
        """Whether it can be asked something."""
        return self.link is not None and self.entry is not None

    @property
    def synced(self) -> bool:
        return self.entry is not None

    @property
    def connected(self) -> bool:
        """Its subscriptions count for us. Those of a dispatcher do as soon as it serves: then it has
        registered the streams of an earlier life of its too."""
        return self.reachable and self.tabled and ((self.trusted and self.served) or not self.is_dispatcher)

    @property
    def flowing(self) -> bool:
        return self.link is not None and self.writable and self.entry is not None

    @property
    def is_matcher(self) -> bool:
        return bool(self.roles & MATCHER)

    @property
    def is_dispatcher(self) -> bool:
        return bool(self.roles & DISPATCHER)

    @property
    def counts(self) -> bool:
        """A dispatcher that may have confirmed something, also while its link is down or it starts again."""
        return self.is_dispatcher and self.served

    def tell(self, message: Message) -> None:
        self.core.tell(message, self)

    def flush(self) -> None:
        self.ask(self)
        super().flush()


class Loopback(Member):
    __slots__ = ("_inbox",)

    def __init__(self, core: Core) -> None:
        super().__init__(core, core.id, core.name)
        self.incarnation = core.incarnation
        self._inbox: list[Message] = []

    @property
    def reachable(self) -> bool:
        return True

    def tell(self, message: Message) -> None:
        self._inbox.append(message)
        self.touch()

    def flush(self) -> None:
        self.ask(self)
        inbox, self._inbox = self._inbox, []
        for message in inbox:
            handler = self.core.dispatch.handler(message, self.kind)
            assert handler is not None, message
            handler(self, message, self.core.now)
