"""Session and link together, without waiting anywhere: both shells turn this one crank.

It dials the brokers in order, stays with one until it is lost, tries that one again first, then the next;
after a round without success it pauses. Other brokers that a broker has named are tried after those given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

import zmq

from grapevine.client.branches import Branches
from grapevine.client.keys import KeyFileError
from grapevine.client.link import DOWN, UP, Link
from grapevine.client.session import Event, Request, Session, State
from grapevine.errors import Closed, Error, Invalid, NotAllowed, Unreachable
from grapevine.wire.codec import decode, encode, write
from grapevine.wire.errors import WireError
from grapevine.wire.limits import ADDRESSES
from grapevine.wire.messages import Detach

FRAMES = 32  # read before what they caused is sent
TAKEN = 2_048  # deliveries, too: memory that the reader gives back soon stays warm
PAUSE_S = 0.1  # after a round without success, doubled each time
PAUSE_MOST_S = 2.0
DIAL_S = 3.0  # for a connection to come up
RETRY_S = 0.002  # when the socket takes no more
WRONG_FRAMES = 3  # before a broker is left

_STUBBORN = ("version", "name", "not-allowed")  # refusals that asking again does not change


class Engine:
    def __init__(self, brokers: Sequence[str], session: Session, keys: Path | None) -> None:
        self.session = session
        self.link: Link | None = None
        self.error: Error | None = None  # why there is no broker at the moment
        self.hopeless = False  # every broker has refused us, twice
        self._brokers = list(brokers)
        self._named: list[str] = []
        self._keys = keys
        self._choice = 0
        self._failures = 0  # in a row
        self._refusals = 0  # of them, those that will not change
        self._dial_at: float | None = 0.0
        self._up = False
        self._give_up_at = 0.0
        self._unsent: deque[bytes] = deque()
        self._buffer = bytearray()  # frames are written here, one after the other
        self._wrong = 0
        self.rumour = False  # the shell saw something on the link's monitor
        self.relinked: Callable[[], None] = lambda: None  # the sockets to watch have changed
        self.branches = Branches(session, keys)
        self.branches.relinked = lambda: self.relinked()

    # --- the crank --------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Do all that can be done now; True if there is more to read."""
        more = self.read()
        self.flush()
        return more

    def read(self) -> bool:
        """Take what is there; True if there is more. What it asks for leaves with `flush`."""
        now = monotonic()
        if self.link is None and self._dial_at is not None and now >= self._dial_at:
            self._dial(now)
        more = False
        if self.link is not None and (self.rumour or not self._up):
            self.rumour = False
            self._hear(self.link, now)
        if self.link is not None and self._up:
            more = self._drain(self.link, now)
        if self.branches.needed:
            more |= self.branches.turn(now)
        self.session.tick(now)
        if self.session.events:
            self._act(now)
        return more

    def links(self) -> list[Link]:
        """All whose sockets are to be watched."""
        links = self.branches.links()
        return links if self.link is None else [self.link, *links]

    def next_deadline(self) -> float | None:
        deadlines = [self.session.next_deadline(), self.branches.next_deadline()]
        if self._unsent:
            deadlines.append(monotonic() + RETRY_S)
        if self.link is None:
            deadlines.append(self._dial_at)
        elif not self._up:
            deadlines.append(self._give_up_at)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _hear(self, link: Link, now: float) -> None:
        news = link.news()
        if news == UP:
            self._up = True
            self.session.link_up(now)
        elif news == DOWN and self._up:
            self._lost(now)
        elif news == DOWN or (not self._up and now >= self._give_up_at):
            self._failed(link.why_down(), now)

    def _drain(self, link: Link, now: float) -> bool:
        recv, receive = link.socket.recv, self.session.receive
        incoming = self.session.incoming
        enough = incoming.taken + TAKEN
        for _ in range(FRAMES):
            try:
                frame = recv(zmq.NOBLOCK, False)
            except zmq.Again:
                return False
            try:
                receive(decode(frame.buffer), now)
            except WireError as error:
                self._wrong += 1
                if self._wrong >= WRONG_FRAMES:
                    self._failed(Unreachable(f"{link.address} speaks another language: {error}"), now)
                    return False
            if incoming.taken >= enough or self.session.moving.promoted is not None:
                break  # or this link is not the main one any more
        return True

    def flush(self) -> None:
        """Send what has gathered."""
        session = self.session
        if self.branches.open:
            self.branches.flush()
        if self.link is None or not self._up:
            session.out.clear()
            return
        if not self._unsent:
            session.flush_out(monotonic())
        send, unsent = self.link.socket.send, self._unsent
        while unsent:
            try:
                send(unsent[0], zmq.NOBLOCK)
            except zmq.Again:
                break
            unsent.popleft()
        for message in session.out:
            write(self._buffer, message)
            if not unsent:
                try:
                    send(self._buffer, zmq.NOBLOCK)
                    continue
                except zmq.Again:
                    pass
            unsent.append(bytes(self._buffer))
        session.out.clear()

    # --- brokers ----------------------------------------------------------------------------------

    @property
    def _candidates(self) -> list[str]:
        return list(dict.fromkeys((*self._brokers, *self._named)))

    def _dial(self, now: float) -> None:
        candidates = self._candidates
        address = candidates[self._choice % len(candidates)]
        self._dial_at = None
        self._up = False
        self._wrong = 0
        self._give_up_at = now + DIAL_S
        try:
            self.link = Link(address, self._keys)
        except Error as error:
            self._failed(error, now)
            return
        self.relinked()

    def _hang_up(self, now: float) -> None:
        self._unsent.clear()
        self.session.link_down(now)
        if self.link is not None:
            self.link.close()
            self.link = None
            self._up = False
            self.relinked()

    def _lost(self, now: float) -> None:
        """The broker that we had: perhaps it is there again at once."""
        self.error = Unreachable(
            f"the connection to {self.link.address if self.link else 'the broker'} broke"
        )
        self._hang_up(now)
        self._dial_at = now

    def _failed(self, error: Error, now: float) -> None:
        self._hang_up(now)
        self.error = error
        self._choice += 1
        self._failures += 1
        self._refusals = self._refusals + 1 if isinstance(error, NotAllowed | KeyFileError) else 0
        rounds, rest = divmod(self._failures, len(self._candidates))
        self.hopeless = self._refusals >= 2 * len(self._candidates)
        self._dial_at = now if rest else now + min(PAUSE_S * 2 ** min(rounds - 1, 10), PAUSE_MOST_S)

    def _act(self, now: float) -> None:
        events, self.session.events = self.session.events, []
        for event in events:
            self._on_event(event, now)

    def _on_event(self, event: Event, now: float) -> None:
        if event.what in ("attached", "resumed"):
            self.error, self.hopeless = None, False
            self._failures = self._refusals = 0
            self._named = _dialable(self.session.addresses)
        elif event.what == "promoted":
            self._promote(now)
        elif event.what == "gap":
            event.subscription.tell_gap()
        elif event.what == "elsewhere":
            self._go_to(event.addresses, now)
        elif event.what == "refused":
            text = f"{event.text or 'refused'} ({event.reason})"
            self._failed(NotAllowed(text) if event.reason in _STUBBORN else Unreachable(text), now)
        elif event.what == "go-away":
            self._sent_away(_dialable(event.addresses), now)
        elif event.what != "round-trips" and self.link is not None:
            self._failed(Unreachable(f"{self.link.address} does not answer"), now)

    def _go_to(self, addresses: Sequence[str], now: float) -> None:
        """Where the group is that this session reads."""
        self._brokers = list(dict.fromkeys((*_dialable(addresses), *self._brokers)))
        self._choice = 0
        self._hang_up(now)
        self._dial_at = now

    @property
    def candidates(self) -> tuple[str, ...]:
        """Addresses of brokers, the one in use first."""
        first = [] if self.link is None else [self.link.address]
        return tuple(dict.fromkeys((*first, *self._candidates)))

    @property
    def keys(self) -> Path | None:
        return self._keys

    def _sent_away(self, named: list[str], now: float) -> None:
        """The broker wants us elsewhere, in this order. The first is ours from now on: the one to go back to
        when the link breaks."""
        self._named = list(dict.fromkeys((*named, *self._named)))[:ADDRESSES]
        here = "" if self.link is None else self.link.address
        if all(address == here for address in self._candidates):
            return  # there is nowhere else
        if self.link is not None and self.session.channels.alone:
            self._unsent.append(encode(Detach()))
            self._say_farewell(self.link)
            self.link, self._up = None, False
            self.relinked()
        self._failed(Unreachable("the broker sent us elsewhere"), now)
        if named:
            self._brokers = [named[0], *(each for each in self._brokers if each != named[0])]
            self._choice = 0

    def _promote(self, now: float) -> None:
        """The session has moved as a whole: its second link is the main one from now on."""
        moving = self.session.moving
        away, farewell = moving.promoted, moving.farewell
        moving.promoted, moving.farewell = None, []
        assert away is not None
        if self.link is not None:
            self._unsent.extend(map(encode, farewell))
            self._say_farewell(self.link)
        branch = self.branches.take(away)
        self._brokers = [*away.addresses, *(b for b in self._brokers if b not in away.addresses)]
        self._choice = 0
        self._unsent = deque() if branch is None else branch.unsent
        self.link = None if branch is None else branch.link
        self._up = self.link is not None
        self.relinked()
        if self.link is None:  # it has broken meanwhile
            self.session.link_down(now)
            self._dial_at = now

    def _say_farewell(self, link: Link) -> None:
        for frame in self._unsent if self._up else ():
            try:
                link.socket.send(frame, zmq.NOBLOCK)
            except zmq.Again:
                break
        link.close(1_000)

    def close(self) -> None:
        """Say good-bye and hang up."""
        self.session.close()
        self.branches.close(monotonic())
        if self.link is not None:
            self._unsent.extend(map(encode, self.session.out))
            self._say_farewell(self.link)
            self.link = None
        self._dial_at = None
        self.relinked()

    # --- what the shells wait for -----------------------------------------------------------------

    def attached(self) -> bool:
        self.check_hope()
        return self.session.state == State.ATTACHED

    def answered(self, request: Request) -> bool:
        if request.error is not None:
            raise request.error
        if not request.done:
            self.check_hope()
        return request.done

    def has_room(self) -> bool:
        self.check_open()
        self.check_hope()
        return self.session.outgoing.roomy

    def flushed(self, number: int, until: str) -> bool:
        """Whether the publications appended up to `number` have come as far as `until`."""
        self.check_open()
        outgoing = self.session.outgoing
        reached: int = getattr(outgoing, REACHED[until])
        if reached >= min(number, outgoing.appended):
            return True
        self.check_hope()
        return False

    def check_flush(self, until: str) -> None:
        if until not in REACHED:
            raise Invalid(f"until={until!r} is none of {', '.join(REACHED)}")
        if until == "persisted" and self.session.state == State.ATTACHED and not self.session.journal:
            raise NotAllowed(
                f"the broker {self.session.broker_name} keeps no journal: nothing is ever persisted"
            )

    def check_hope(self) -> None:
        """Waiting is of no use while every broker refuses us: whoever waits hears why."""
        if self.hopeless and self.error is not None:
            raise self.error

    def check_open(self) -> None:
        if self.session.state == State.CLOSED:
            raise Closed("the client is closed")


REACHED = {"accepted": "received", "persisted": "persisted", "settled": "settled"}


def _dialable(named: Sequence[str]) -> list[str]:
    """The latest that brokers have named, as many as a message holds: each may send us on to another."""
    return list(dict.fromkeys(a for a in named if a.startswith(("tcp://", "ipc://"))))[:ADDRESSES]
