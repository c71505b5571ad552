"""Which behaviours make which system. Nothing else puts behaviours together."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from matching.interface import Matcher
from matching.scan import Scan
from overlay.administration.administration import Administration
from overlay.administration.reports import Reports
from overlay.administration.trace import Trace
from overlay.behaviour import Behaviour
from overlay.clients.attachments import Attachments
from overlay.clients.requests import Requests
from overlay.coordinate.permissions import Permissions
from overlay.core import Core
from overlay.feeding.numbers import Mark, Numbers
from overlay.feeding.spool import MemorySpool, Spool
from overlay.feeding.staging import QueryState, Staging
from overlay.links.greeting import Greeting
from overlay.links.sync import Sync
from overlay.relocate.commands import RelocationCommands
from overlay.relocate.migration import Migration
from overlay.relocate.relocation import Relocation
from overlay.settings import CoreSettings, FeedingSettings
from overlay.softlinks.bans import Bans
from overlay.softlinks.chooser import Chooser
from overlay.softlinks.commands import StrategyCommands
from overlay.softlinks.forwarding import Forwarding
from overlay.softlinks.loads import LoadExchange
from overlay.softlinks.move import Moves
from overlay.softlinks.move_commands import MoveCommands
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.softlinks.planes import Planes
from overlay.softlinks.shortcuts import Shortcuts
from overlay.tree.advertisements import Advertisements
from overlay.tree.announcements import Announcements
from overlay.tree.census import Census
from overlay.tree.delivery_log import DeliveryLog
from overlay.tree.join import Join
from overlay.tree.leave import Leave
from overlay.tree.publications import Publications
from overlay.tree.subscriptions import Subscriptions

Known = tuple[tuple[str, tuple[str, ...]], ...]


class Fed(NamedTuple):
    """What a broker has of writers whose work may be done again."""

    spool: Spool | None = None
    queries: tuple[QueryState, ...] = ()
    numbers: tuple[Mark, ...] = ()


def feeding(
    settings: FeedingSettings,
    sync: Sync,
    attachments: Attachments,
    advertisements: Advertisements,
    fed: Fed,
) -> tuple[Behaviour, ...]:
    spool = MemorySpool() if fed.spool is None else fed.spool
    staging = Staging(settings, sync, attachments, advertisements, spool, fed.queries)
    return Numbers(settings, attachments, fed.numbers), staging


def soft_links(
    join: Join,
    neighbourhoods: Neighbourhoods,
    publications: Publications,
    reports: Reports,
    permissions: Permissions,
) -> tuple[Moves, list[Behaviour]]:
    """Shortcuts past the tree and moves within it: who must hear of a link first, and those that follow the
    tree's own data path."""
    greeting, sync, census = join.greeting, join.sync, join.census
    shortcuts = Shortcuts(greeting, sync, neighbourhoods, publications)
    bans = Bans(neighbourhoods, shortcuts)
    loads = LoadExchange(neighbourhoods)
    chooser = Chooser(neighbourhoods, shortcuts, loads)
    forwarding = Forwarding(publications)
    planes = Planes(publications, forwarding, shortcuts)
    moves = Moves(join, neighbourhoods, publications, bans, planes)
    reports.more_links = chooser.rows
    strategy, move = StrategyCommands(census, chooser), MoveCommands(census, moves, permissions)
    return moves, [forwarding, planes, shortcuts, bans, loads, chooser, strategy, permissions, move]


def tree_broker(
    name: str,
    incarnation: int,
    settings: CoreSettings,
    random: Random,
    addresses: tuple[str, ...] = (),
    known: Known = (),
    matcher: Callable[[], Matcher] = Scan,
    fed: Fed | None = None,
    parent: str = "",
    coordinator: bool = False,
    places: tuple[str, ...] = (),
) -> Core:
    """A broker of the tree overlay. `known` and `fed` are the neighbours and the feeders that it had,
    `parent` is where it has moved to, `places` are where it may find another; a `coordinator` permits others
    to move."""
    core = Core(name, incarnation, settings, random)
    greeting = Greeting(addresses)
    sync = Sync()
    census = Census()
    candidates = tuple(dict.fromkeys((*((parent,) if parent else ()), *settings.tree.neighbours)))
    join = Join(greeting, sync, census, candidates, known, places)
    announcements = Announcements(sync)
    advertisements = Advertisements(announcements, matcher)
    subscriptions = Subscriptions(advertisements, announcements, matcher)
    publications = Publications(advertisements, subscriptions, settings.overlay.ordered)
    delivery_log = DeliveryLog(settings.delivery_log, publications)
    attachments = Attachments(greeting, sync, subscriptions)
    requests = Requests(attachments, advertisements, subscriptions)
    migration = Migration(advertisements, publications, attachments)
    leave = Leave(join, greeting, sync, attachments, publications)
    reports = Reports(census, greeting, join, advertisements, subscriptions, publications, attachments)
    trace = Trace(publications)
    relocation = Relocation(settings.relocation, publications, advertisements, migration, addresses)
    neighbourhoods = Neighbourhoods(greeting, sync)
    neighbourhoods.parent_lost = join.learn
    moves, mesh = soft_links(join, neighbourhoods, publications, reports, Permissions(census, coordinator))
    moves.busy = lambda: "a publisher moves" if migration.passages or migration.departures else ""
    # Who is behind a link is told before any table; Sync comes last: when it hears of a link, the others
    # have announced their tables on it.
    for behaviour in (
        greeting,
        census,
        join,
        moves,
        neighbourhoods,
        announcements,
        advertisements,
        subscriptions,
        publications,
        *mesh,
        delivery_log,
        attachments,
        requests,
        migration,
        *feeding(settings.feeding, sync, attachments, advertisements, fed or Fed()),
        relocation,
        RelocationCommands(census, relocation, addresses),
        leave,
        reports,
        trace,
        Administration(census, trace),
        sync,
    ):
        core.add(behaviour)
    moves.bans.leave_tree = leave.leave
    core.leave = moves.leave
    core.drain = attachments.drain
    return core
