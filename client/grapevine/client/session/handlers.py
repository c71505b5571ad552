"""Which message a session takes, and who takes it."""

from __future__ import annotations

from grapevine.client.session.session import Session
from grapevine.wire import messages as wire
from grapevine.wire import relocation
from grapevine.wire.channels import CHANNELS
from grapevine.wire.handover import HandoverDone, HandoverEnd, HandoverOffer
from grapevine.wire.streams import Acknowledged, Fetched, StreamState

HANDLERS = Session.HANDLERS
HANDLERS[wire.Attached.kind] = Session.on_attached
HANDLERS[wire.Refuse.kind] = Session.on_refuse
HANDLERS[wire.Reset.kind] = Session.on_reset
HANDLERS[wire.Marks.kind] = Session.on_marks
HANDLERS[wire.Ping.kind] = Session.on_ping
HANDLERS[wire.Done.kind] = Session.on_done
HANDLERS[wire.Deliver.kind] = Session.on_deliver
HANDLERS[wire.Names.kind] = Session.on_names
HANDLERS[wire.GoAway.kind] = Session.on_go_away
HANDLERS[wire.Dropped.kind] = Session.on_dropped
HANDLERS[wire.Partial.kind] = Session.on_partial
HANDLERS[relocation.RoundTripsRequest.kind] = lambda session, m, now: session.moving.asked(session, m)
HANDLERS[relocation.Relocate.kind] = lambda session, m, now: session.moving.on_relocate(session, m, now)
HANDLERS[relocation.Relocated.kind] = lambda session, m, now: session.moving.on_relocated(session, m, now)
HANDLERS[HandoverOffer.kind] = lambda session, m, now: session.handover.on_offer(m, now)
HANDLERS[HandoverDone.kind] = lambda session, m, now: session.handover.on_done(m, now)
HANDLERS[HandoverEnd.kind] = lambda session, m, now: session.handover.on_end(m, now)
HANDLERS[StreamState.kind] = Session.on_stream
HANDLERS[Fetched.kind] = Session.on_stream
HANDLERS[Acknowledged.kind] = Session.on_stream
for _message in CHANNELS:
    HANDLERS[_message.kind] = lambda session, m, now: session.channels.receive(m, now)
