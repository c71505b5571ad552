"""The tree: content routing with advertisements, soft links, relocation, feeding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple, Protocol

from matching.interface import Matcher
from matching.scan import Scan
from overlay.administration.administration import Administration
from overlay.administration.census import Census, everybody
from overlay.administration.news import News
from overlay.administration.pulse import Pulse
from overlay.administration.reports import Reports
from overlay.administration.streams import StreamCommands
from overlay.administration.trace import Trace
from overlay.behaviour import Behaviour
from overlay.channels.backend import BackEnd
from overlay.channels.desk import DriverDesk
from overlay.channels.direct import DirectChannels
from overlay.channels.feeds import Feeds
from overlay.channels.frontend import FrontEnd
from overlay.channels.records import JournalRecords
from overlay.channels.sessions import BackendSession
from overlay.channels.store import Disks, Store, memory_disks
from overlay.channels.verbs import ChannelVerbs
from overlay.clients.attachments import Attachments
from overlay.clients.requests import Requests
from overlay.coordinate.balance import Balance
from overlay.coordinate.contact import Contact
from overlay.coordinate.permissions import Permissions
from overlay.coordinate.reporting import Reporting
from overlay.coordinate.verbs import BalanceVerbs
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.delivery_log import DeliveryLog
from overlay.data.local import LocalSubscriptions
from overlay.data.path import Publications
from overlay.data.router import Registry, Router
from overlay.feeding.numbers import Numbers
from overlay.feeding.spool import MemorySpool, Spool
from overlay.feeding.staging import Staging
from overlay.handover.commands import HandoverCommands
from overlay.handover.flush import Flush
from overlay.handover.handover import Handovers
from overlay.journal.custody_limits import CustodyLimits
from overlay.journal.group_homes import GroupHomes
from overlay.journal.groups import Groups
from overlay.journal.holding import Holding
from overlay.journal.journal import Journal, Opened
from overlay.journal.last_values import LastValues
from overlay.journal.readers import Readers
from overlay.journal.stand_in import StandIns
from overlay.journal.stranded import Entered
from overlay.journal.streams import Streams
from overlay.links.beside import BesideSessions
from overlay.links.handshake import BACKEND, Handshake
from overlay.links.readiness import Readiness
from overlay.outbox import Kept
from overlay.profiles.start import Start
from overlay.profiles.two_copies import two_copies
from overlay.relocate.commands import RelocationCommands
from overlay.relocate.migration import Migration
from overlay.relocate.relocation import Relocation
from overlay.settings import BalancingSettings, CoreSettings, FeedingSettings
from overlay.softlinks.bans import Bans
from overlay.softlinks.chooser import Chooser
from overlay.softlinks.commands import StrategyCommands
from overlay.softlinks.decision import Decision
from overlay.softlinks.forwarding import Forwarding
from overlay.softlinks.loads import LoadExchange
from overlay.softlinks.move import Moves
from overlay.softlinks.move_commands import MoveCommands
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.softlinks.planes import Planes
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import SoftSessions
from overlay.tree.advertisements import Advertisements
from overlay.tree.announcements import Announcements
from overlay.tree.edges import KnownEdges
from overlay.tree.granting import Granting
from overlay.tree.healing import Healing
from overlay.tree.join import Join
from overlay.tree.leave import Leave
from overlay.tree.listing import TreeListing
from overlay.tree.missing import MissingBrokers
from overlay.tree.neighbours import Neighbours
from overlay.tree.returned import ReturnedSides
from overlay.tree.router import TreeRouter
from overlay.tree.subscriptions import Subscriptions
from overlay.tree.sync import Sync
from overlay.tree.tombstones import Tombstones

REPLAY_S = 0.5  # from the first word that something is stranded


def feeding(
    settings: FeedingSettings,
    readiness: Readiness,
    attachments: Attachments,
    registry: Registry,
    spool: Spool | None,
) -> tuple[Behaviour, ...]:
    staging = Staging(settings, readiness, attachments, registry, spool or MemorySpool())
    return Numbers(settings, attachments), staging


def handing_over(
    census: Census, handshake: Handshake, attachments: Attachments
) -> tuple[Flush, Handovers, HandoverCommands]:
    """Clients go to another broker while publications pass, whatever the overlay."""
    flush = Flush(census, handshake.sessions.values)
    handovers = Handovers(census, flush, attachments, handshake.addresses)
    return flush, handovers, HandoverCommands(census, handovers)


class OverlayRouter(Registry, Router, Protocol):
    """All that an overlay says to the shared parts."""


def durable(
    settings: CoreSettings,
    opened: Opened | None,
    publications: Entered,
    router: OverlayRouter,
    readiness: Readiness,
    reports: Reports,
    addresses: tuple[str, ...],
) -> tuple[Behaviour, ...]:
    """Nothing without a journal: then nothing is ever persisted."""
    if opened is None:
        return ()
    journal = Journal(settings.journal, opened)
    streams = Streams(settings.streams, journal, router)
    commands = StreamCommands(reports.census, streams)
    holding, stand_ins = Holding(journal, publications), StandIns(journal, router, readiness)
    readers, homes = Readers(streams, router), GroupHomes(streams, reports.census, addresses)
    homes.given_up = reports.given_up
    groups, newest = Groups(readers, homes), LastValues(readers, reports.census, addresses)
    limits = CustodyLimits(journal, holding, stand_ins)
    return journal, holding, stand_ins, limits, streams, readers, homes, groups, newest, commands


def _tell_disk(on_disk: tuple[Behaviour, ...], publications: Publications, join: Join) -> None:
    """Sides that are met anew take nothing newer before a replay: others need not wait for it. A group may
    have its home in a part of the tree that this one has not met."""
    for holding in [one for one in on_disk if isinstance(one, Holding)]:
        holding.replay.first_s = REPLAY_S
        holding.replay.holds_back = False
        holding.replay.missing = lambda: publications.adopted is not None or not publications.whole()
    for homes in [one for one in on_disk if isinstance(one, GroupHomes)]:
        homes.apart = lambda: join.apart


class Tree(NamedTuple):
    """The tree itself, which everything else is told of."""

    handshake: Handshake
    neighbours: Neighbours
    softs: SoftSessions
    sync: Sync
    census: Census
    join: Join
    edges: KnownEdges
    announcements: Announcements
    router: TreeRouter
    publications: Publications


def _tree(core: Core, addresses: tuple[str, ...], matcher: Callable[[], Matcher]) -> Tree:
    settings = core.settings
    handshake = Handshake(addresses)
    neighbours = Neighbours(handshake)
    softs = SoftSessions(handshake)
    sync = Sync(Readiness())
    census = Census(everybody(core))
    join = Join(neighbours, sync, census, settings.tree.neighbours)
    edges = KnownEdges(join, sync)
    announcements = Announcements(sync)
    advertisements = Advertisements(announcements, matcher)
    local = LocalSubscriptions(matcher)
    subscriptions = Subscriptions(advertisements, announcements, local, matcher)
    subscriptions.table.leads = lambda peer, home: edges.side(home) == peer.id
    router = TreeRouter(advertisements, subscriptions)
    publications = Publications(router, local, settings.overlay.ordered)
    return Tree(handshake, neighbours, softs, sync, census, join, edges, announcements, router, publications)


def _losses(tree: Tree, attachments: Attachments) -> tuple[MissingBrokers, Tombstones, ReturnedSides]:
    missing = MissingBrokers(tree.sync, tree.edges.side)
    attachments.missing = missing.brokers
    attachments.beyond = tree.edges.beyond
    missing.changed.append(attachments.tell_missing)
    tombstones = Tombstones(tree.router, tree.publications, missing)
    return missing, tombstones, ReturnedSides(tree.router, tree.publications)


def _healing(tree: Tree, moves: Moves, leave: Leave) -> tuple[Granting, Healing]:
    granting = Granting(tree.join, tree.edges)
    healing = Healing(tree.join, tree.edges, granting, tree.router)
    healing.busy = lambda: moves.state is not None or bool(leave.departures)
    return granting, healing


def _soft_links(
    tree: Tree, neighbourhoods: Neighbourhoods, reports: Reports, permissions: Permissions
) -> tuple[Moves, list[Behaviour]]:
    """Shortcuts past the tree and moves within it: who must hear of a link first, and those that follow the
    tree's own data path."""
    shortcuts = Shortcuts(tree.softs, tree.sync, neighbourhoods, tree.router)
    bans = Bans(neighbourhoods, shortcuts)
    loads = LoadExchange(neighbourhoods)
    chooser = Chooser(neighbourhoods, shortcuts, loads)
    forwarding = Forwarding(tree.publications)
    planes = Planes(tree.publications, tree.router, forwarding, shortcuts)
    moves = Moves(tree.join, neighbourhoods, tree.router, bans, planes)
    reports.more_links = chooser.rows
    strategy, move = StrategyCommands(tree.census, chooser), MoveCommands(tree.census, moves, permissions)
    return moves, [forwarding, planes, shortcuts, bans, loads, chooser, strategy, permissions, move]


