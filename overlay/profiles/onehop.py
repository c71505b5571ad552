"""The one-hop cluster (BlueDove): dispatchers take clients, matchers hold subscriptions by dimensions."""

from __future__ import annotations

from grapevine.wire.onehop import DISPATCHER, MATCHER
from overlay.administration.administration import Administration
from overlay.administration.census import Census
from overlay.administration.news import News
from overlay.administration.pulse import Pulse
from overlay.administration.reports import Reports
from overlay.administration.trace import Trace
from overlay.behaviour import Behaviour
from overlay.clients.attachments import Attachments
from overlay.clients.requests import Requests
from overlay.core import Core
from overlay.data.delivery_log import DeliveryLog
from overlay.data.local import LocalSubscriptions
from overlay.journal.holding import Holding
from overlay.journal.streams import Streams
from overlay.links.handshake import Handshake
from overlay.links.readiness import Readiness
from overlay.onehop.adopting import Adopting
from overlay.onehop.asking import Asking
from overlay.onehop.cluster import Cluster
from overlay.onehop.commands import OneHopCommands
from overlay.onehop.delivering import MatcherDelivery, MatcherPublications
from overlay.onehop.figures import Figures
from overlay.onehop.handover import Handover
from overlay.onehop.leaving import Leaving
from overlay.onehop.listing import OneHopListing
from overlay.onehop.matcher import Matching
from overlay.onehop.placing import Placing
from overlay.onehop.publications import OneHopPublications
from overlay.onehop.reporting import Reporting
from overlay.onehop.router import OneHopRouter
from overlay.onehop.sampling import Sampling
from overlay.onehop.spread import directly
from overlay.onehop.tracing import OneHopDecisions
from overlay.onehop.verdicts import Verdicts
from overlay.onehop.watching import Watching
from overlay.profiles.start import Start
from overlay.profiles.tree import durable, feeding, handing_over

ROLES = {"dispatcher": DISPATCHER, "matcher": MATCHER}


def roles_of(start: Start) -> int:
    """Without a role of this overlay a broker has both."""
    return sum(ROLES[role] for role in start.roles if role in ROLES) or DISPATCHER | MATCHER


def from_start(start: Start) -> Core:
    core = Core(start.name, start.incarnation, start.settings, start.random)
    settings, roles = start.settings.onehop, roles_of(start)
    handshake, readiness = Handshake(start.addresses), Readiness()
    cluster = Cluster(handshake, readiness, settings.dimensions, roles)
    local = LocalSubscriptions(start.matcher)
    placing = Placing(cluster)
    router = OneHopRouter(cluster, placing, local)
    by_matchers = settings.delivery == "matcher"
    path = MatcherPublications if by_matchers else OneHopPublications
    publications = path(router, local, start.settings.overlay.ordered, cluster, placing)
    reporting = Reporting(cluster)
    sampling = Sampling(cluster, reporting)
    ask = MatcherDelivery if by_matchers else Asking
    asking = ask(cluster, placing, reporting, sampling, publications)
    attachments = Attachments(handshake.liveness, readiness, router, router, local)
    attachments.takers = cluster.dispatchers
    requests = Requests(attachments, router)
    census = Census(directly(core))
    listing = OneHopListing(core, cluster, placing, router)
    reports = Reports(census, cluster.members, listing, publications, attachments)
    news = News(listing, readiness, attachments)
    reports.waiting_for = news.waiting_for
    # Everybody has a link to everybody.
    reports.role_of, news.role_of = lambda name: "", lambda neighbour: ""
    decisions = OneHopDecisions(core, cluster, placing, asking)
    trace = Trace(decisions.decide)
    matching: list[Behaviour] = []
    handover = matcher = None
    if roles & MATCHER:
        matcher = Matching(cluster, start.matcher, start.effort)
        reporting.measure = matcher.measure
        publications.matching = decisions.matching = matcher
        handover = Handover(cluster, matcher, reporting, sampling, settings.placement)
        matching = [matcher, handover]
    watching = Watching(cluster, asking, reporting)
    figures = Figures(cluster, placing, asking, watching)
    figures.matching, figures.handover = matcher, handover
    listing.figures = figures.row
    commands = OneHopCommands(census, cluster, placing, asking, watching, sampling, matcher)
    leaving = Leaving(cluster, attachments, asking, handover)
    adopting = Adopting(cluster, publications)
    # A matcher that forwards knows the homes, and their dispatcher does not: nobody could say who is behind.
    opened = start.opened if roles & DISPATCHER and not by_matchers else None
    on_disk = durable(start.settings, opened, publications, router, readiness, reports, start.addresses)
    leaving.streams = next((one for one in on_disk if isinstance(one, Streams)), None)
    fed = feeding(start.settings.feeding, readiness, attachments, router, start.spool)
    log = DeliveryLog(start.settings.delivery_log, publications)
    # The cluster hears of a link first and says who we are; the others hear of it when the other side has.
    links = (handshake, cluster.members, cluster, Verdicts(cluster), census)
    tables = (placing, router, reporting, sampling, *matching, publications, asking, adopting)
    moving = handing_over(census, handshake, attachments)
    clients = (log, attachments, requests, *moving, *on_disk, *fed, watching, leaving, commands)
    answers = (reports, Pulse(census, reports), news, trace, Administration(census, trace))
    core.assemble((*links, *tables, *clients, *answers))
    for holding in [one for one in on_disk if isinstance(one, Holding)]:
        holding.replay.is_time = adopting.is_time
        holding.replay.holds_back = False  # only from homes that are behind (publications)
    core.leave = leaving.leave
    core.restore(start.kept)
    core.drain = attachments.drain
    if not roles & DISPATCHER:
        cluster.serve_nobody = attachments.drain
    return core
