"""The ring: topics by rendezvous on Chord (DYNATOPS)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from matching.interface import Matcher
from matching.scan import Scan
from overlay.administration.administration import Administration
from overlay.administration.census import Census
from overlay.administration.news import News
from overlay.administration.pulse import Pulse
from overlay.administration.reports import Reports
from overlay.administration.trace import Trace
from overlay.chord.asking import ChordDecision, on_arcs
from overlay.chord.contacts import RingContacts
from overlay.chord.leaving import RingLeaving
from overlay.chord.listing import ChordListing
from overlay.chord.membership import Membership
from overlay.chord.path import ChordPath
from overlay.chord.roots import Roots
from overlay.chord.router import ChordRouter
from overlay.chord.wants import Wants
from overlay.clients.attachments import Attachments
from overlay.clients.requests import Requests
from overlay.core import Core
from overlay.data.local import LocalSubscriptions
from overlay.links.handshake import Handshake
from overlay.links.readiness import Readiness
from overlay.profiles.start import Start
from overlay.settings import CoreSettings


def chord_broker(
    name: str,
    incarnation: int,
    settings: CoreSettings,
    random: Random,
    addresses: tuple[str, ...] = (),
    matcher: Callable[[], Matcher] = Scan,
) -> Core:
    core = Core(name, incarnation, settings, random)
    handshake, readiness = Handshake(addresses), Readiness()
    contacts = RingContacts(handshake, settings.chord, addresses)
    membership = Membership(settings.chord, addresses, contacts)
    roots = Roots(membership)
    wants = Wants(membership, roots)
    local = LocalSubscriptions(matcher)
    router = ChordRouter(settings.topics, local, wants)
    path = ChordPath(router, local, contacts, membership, roots, wants)
    contacts.on_died += [membership.died, roots.died]
    census = Census(on_arcs(membership, contacts))
    attachments = Attachments(handshake.liveness, readiness, router, router, local)
    attachments.ordered = False
    requests = Requests(attachments, router)
    leaving = RingLeaving(membership, roots, path, attachments, readiness)
    listing = ChordListing(core, membership, roots, router)
    reports = Reports(census, contacts.members, listing, path, attachments)
    news = News(listing, readiness, attachments)
    reports.waiting_for = news.waiting_for
    trace = Trace(partial(ChordDecision, core, path))
    # Contacts come first: who is dead is known before what was under way to it goes another way.
    ring = (handshake, contacts, contacts.members, membership, roots, wants, router, path)
    answers = (reports, Pulse(census, reports), news, trace, Administration(census, trace))
    core.assemble((*ring, census, attachments, requests, leaving, *answers))
    core.leave = leaving.leave
    core.drain = attachments.drain
    return core


def from_start(start: Start) -> Core:
    return chord_broker(
        start.name, start.incarnation, start.settings, start.random, start.addresses, start.matcher
    )
