"""Named mistakes, put into the real classes for the length of a run, to show that the oracle can see.

The product has no switches for them: a mutant replaces a method while its context is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from grapevine.client.session.duplicates import Duplicates
from grapevine.filters import Filter
from grapevine.wire.messages import Message, Subscribe, Subscription
from overlay.data.duplicates import LastSeen
from overlay.gather import Gather
from overlay.links.incoming import Incoming
from overlay.links.outgoing import Chunk, Outgoing
from overlay.links.session import Link, Session
from overlay.outputs import Outputs
from overlay.relocate.migration import Migration
from overlay.softlinks.bans import Bans
from overlay.softlinks.excludes import Narrowed
from overlay.softlinks.planes import Planes
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import Soft, Stage
from overlay.softlinks.table import WorkingTable
from overlay.tree.advertisements import Advertisements
from overlay.tree.anchors import onward
from overlay.tree.announcements import Announcement, Announcements
from overlay.tree.covering import Announced
from overlay.tree.missing import MissingBrokers
from overlay.tree.peer import Peer
from overlay.tree.subscriptions import Subscriptions
from overlay.tree.tombstones import Tombstones
from overlay.tree.turned import TurnedSubscriptions
from tools.simulator.apps import App
from tools.simulator.channel_mutants import CHANNEL_MUTANTS
from tools.simulator.copy_mutants import COPY_MUTANTS
from tools.simulator.disk_mutants import DISK_MUTANTS
from tools.simulator.group_mutants import GROUP_MUTANTS, LAST_MUTANTS
from tools.simulator.handover_mutants import HANDOVER_MUTANTS
from tools.simulator.healing_mutants import HEALING_MUTANTS
from tools.simulator.onehop_mutants import ONEHOP_DURABLE_MUTANTS, ONEHOP_MUTANTS
from tools.simulator.placement_mutants import PLACEMENT_MUTANTS
from tools.simulator.reconfiguration_mutants import RECONFIGURATION_MUTANTS
from tools.simulator.request_mutants import REQUEST_MUTANTS
from tools.simulator.ring_mutants import RING_MUTANTS

Replacement = tuple[Any, str, Any]  # a class or a module, what of it, and by what


def _newer_sent() -> list[Replacement]:
    def send(self: Outputs, message: Message, *links: Link) -> None:
        self.out.sends.append((message, tuple(link.number for link in links)))

    return [(Outputs, "send", send)]


def _no_reannouncement() -> list[Replacement]:
    def adopt(self: Announced, orphans: dict[int, None], former: Announcement, now: float) -> None:
        for orphan in orphans:
            del self.coverer[orphan]

    return [(Announced, "_adopt", adopt)]


def _early_confirmation() -> list[Replacement]:
    return [(Announcement, "notify", lambda self, number, gather, peer: None)]


def _confirmation_discharged_by_suspension() -> list[Replacement]:
    def hasty(self: Gather, session: Session, now: float) -> None:
        self.lose(session, now)

    return [(Gather, "suspend", hasty)]


def _lost_link_settles_silently() -> list[Replacement]:
    return [(Tombstones, "bury", lambda self, peer: False), (Tombstones, "_adopted", lambda self, *_: None)]


def _tombstone_forgotten_early() -> list[Replacement]:
    def hasty(self: Tombstones, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            self._forget(session, now)

    return [(Tombstones, "link_lost", hasty)]


def _turned_settles_silently() -> list[Replacement]:
    def ignore(self: TurnedSubscriptions, filter: Filter, left: Peer) -> None: ...

    return [(TurnedSubscriptions, "turn", ignore)]


def _unrepeated_forgotten_at_once() -> list[Replacement]:
    def begin(self: Planes, *arguments: Any) -> None:
        begun(self, *arguments)
        self.router.subscriptions.unrouted = lambda: False

    begun = Planes.begin
    return [(Planes, "begin", begin)]


def _cuts_thrown_away() -> list[Replacement]:
    def deaf(self: Outgoing, cuts: Any, settled: int, later: int = 0) -> bool:
        return True

    return [(Outgoing, "cut_by", deaf)]


def _covered_dropped_on_path_change() -> list[Replacement]:
    def forgetful(self: Announced, number: int, now: float) -> None:
        if (coverer := self.coverer.pop(number, None)) is not None:
            del self.covers[coverer][number]

    repeat = Announced.repeat

    def dropping(self: Announced, number: int, now: float) -> None:
        if number in self.coverer:
            forgetful(self, number, now)
        else:
            repeat(self, number, now)

    return [(Announced, "repeat", dropping)]


def _fresh_dropped_as_repeated() -> list[Replacement]:
    take = Incoming.take

    def greedy(self: Incoming, first: int, count: int) -> int:
        repeated = take(self, first, count)
        return count if 0 <= repeated < count and first % 29 == 0 else repeated

    return [(Incoming, "take", greedy)]


def _one_beyond_credit() -> list[Replacement]:
    take = Outgoing.take

    def generous(self: Outgoing, most: int) -> Iterator[Chunk]:
        self.limit += 1
        yield from take(self, most)
        self.limit -= 1

    return [(Outgoing, "take", generous)]


def _moved_advertisement_never_returns() -> list[Replacement]:
    return [(Advertisements, "_go_back", lambda self, entry, gone, now: False)]


def _unheard_neighbour_confirmed() -> list[Replacement]:
    """A broker that has restarted speaks for neighbours that have not told it who publishes there."""
    return [(Announcements, "await_tables", lambda self, source, find, number, gather: None)]


def _missed_taken_for_duplicate() -> list[Replacement]:
    return [(LastSeen, "missed", lambda self, source, sequence: 0)]


def _missing_not_told() -> list[Replacement]:
    return [(MissingBrokers, "_say", lambda self, now: self._look(now))]


def _duplicates_not_recognised() -> list[Replacement]:
    return [
        (LastSeen, "first", lambda self, source, sequence: True),
        (Duplicates, "among", lambda self, publications: []),
    ]


def _tables_kept() -> list[Replacement]:
    return [
        (owner, "link_lost", lambda self, session, now: None) for owner in (Subscriptions, Advertisements)
    ]


def _resync_never_removes() -> list[Replacement]:
    return [
        (owner, "_forget_stale", lambda self, peer, now: None) for owner in (Subscriptions, Advertisements)
    ]


def _covering_per_link() -> list[Replacement]:
    return [(Subscriptions, "_path", lambda self, number: ())]


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
    return [(Migration, "settled", lambda self, hop: True)]


def _mark_not_handed_over() -> list[Replacement]:
    return [(Migration, "accepted", lambda self, update: 0)]


def _operation_2_skipped() -> list[Replacement]:
    return [(Migration, "_relieve", lambda self, hop, now: None)]


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
    activate = Shortcuts._activate

    def hasty(self: Shortcuts, soft: Soft, now: float) -> None:
        activate(self, soft, now)
        if soft.stage is Stage.ACTIVATING:
            self._activated(soft, now)

    return [(Shortcuts, "_activate", hasty)]


def _anchor_not_adjusted() -> list[Replacement]:
    def stuck(self: Subscriptions, number: int, peer: Peer) -> Announcement:
        item = self.table.entry(number).item
        path = (item.path[0], *onward(item.path, self.core.id, self.delta)[1:])
        announcement = self.announcements.new(peer, self._find)
        passed_on = Subscription(item.origin, item.serial, item.home, path, item.filter)
        self.core.tell(Subscribe(announcement.stamp, passed_on), peer)
        return announcement

    return [(Subscriptions, "_announce", stuck)]


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
    "confirmation-discharged-by-suspension": _confirmation_discharged_by_suspension,
    "lost-link-settles-silently": _lost_link_settles_silently,
    "tombstone-forgotten-early": _tombstone_forgotten_early,
    "turned-settles-silently": _turned_settles_silently,
    "unrepeated-forgotten-at-once": _unrepeated_forgotten_at_once,
    "cuts-thrown-away": _cuts_thrown_away,
    "covered-dropped-on-path-change": _covered_dropped_on_path_change,
    "fresh-dropped-as-repeated": _fresh_dropped_as_repeated,
    "one-beyond-credit": _one_beyond_credit,
    "moved-advertisement-never-returns": _moved_advertisement_never_returns,
    "unheard-neighbour-confirmed": _unheard_neighbour_confirmed,
    "missed-taken-for-duplicate": _missed_taken_for_duplicate,
    "missing-not-told": _missing_not_told,
    "duplicates-not-recognised": _duplicates_not_recognised,
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
    "newer-sent": _newer_sent,
    **COPY_MUTANTS,
    **DISK_MUTANTS,
    **GROUP_MUTANTS,
    **LAST_MUTANTS,
    **HANDOVER_MUTANTS,
    **HEALING_MUTANTS,
    **ONEHOP_DURABLE_MUTANTS,
    **ONEHOP_MUTANTS,
    **PLACEMENT_MUTANTS,
    **RECONFIGURATION_MUTANTS,
    **REQUEST_MUTANTS,
    **RING_MUTANTS,
    **CHANNEL_MUTANTS,
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The product with the mistake `name`; with none, as it is."""
    with ExitStack() as undo:
        for owner, attribute, replacement in MUTANTS[name]() if name else ():
            undo.callback(setattr, owner, attribute, owner.__dict__[attribute])
            setattr(owner, attribute, replacement)
        yield
