"""Named mistakes, put into the real classes for the length of a run, to show that the oracle can see.

The product has no switches for them: a mutant replaces a method while its context is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from grapevine.wire.messages import Subscribe, Subscription
from overlay.links.outgoing import Chunk, Outgoing
from overlay.links.session import Peer
from overlay.links.soft import Soft, Stage
from overlay.relocate.migration import Migration
from overlay.softlinks.bans import Bans
from overlay.softlinks.excludes import Narrowed
from overlay.softlinks.planes import Planes
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.table import WorkingTable
from overlay.tree.advertisements import Advertisements
from overlay.tree.anchors import onward
from overlay.tree.announcements import Announcement
from overlay.tree.covering import Announced
from overlay.tree.subscriptions import Subscriptions
from tools.simulator.apps import App

Replacement = tuple[type[Any], str, Callable[..., Any]]


def _no_reannouncement() -> list[Replacement]:
    def adopt(self: Announced, orphans: dict[int, None], former: Announcement, now: float) -> None:
        for orphan in orphans:
            del self.coverer[orphan]

    return [(Announced, "_adopt", adopt)]


def _early_confirmation() -> list[Replacement]:
    return [(Announcement, "notify", lambda self, number, gather, peer: None)]


def _tables_kept() -> list[Replacement]:
    return [
        (owner, "link_lost", lambda self, session, now: None) for owner in (Subscriptions, Advertisements)
    ]


def _resync_never_removes() -> list[Replacement]:
    return [
        (owner, "_forget_stale", lambda self, peer, now: None) for owner in (Subscriptions, Advertisements)
    ]


def _covering_per_link() -> list[Replacement]:
    return [(Subscriptions, "_anchor", lambda self, number: 0)]


def _settle_on_received() -> list[Replacement]:
    marked = Outgoing.marked

    def eager(self: Outgoing, received: int, settled: int, credit: int) -> bool:
        return marked(self, received, received, credit)

    return [(Outgoing, "marked", eager)]


def _incarnation_kept() -> list[Replacement]:
    begin = App.__init__

    def keeping(self: App, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self.keeps_incarnation = True

    return [(App, "__init__", keeping)]


def _retention_dropped() -> list[Replacement]:
    retain = Outgoing._retain

    def forgetful(self: Outgoing, chunk: Chunk, most: int) -> None:
        retain(self, chunk, most)
        while sum(kept.last + 1 - kept.first for kept in self.retained) > 8 and len(self.retained) > 1:
            self.retained.popleft()

    return [(Outgoing, "_retain", forgetful)]


def _complete_before_settled() -> list[Replacement]:
    return [(Migration, "settled", lambda self, passage: True)]


def _mark_not_handed_over() -> list[Replacement]:
    return [(Migration, "accepted", lambda self, update: 0)]


def _operation_2_skipped() -> list[Replacement]:
    return [(Migration, "_relieve", lambda self, passage, now: None)]


def _operation_3_skipped() -> list[Replacement]:
    move = Advertisements.move

    def silent(self: Advertisements, *arguments: Any) -> None:
        arrived, self.arrived = self.arrived, lambda entry, peer, now: None
        move(self, *arguments)
        self.arrived = arrived

    return [(Advertisements, "move", silent)]


def _late_epoch_obeyed() -> list[Replacement]:
    return [(Migration, "_obeyed", lambda self, entry, update: True)]


def _exclude_list_ignored() -> list[Replacement]:
    choose = WorkingTable.choose

    def blind(self: WorkingTable, side: Any, numbers: Any) -> Any:
        return choose(self, side.session if isinstance(side, Narrowed) else side, numbers)

    return [(WorkingTable, "choose", blind)]


def _promotion_not_settled() -> list[Replacement]:
    rise = Shortcuts._rise

    def hasty(self: Shortcuts, soft: Soft, now: float) -> None:
        rise(self, soft, now)
        if soft.stage is Stage.RISING:
            self._risen(soft)

    return [(Shortcuts, "_rise", hasty)]


def _anchor_not_adjusted() -> list[Replacement]:
    def stuck(self: Subscriptions, number: int, peer: Peer) -> Announcement:
        item = self.table.entry(number).item
        path = (item.path[0], *onward(item.path, self.core.id, self.delta)[1:])
        announcement = self.announcements.new(peer)
        passed_on = Subscription(item.origin, item.serial, item.home, path, item.filter)
        self.core.tell(Subscribe(announcement.stamp, passed_on), peer)
        return announcement

    return [(Subscriptions, "_tell", stuck)]


def _bypass_ban_ignored() -> list[Replacement]:
    return [
        (Bans, "_passes", lambda self, soft, broker: False),
        (Shortcuts, "barred", lambda self, path: False),
    ]


def _plane_dropped_early() -> list[Replacement]:
    """Publishers change planes, and the old one goes, whatever is in it."""
    return [(Planes, "empty", lambda self, plane: True)]


MUTANTS: dict[str, Callable[[], list[Replacement]]] = {
    "no-reannouncement": _no_reannouncement,
    "early-confirmation": _early_confirmation,
    "tables-kept": _tables_kept,
    "resync-never-removes": _resync_never_removes,
    "covering-per-link": _covering_per_link,
    "settle-on-received": _settle_on_received,
    "incarnation-kept": _incarnation_kept,
    "retention-dropped": _retention_dropped,
    "complete-before-settled": _complete_before_settled,
    "mark-not-handed-over": _mark_not_handed_over,
    "operation-2-skipped": _operation_2_skipped,
    "operation-3-skipped": _operation_3_skipped,
    "late-epoch-obeyed": _late_epoch_obeyed,
    "exclude-list-ignored": _exclude_list_ignored,
    "promotion-not-settled": _promotion_not_settled,
    "anchor-not-adjusted": _anchor_not_adjusted,
    "bypass-ban-ignored": _bypass_ban_ignored,
    "plane-dropped-early": _plane_dropped_early,
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The product with the mistake `name`; with none, as it is."""
    with ExitStack() as undo:
        for owner, attribute, replacement in MUTANTS[name]() if name else ():
            undo.callback(setattr, owner, attribute, owner.__dict__[attribute])
            setattr(owner, attribute, replacement)
        yield
