"""Which behaviours make which system. Nothing else puts behaviours together."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from matching.interface import Matcher
from matching.scan import Scan
from overlay.administration.administration import Administration
from overlay.administration.reports import Reports
from overlay.administration.trace import Trace
from overlay.clients.attachments import Attachments
from overlay.clients.requests import Requests
from overlay.core import Core
from overlay.links.greeting import Greeting
from overlay.links.sync import Sync
from overlay.relocate.commands import RelocationCommands
from overlay.relocate.migration import Migration
from overlay.relocate.relocation import Relocation
from overlay.settings import CoreSettings
from overlay.softlinks.bans import Bans
from overlay.softlinks.chooser import Chooser
from overlay.softlinks.commands import StrategyCommands
from overlay.softlinks.forwarding import Forwarding
from overlay.softlinks.loads import LoadExchange
from overlay.softlinks.neighbourhoods import Neighbourhoods
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


def tree_broker(
    name: str,
    incarnation: int,
    settings: CoreSettings,
    random: Random,
    addresses: tuple[str, ...] = (),
    known: Known = (),
    matcher: Callable[[], Matcher] = Scan,
) -> Core:
    """A broker of the tree overlay. `known` are the neighbours that it had when it last ran."""
    core = Core(name, incarnation, settings, random)
    greeting = Greeting(addresses)
    sync = Sync()
    census = Census()
    join = Join(greeting, sync, census, settings.tree.neighbours, known)
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
    neighbourhoods = Neighbourhoods(greeting)
    shortcuts = Shortcuts(greeting, sync, neighbourhoods, publications)
    bans = Bans(neighbourhoods, shortcuts)
    loads = LoadExchange(neighbourhoods)
    chooser = Chooser(neighbourhoods, shortcuts, loads)
    reports.more_links = chooser.rows
    # Who is behind a link is told before any table; Sync comes last: when it hears of a link, the others
    # have announced their tables on it.
    for behaviour in (
        greeting,
        census,
        join,
        neighbourhoods,
        announcements,
        advertisements,
        subscriptions,
        publications,
        Forwarding(publications),
        shortcuts,
        bans,
        loads,
        chooser,
        StrategyCommands(census, chooser),
        delivery_log,
        attachments,
        requests,
        migration,
        relocation,
        RelocationCommands(census, relocation, addresses),
        leave,
        reports,
        trace,
        Administration(census, trace),
        sync,
    ):
        core.add(behaviour)
    bans.leave_tree = leave.leave
    core.leave = bans.leave
    core.drain = attachments.drain
    return core
