"""The ring: topics by rendezvous on Chord (DYNATOPS)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from matching.interface import Matcher
from matching.scan import Scan
from overlay.administration.administration import Administration
from overlay.administration.census import Census
from overlay.administration.news import News
from overlay.administration.pulse import Pulse
from overlay.administration.reports import Reports
from overlay.administration.trace import Trace
from overlay.behaviour import Behaviour
from overlay.chord.asking import ChordDecision, on_arcs
from overlay.chord.clusters import Cluster
from overlay.chord.contacts import RingContacts
from overlay.chord.idle import IdleLinks
from overlay.chord.leaving import RingLeaving
from overlay.chord.listing import ChordListing
from overlay.chord.participation import Participation
from overlay.chord.placing import Placement
from overlay.chord.planes import Planes
from overlay.chord.probe import RingProbe
from overlay.chord.router import ChordRouter
from overlay.chord.topics import TopicKeys
from overlay.clients.attachments import Attachments
from overlay.clients.requests import Requests
from overlay.coordinate.interests import QUESTION, reporter
from overlay.coordinate.manager import Manager
from overlay.coordinate.reconfigure_commands import ReconfigureCommands
from overlay.core import Core
from overlay.data.local import LocalSubscriptions
from overlay.handover.handover import Handovers
from overlay.journal.holding import Holding
from overlay.journal.journal import Journal, Opened
from overlay.journal.streams import Streams
from overlay.links.handshake import Handshake
from overlay.links.readiness import Readiness
from overlay.profiles.start import Start
from overlay.profiles.tree import REPLAY_S, durable, handing_over
from overlay.settings import CoreSettings, PlacementSettings


def chord_broker(
    name: str,
    incarnation: int,
    settings: CoreSettings,
    random: Random,
    addresses: tuple[str, ...] = (),
    matcher: Callable[[], Matcher] = Scan,
    *,
    coordinator: bool = False,
    opened: Opened | None = None,
) -> Core:
    """`opened` is its journal, as an earlier life of it has left it; without one nothing is kept."""
    core = Core(name, incarnation, settings, random)
    handshake, readiness = Handshake(addresses), Readiness()
    contacts = RingContacts(handshake, settings.chord, addresses)
    local = LocalSubscriptions(matcher)
    planes = Planes(settings.chord, addresses, contacts, local)
    contacts.left = lambda: planes.membership.leaving
    router = ChordRouter(settings.topics, local, planes)
    planes.fill(router)
    participation = Participation(planes)
    census = Census(on_arcs(planes, contacts))
    census.reporters[QUESTION] = reporter(planes, census.brief)
    attachments = Attachments(handshake.liveness, readiness, router, router, local)
    attachments.ordered, attachments.ordered_by = False, settings.topics.by
    requests = Requests(attachments, router)
    leaving = RingLeaving(planes, participation, attachments, readiness)
    listing = ChordListing(core, planes, participation, router)
    reports = Reports(census, contacts.members, listing, planes.path, attachments)
    news = News(listing, readiness, attachments)
    reports.waiting_for = news.waiting_for
    reports.role_of, news.role_of = listing.role, lambda neighbour: listing.role(neighbour.name)
    planes.on_current.append(lambda now: setattr(reports, "publications", planes.path))
    # Up to the root, then down to the members that the copy names.
    decide = lambda side, request: ChordDecision(core, planes.path, side, request)  # noqa: E731
    trace = Trace(decide, lambda request: int(bool(request.excluded)))
    probe = RingProbe(planes, contacts, settings.chord.probe_s)
    listing.elsewhere = lambda: probe.elsewhere
    at_rest = lambda: planes.at_rest and participation.running is None  # noqa: E731
    idle = IdleLinks(contacts, at_rest)
    idle.reasons.append(planes.needed)
    # Contacts come first: who is dead is known before what was under way to it goes another way.
    ring = (handshake, contacts, contacts.members, planes, participation, router, probe, idle)
    answers = (reports, Pulse(census, reports), news, trace, Administration(census, trace))
    manager = Manager(settings.reconfiguration, planes, participation, census) if coordinator else None
    managing = () if manager is None else (manager,)
    commands = ReconfigureCommands(census, participation, manager)
    moving = handing_over(census, handshake, attachments)
    placing = placing_users(settings.placement, planes, router, census, moving)
    if placing:
        listing.placement = placing[-1].status
        idle.reasons.append(placing[0].nodes)
    on_disk = keeping(settings, opened, planes, router, readiness, reports, addresses)
    leaving.streams = next((one for one in on_disk if isinstance(one, Streams)), None)
    clients = (attachments, requests, *moving, *on_disk, *placing, leaving)
    core.assemble((*ring, census, *managing, *clients, commands, *answers))
    for holding in [one for one in on_disk if isinstance(one, Holding)]:
        holding.replay.first_s = REPLAY_S
    core.leave = leaving.leave
    core.drain = attachments.drain
    return core


def keeping(
    settings: CoreSettings,
    opened: Opened | None,
    planes: Planes,
    router: ChordRouter,
    readiness: Readiness,
    reports: Reports,
    addresses: tuple[str, ...],
) -> tuple[Behaviour, ...]:
    """Durable publications at their first broker, streams at their reader's. Who has some was on a ring
    before, in an earlier process (rebuilding.py)."""
    if opened is not None and (opened.contents.streams or opened.contents.custody.items):
        planes.membership.lives = 1
    on_disk = durable(settings, opened, planes, router, readiness, reports, addresses)
    for journal in [one for one in on_disk if isinstance(one, Journal)]:
        journal.topic = TopicKeys(router.terms)
    return on_disk


def placing_users(
    settings: PlacementSettings,
    planes: Planes,
    router: ChordRouter,
    census: Census,
    moving: tuple[Behaviour, ...],
) -> tuple[()] | tuple[Cluster, Placement]:
    if settings.rule == "off":
        return ()
    cluster = Cluster(settings, planes, census)
    handovers = next(one for one in moving if isinstance(one, Handovers))
    return cluster, Placement(settings, planes, router, cluster, handovers)


def from_start(start: Start) -> Core:
    core = chord_broker(
        start.name,
        start.incarnation,
        start.settings,
        start.random,
        start.addresses,
        start.matcher,
        coordinator="coordinator" in start.roles,
        opened=start.opened,
    )
    core.restore(start.kept)
    return core