def _channels(
    core: Core, tree: Tree, kept: Kept, disks: Disks | None, address: str, matcher: Callable[[], Matcher]
) -> tuple[FrontEnd, list[Behaviour]]:
    """Every broker serves subscribers of channels, if it knows a back end or is one."""
    handshake, router = tree.handshake, tree.router
    addresses = (address,) if address else ()
    sessions = BesideSessions(handshake, BACKEND, BackendSession, disks is not None, "back end")
    front = FrontEnd(core.settings.channels, handshake, lambda: addresses)
    if disks is None:
        return front, [sessions, front, ChannelVerbs(None, None, lambda: address)]
    store = Store(disks, JournalRecords(core, kept))
    backend = BackEnd(store)
    desk, feeds = DriverDesk(backend), Feeds(store, router, router)
    direct = DirectChannels(backend, feeds, matcher)
    front.own = backend
    verbs = ChannelVerbs(desk, feeds, lambda: address)
    return front, [sessions, backend, front, desk, feeds, direct, verbs]


def _balancing(
    contact: Contact, reporting: Reporting, attachments: Attachments, settings: BalancingSettings | None
) -> list[Behaviour]:
    """Every broker reports; the coordinator has `settings`, places who comes and moves who should go."""
    if settings is None:
        return [reporting, BalanceVerbs(contact, None)]
    balance = Balance(contact.census, settings)
    attachments.place = balance.place
    return [reporting, balance, BalanceVerbs(contact, balance)]


