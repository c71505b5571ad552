"""A neighbour on the tree: its place, and how far its tables are synchronised with ours (tree/sync.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from overlay.links.session import Kind, Remote, Session

if TYPE_CHECKING:
    from overlay.core import Core


def peers_of(core: Core) -> dict[int, Peer]:
    """The neighbours: on a tree every session in the core's table is one."""
    return core.peers  # type: ignore[return-value]


class Peer(Remote):
    """A neighbour on the tree. `paused`: it leaves, publications for it wait for its heirs. `heir`: a move
    gives this link's place to that neighbour's, what is on it is the last. `dialled`: it is our parent."""

    __slots__ = (
        "awaited",
        "buried",
        "departed",
        "ever_synced",
        "heir",
        "heirs",
        "root_path",
        "shadows",
        "sync_number",
        "sync_pending",
        "synced_by_peer",
        "synced_by_us",
        "tables_epoch",
        "tables_received",
        "tells",
    )

    def __init__(self, core: Core, peer: int, name: str) -> None:
        super().__init__(core, Kind.PEER, peer, name)
        self.awaited = False  # a neighbour from before our restart
        self.buried = False  # lost, and its subscriptions stand as tombstones
        self.departed = False  # in good order: what was for it has been handed on
        self.heir: Peer | None = None
        self.heirs: tuple[int, ...] = ()  # of one that leaves: who will be our neighbours in its place
        # Of one that others have gone round (healing.py): whether a neighbour tells what is at this home.
        self.tells: Callable[[int, int], bool] | None = None
        self.root_path: tuple[int, ...] = ()
        # SyncDone (DECISIONS 11): see tree/sync.py
        self.ever_synced = False  # in this incarnation of ours
        self.sync_number = 0
        self.sync_pending = 0
        self.shadows = 0
        self.tables_received = False
        self.tables_epoch = 0  # of the link on which tables were last exchanged
        self.synced_by_us = False
        self.synced_by_peer = False

    @property
    def flowing(self) -> bool:
        return self.link is not None and self.synced_by_peer and self.writable and not self.paused

    @property
    def whole(self) -> bool:
        """Everything behind it is known and can be reached."""
        return self.link is not None and self.synced_by_peer

    @property
    def synced(self) -> bool:
        return self.synced_by_peer

    @property
    def connected(self) -> bool:
        return self.link is not None and self.synced_by_us and self.synced_by_peer and not self.retiring

    @property
    def suspended(self) -> bool:
        """Its link is broken, and may come back: nobody knows what is behind it by now. Also of one that is
        gone round, unless one neighbour has all of its place."""
        if self.link is not None or self.lost:
            return False
        return not self.going or (self.tells is not None and not self.heirs)

    @property
    def live(self) -> bool:
        """Whether what it told us still stands on its own."""
        return self.link is not None and not self.going

    @property
    def retiring(self) -> bool:
        return self.heir is not None

    @property
    def going(self) -> bool:
        """Others will tell what it has told."""
        return self.paused or self.heir is not None

    def may_be_told(self, source: Session) -> bool:
        """Whether what came from `source` is to be told here: not over a link that ends, and what came over
        such a link is known behind the one in its place."""
        return self.heir is None and not (isinstance(source, Peer) and source.heir is self)

    def will_tell(self, source: Session, home: int) -> bool:
        """Whether this neighbour itself tells what came from `source`, a leaver whose place it takes; of one
        that others have gone round, who is behind it by the edges."""
        if not isinstance(source, Peer) or not source.paused:
            return False
        return source.tells(self.id, home) if source.tells is not None else self.id in source.heirs

    @property
    def is_replaced(self) -> bool:
        """Of one that is gone round: one neighbour has all of its place."""
        return self.tells is not None and bool(self.heirs)

    def is_relayed(self, source: Session) -> bool:
        """Whether it is told what came from `source`, whose place it has: that one had told us, and this
        neighbour perhaps not."""
        return isinstance(source, Peer) and source.is_replaced and self.id in source.heirs

    def succeeds(self, source: Peer) -> bool:
        """Whether it takes the place of this one, or a part of it."""
        return source.paused and (source.tells is not None or self.id in source.heirs)

    def begin_sync(self) -> None:
        self.sync_number += 1
        self.end_sync()

    def end_sync(self) -> None:
        self.sync_pending = 0
        self.tables_received = self.synced_by_us = self.synced_by_peer = False
