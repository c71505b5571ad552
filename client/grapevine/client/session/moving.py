"""The client's part of a publisher's relocation: pause, buffer, resume elsewhere, or stay after all.

The broker where we publish offers another one. We attach there, stop publishing, say so to the source,
and ask the target to take our advertisements over; `publish` goes on and fills the window meanwhile. When
the target says that everything before is settled, what is left goes there. If it does not come to that, we
say so to both and make our advertisements anew at the source, as after a failure; what is unsettled stays
ours all the time.

A client with subscriptions keeps its attachment for them. One without leaves the source, and the new
attachment takes the place of the old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from grapevine.client.session.attachment import Attachment
from grapevine.client.session.away import Away
from grapevine.client.session.event import Event
from grapevine.client.session.state import State
from grapevine.wire import messages as wire
from grapevine.wire.relocation import (
    Migrate,
    Paused,
    Relocate,
    Relocated,
    RelocateEnd,
    RoundTripsRequest,
)

if TYPE_CHECKING:
    from grapevine.client.session.session import Session

Place: TypeAlias = "Session | Away"

OPEN_S = 5.0  # to reach the target
MIGRATE_S = 15.0  # from the pause to the target's word


class Move:
    """One migration. `paused` since the target was reached; `restarted`: the source has forgotten us."""

    __slots__ = ("deadline", "offer", "paused", "paused_at", "restarted", "source", "target")

    def __init__(self, offer: Relocate, source: Place, target: Place, now: float) -> None:
        self.offer = offer
        self.source = source
        self.target = target
        self.deadline = now + OPEN_S
        self.paused = False
        self.paused_at = 0.0
        self.restarted = False

    @property
    def id(self) -> tuple[int, int, int]:
        return self.offer.origin, self.offer.incarnation, self.offer.number


class Moving:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.place: Place = session  # where we publish
        self.move: Move | None = None
        self.moves = self.aborted = 0
        self.pause_s = 0.0  # how long the last move held publications back, over so many hops
        self.hops = 0
        self.closing: list[Attachment] = []  # to be sent their last words and closed; the driver clears it
        self.promoted: Attachment | None = None  # its link is to be the main one (event "promoted")
        self.farewell: list[wire.Message] = []  # for the link that was the main one
        self._proposal = 0
        self._ended: RelocateEnd | None = None
        self._ended_at: tuple[Place, ...] = ()  # who should know

    @property
    def attachments(self) -> list[Attachment]:
        """Those that need a link beside the main one."""
        if self.place is self.session and self.move is None:  # asked with every frame
            taken_over = self.session.handover.target
            return [] if taken_over is None else [taken_over]
        target = self.move.target if self.move is not None else None
        places = (self.place, target, self.session.handover.target)
        found: list[Attachment] = [place for place in places if isinstance(place, Attachment)]
        if self.move is not None and isinstance(self.move.source, Away) and self.move.source not in found:
            found.append(self.move.source)
        return found

    @property
    def here(self) -> bool:
        """Whether the main attachment is the one that publishes."""
        return self.place is self.session

    @property
    def paused(self) -> bool:
        return self.move is not None and self.move.paused

    def propose(self) -> int:
        """An epoch that no attachment of ours has had."""
        self._proposal += 1
        return self._proposal

    # --- the offer --------------------------------------------------------------------------------

    def asked(self, place: Session | Attachment, request: RoundTripsRequest) -> None:
        self.session.events.append(Event("round-trips", asked=(place, request)))

    def on_relocate(self, place: Place, offer: Relocate, now: float) -> None:
        if self.move is not None:
            if self.move.paused and self.move.id == (offer.origin, offer.incarnation, offer.number):
                self._say_paused()
            return
        end = self._ended
        if end is not None and (end.origin, end.incarnation, end.number) == _id(offer):
            place.say(end)
        elif place is not self.place or not self._ready(offer):
            place.say(RelocateEnd(*_id(offer), "declined"))
        else:
            self._begin(place, offer, now)

    def _ready(self, offer: Relocate) -> bool:
        session = self.session
        known = session.advertised.by_number.values()
        return (
            session.handover.target is None
            and {moved.number for moved in offer.advertisements} == {a.number for a in known}
            and all(a.confirmed and a.withdrawn_at is None for a in known)
            and not any(isinstance(asked, ADVERTISING) for asked in session.requests.asked.values())
        )

    def _begin(self, place: Place, offer: Relocate, now: float) -> None:
        session = self.session
        if offer.path[-1] == session.broker and place is not session:
            self.move = Move(offer, place, session, now)
            if session.state == State.ATTACHED:
                self._pause(now)
        else:
            self.move = Move(offer, place, Away(session, offer, now), now)

    def _pause(self, now: float) -> None:
        move = self.move
        assert move is not None
        move.paused = True
        move.paused_at = now
        move.deadline = now + MIGRATE_S
        self._say_paused()
        self._say_migrate()

    def _say_paused(self) -> None:
        move = self.move
        assert move is not None
        outgoing = self.session.outgoing
        if not move.restarted:
            move.source.say(Paused(*move.id, outgoing.sent - outgoing.base))

    def _say_migrate(self) -> None:
        move = self.move
        assert move is not None
        offer = move.offer
        move.target.say(Migrate(*move.id, offer.path, offer.advertisements, offer.moves))

    # --- how it ends ------------------------------------------------------------------------------

    def on_relocated(self, place: Place, message: Relocated, now: float) -> None:
        move = self.move
        if move is None or move.id != _id(message) or not move.paused:
            known = self._ended is not None and _id(self._ended) == _id(message)
            place.say(self._ended if known and self._ended else RelocateEnd(*_id(message), "aborted"))
        elif message.outcome == "moved":
            self._finish(move, message.accepted, now)
        else:
            self._abort(move, now, touched=message.outcome != "refused")

    def _finish(self, move: Move, accepted: int, now: float) -> None:
        session, source, target = self.session, move.source, move.target
        outgoing = session.outgoing
        outgoing.settle_up_to(accepted)
        if not move.restarted:
            source.stream = (outgoing.sent - outgoing.base, outgoing.limit - outgoing.base)
        self._publish_at(target)
        self.move = None
        self.moves += 1
        self.pause_s, self.hops = now - move.paused_at, len(move.offer.path) - 1
        self._end(move, "moved")
        if isinstance(source, Away):
            self._close(source)
        self._send_asked(target)
        if source is session and isinstance(target, Away) and not session.incoming.subscriptions:
            if not session.requests.asked:
                self.place = session
                self.promoted, self.farewell = target, [*session.out, wire.Detach()]
                session.take_place(target, now)

    def _publish_at(self, place: Place) -> None:
        received, credit = place.stream
        self.place = place
        self.session.outgoing.restart(credit, received)
        self.session.cuts.restart()

    def _abort(self, move: Move, now: float, touched: bool = True) -> None:
        """`touched`: brokers may have turned our advertisements round, if we came to ask for it."""
        self.move = None
        self.aborted += 1
        void = move.paused and (touched or move.restarted)
        self._end(move, "aborted" if void else "declined")
        if isinstance(move.target, Away):
            self._close(move.target)
        if not void:
            if move.paused:  # what was asked meanwhile
                self._send_asked(self.place)
            return
        if move.restarted:
            self._publish_at(move.source)
        self._advertise_anew()

    def _advertise_anew(self) -> None:
        """Our advertisements are void wherever they are: make them at the broker where we publish."""
        self.session.readvertise()
        self._send_asked(self.place, wire.ClientUnadvertise)

    def _end(self, move: Move, outcome: str) -> None:
        self._ended = RelocateEnd(*move.id, outcome)
        self._ended_at = (move.source, move.target)
        for place in self._ended_at:
            place.say(self._ended)

    def _close(self, away: Away) -> None:
        away.say(wire.Detach())
        self.closing.append(away)

    def _send_asked(self, place: Place, *kinds: type[wire.Message]) -> None:
        for asked in self.session.requests.asked.values():
            if isinstance(asked, kinds or ADVERTISING):
                place.say(asked)

    # --- attachments come and go ------------------------------------------------------------------

    def attached(self, away: Away, now: float) -> None:
        """Anew: the broker knows nothing of us."""
        move = self.move
        if move is not None and move.target is away:
            if move.paused or not self._ready(move.offer):  # what we advertise may have changed since
                self._abort(move, now)
            else:
                self._pause(now)
        elif move is not None and move.paused:
            move.restarted = True
        elif self.place is away:
            self._give_up_move(now)
            self._publish_at(away)
            self._advertise_anew()

    def _give_up_move(self, now: float) -> None:
        if self.move is not None:
            self._abort(self.move, now)

    def resumed(self, place: Place, attached: wire.Attached) -> None:
        """Both sides know where they were: say again what may have been lost."""
        move = self.move
        if self.place is place:
            self.session.outgoing.resume(attached.received, attached.settled, attached.credit)
        else:
            place.stream = (place.stream[0], max(place.stream[1], attached.credit))
        if self._ended is not None and place in self._ended_at:
            place.say(self._ended)
        if move is not None and move.paused:
            if move.source is place:
                self._say_paused()
            elif move.target is place:
                self._say_migrate()
        elif self.place is place:
            self._send_asked(place)

    def main_restarted(self, attached: wire.Attached, now: float) -> bool:
        """The main attachment is new. True if it is the one that publishes and must be told everything."""
        session, move = self.session, self.move
        session.stream = (0, attached.credit)
        if isinstance(self.place, Away) and self.place.broker == attached.broker:
            # Our two attachments have met at one broker: there is but one client of a name there.
            self._give_up_move(now)
            self.closing.append(self.place)
            self.place = session
            return True
        if move is not None and isinstance(move.target, Away) and move.target.broker == attached.broker:
            move.restarted = move.restarted or move.source is session
            self._abort(move, now)
            return False if move.paused else self.here
        if move is not None and move.target is session and move.paused:
            self._abort(move, now)
            return False
        if move is None or not self.here:
            return self.here
        if move.paused:
            move.restarted = True
            return False
        self._abort(move, now)
        return True

    def gone(self, away: Away, now: float) -> None:
        """This broker is not there any more, or wants us no more."""
        move = self.move
        if move is not None and move.target is away:
            self._abort(move, now)
        elif move is not None and move.source is away and move.paused:
            return  # the target's word, or the deadline
        elif self.place is away:
            self._give_up_move(now)
            self._go_home(away)

    def _go_home(self, away: Away) -> None:
        self._close(away)
        self._publish_at(self.session)
        self._advertise_anew()

    # --- time -------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Publications leave where they are to be published; cuts are acknowledged there."""
        session, place = self.session, self.place
        session.handover.flush()
        if isinstance(place, Away) and place.state == State.ATTACHED and place.epoch is not None:
            if session.cuts.seen != session.cuts.acknowledged:
                seen = session.cuts.acknowledge()
                place.out.append(wire.Marks(place.epoch, 0, 0, place.window, cuts_seen=seen))
            if not self.paused:
                place.out += session.outgoing.batches(place.epoch, session.advertised.held_from())

    def next_deadline(self) -> float | None:
        deadlines = [away.next_deadline() for away in self.attachments]
        if self.move is not None:
            deadlines.append(self.move.deadline)
        return min(deadlines, default=None)

    def tick(self, now: float) -> None:
        for away in self.attachments:
            away.tick(now)
        move = self.move
        if move is not None and now >= move.deadline:
            source = move.source
            self._abort(move, now)
            if isinstance(source, Away) and source.state == State.DOWN:
                self.gone(source, now)

    def close(self) -> None:
        for away in self.attachments:
            away.say(wire.Detach())
            away.state = State.CLOSED


ADVERTISING = (wire.ClientAdvertise, wire.ClientUnadvertise)


def _id(message: Relocate | Relocated | RelocateEnd) -> tuple[int, int, int]:
    return message.origin, message.incarnation, message.number