def _has_streams(on_disk: tuple[Behaviour, ...]) -> bool:
    return any(each.sessions for each in on_disk if isinstance(each, Streams))


def _reads_streams(on_disk: tuple[Behaviour, ...], client: Client) -> bool:
    return any(each.reads(client) for each in on_disk if isinstance(each, Readers))


def from_start(start: Start) -> Core:
    return tree_broker(
        start.name,
        start.incarnation,
        start.settings,
        start.random,
        start.addresses,
        start.kept,
        start.matcher,
        start.spool,
        coordinator="coordinator" in start.roles,
        coordinator_address=start.coordinator,
        opened=start.opened,
        disks=(start.disks or memory_disks()) if "backend" in start.roles else None,
        backend=start.backend,
        location=start.location,
    )


def tree_broker(
    name: str,
    incarnation: int,
    settings: CoreSettings,
    random: Random,
    addresses: tuple[str, ...] = (),
    kept: Kept | None = None,
    matcher: Callable[[], Matcher] = Scan,
    spool: Spool | None = None,
    coordinator: bool = False,
    coordinator_address: str = "",
    opened: Opened | None = None,
    disks: Disks | None = None,
    backend: str = "",
    location: tuple[float, ...] = (),
) -> Core:
    """A broker of the tree overlay. `kept`, `spool` and `opened` (its journal) are what an earlier life of it
    has left; a `coordinator` permits others to move, who may know its address; one with `disks` is a back
    end, others find it at `backend`."""
    core = Core(name, incarnation, settings, random)
    tree = _tree(core, addresses, matcher)
    handshake, neighbours, softs, sync, census, join, edges, announcements, router, publications = tree
    publications.whole = neighbours.whole
    local, readiness = publications.local, sync.readiness
    attachments = Attachments(handshake.liveness, readiness, router, router, local)
    requests = Requests(attachments, router)
    migration = Migration(router.advertisements, publications, attachments)
    leave = Leave(join, sync, attachments, router)
    (missing, *lost), listing = _losses(tree, attachments), TreeListing(core, join, router)
    reports = Reports(census, neighbours.members, listing, publications, attachments)
    news = News(listing, readiness, attachments)
    reports.waiting_for = news.waiting_for
    trace = Trace(partial(Decision, core, publications, router))
    relocation = Relocation(settings.relocation, publications, router.advertisements, migration, addresses)
    neighbourhoods = Neighbourhoods(handshake, sync)
    neighbourhoods.parent_lost = join.learn
    census.nearby = neighbourhoods.behind
    contact = Contact(handshake, census, coordinator, coordinator_address)
    moves, mesh = _soft_links(tree, neighbourhoods, reports, Permissions(contact))
    moves.busy = lambda: "a publisher moves" if migration.hops or migration.departures else ""
    disk = opened, publications, router, readiness, reports, addresses
    on_disk = two_copies(durable(settings, *disk), opened, join, census)
    fed_by = feeding(settings.feeding, readiness, attachments, router, spool)
    # Who is behind a link is told before any table; Sync comes last: when it hears of a link, the others
    # have announced their tables on it.
    first = (handshake, neighbours, neighbours.members, neighbours.staged, softs, census, join, edges)
    links = (*first, *_healing(tree, moves, leave), moves)
    known = (announcements, router.advertisements, router.subscriptions)
    tables = (neighbourhoods, missing, *known, router, *lost)
    moving = handing_over(census, handshake, attachments)
    served = (attachments, requests, migration, *moving, *on_disk, *fed_by)
    clients = (DeliveryLog(settings.delivery_log, publications), *served)
    relocating = (relocation, RelocationCommands(census, relocation, addresses))
    answers = (reports, Pulse(census, reports), news, trace, Administration(census, trace))
    front, channels = _channels(core, tree, kept or {}, disks, backend, matcher)
    serves = disks is None and not coordinator
    reporting = Reporting(census, front, moving[1], addresses, location, serves)
    reporting.fixed = partial(_reads_streams, on_disk)
    reports.channels = reporting.picture
    channels += [contact.sessions, contact]
    channels += _balancing(contact, reporting, attachments, settings.balancing if coordinator else None)
    core.assemble(
        (*links, *tables, publications, *mesh, *clients, *channels, *relocating, leave, *answers, sync)
    )
    _tell_disk(on_disk, publications, join)
    moves.bans.leave_tree = leave.leave
    moves.has_streams = partial(_has_streams, on_disk)
    core.leave, core.drain = moves.leave, attachments.drain
    core.restore(kept or {})
    return core
