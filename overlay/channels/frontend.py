"""SPEC A2, A3: a broker towards subscribers of channels: it asks once, pulls once, pushes to each.

A front-end subscription is a position: everything after it is due. Rows go out while the client's window has
room; who is slow or comes late is served from where it is, out of the cache or by a pull of its own, and
nothing is ever dropped. A client says where it is whenever it attaches, so whatever was under way when a link
broke comes again, once. How far named subscribers are goes to the back end every second and when they leave.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.channels import (
    BackendSubscribe,
    BackendSubscribed,
    BackendUnsubscribe,
    BackendWelcome,
    ChannelRows,
    ChannelState,
    ChannelTaken,
    ChannelTroubled,
    Cursors,
    DriverAsk,
    Executed,
    Pull,
    Pulled,
    SubscribeChannel,
    UnsubscribeChannel,
    execution_of,
    in_whole,
    position,
)
from grapevine.wire.messages import GoAway, Message
from overlay.behaviour import Quiet, Status
from overlay.channels.backend import BackEnd
from overlay.channels.cache import Cache
from overlay.channels.sessions import BackendSession, Handlers, Inside
from overlay.channels.subscribers import FrontEndSubscription, Wanted
from overlay.core import Core
from overlay.links.handshake import BACKEND, Handshake
from overlay.links.session import Kind, Session
from overlay.settings import ChannelSettings

CURSORS_S = 1.0
LINGER_S = 30.0  # a back-end subscription stays for a subscriber that comes back
ASKED_S = 1.0  # and for as long as the back end has questions to answer
PULL_BYTES = 4 << 20
OWN_PULL_BYTES = 256 << 10
SUBSCRIPTIONS_MAX = 10_000  # of one client
LIMIT = f"a client has at most {SUBSCRIPTIONS_MAX} subscriptions of channels: end one, or use another client"


class FrontEnd(Quiet):
    name = "channels"

    def __init__(
        self, settings: ChannelSettings, handshake: Handshake, addresses: Callable[[], tuple[str, ...]]
    ) -> None:
        self.settings = settings
        self.handshake = handshake
        self.addresses = addresses  # of the back end, as far as they are known
        self.own: BackEnd | None = None  # the back end, if it is this broker
        self.backend: BackendSession | None = None
        self.by_client: dict[Session, dict[int, FrontEndSubscription]] = {}
        self.wanted: dict[int, Wanted] = {}
        self.cache = Cache(settings.cache_bytes)
        self.pulled_rows = self.pushed_rows = 0
        self._asked: dict[int, FrontEndSubscription] = {}  # request -> who waits for the back end's word
        self._pulls: dict[int, dict[int, int]] = {}  # request -> back-end subscription -> after
        self._own: dict[int, FrontEndSubscription] = {}  # request -> whose pull it is
        self._request = 0
        self._dialling = False
        self._cursors_due = False

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(SubscribeChannel, self.on_subscribe)
        core.on(UnsubscribeChannel, self.on_unsubscribe)
        core.on(ChannelTaken, self.on_taken)
        if self.own is None:
            core.on(DriverAsk, self.on_ask)
        self.handlers: Handlers = {
            BackendWelcome: self.on_welcome,
            BackendSubscribed: self.on_subscribed,
            Executed: self.on_executed,
            Pulled: self.on_pulled,
            ChannelTroubled: self.on_troubled,
        }
        for message, handler in self.handlers.items():
            core.on(message, handler)

    def start(self, now: float) -> None:
        if self.own is not None:
            inside = self.backend = Inside(self.core)
            inside.join(self.handlers, self.own.handlers)
            self.own.brokers[inside.id] = inside

    def on_ask(self, client: Session, message: DriverAsk, now: float) -> None:
        """A driver that lost the back end and took the next broker that it knew."""
        self.core.tell(GoAway(self.addresses()), client)

    def _say(self, message: Message) -> None:
        if isinstance(self.backend, Inside):
            self.backend.to_back(message)
        elif self.backend is not None:
            self.core.tell(message, self.backend)

    def _new_request(self) -> int:
        self._request += 1
        return self._request

    # --- the link to the back end -------------------------------------------------------------------------

    def _dial(self, now: float) -> None:
        """While somebody here wants results."""
        if self._dialling or self.backend is not None or not self.by_client:
            return
        if not (addresses := self.addresses()):
            return
        self._dialling = True
        self.handshake.dial(addresses, self._greeted, self._failed, now, BACKEND)

    def _greeted(self, session: BackendSession, now: float) -> None:
        self._dialling = False

    def _failed(self, reason: str, text: str, now: float) -> None:
        self._dialling = False
        self.core.timers.at(now + self.core.settings.links.redial_s, self._dial)

    def on_welcome(self, session: Session, message: BackendWelcome, now: float) -> None:
        assert isinstance(session, BackendSession)
        self.backend = session
        self._forget_requests()
        for wanted in self.wanted.values():
            wanted.pulling = 0
        for mine in self.by_client.values():
            for fe in mine.values():
                self._ask(fe)

    def _forget_requests(self) -> None:
        self._asked.clear()
        self._pulls.clear()
        for fe in self._own.values():
            fe.pulling = 0
        self._own.clear()

    # --- subscribing --------------------------------------------------------------------------------------

    def on_subscribe(self, client: Session, message: SubscribeChannel, now: float) -> None:
        mine = self.by_client.setdefault(client, {})
        fe = mine.get(message.number)
        if fe is not None and (fe.channel, fe.parameters) == (message.channel, message.parameters):
            self._own.pop(fe.pulling, None)
            fe.begin(message)
        elif self.backend is None and not self.addresses():
            text = "this broker knows no back end: set broker.backend"
            self.core.tell(ChannelState(message.number, "no-back-end", text=text), client)
            return
        elif fe is None and len(mine) >= SUBSCRIPTIONS_MAX:
            self.core.tell(ChannelState(message.number, "limit", text=LIMIT), client)
            return
        else:
            if fe is not None:
                self._remove(fe, now)
            fe = mine[message.number] = FrontEndSubscription(client, message)
        if self.backend is None:
            self._dial(now)
        else:
            self._ask(fe)

    def _ask(self, fe: FrontEndSubscription) -> None:
        request = fe.asked = self._new_request()
        self._asked[request] = fe
        assert self.backend is not None
        subscriber = fe.client.name if fe.kept else ""
        after = fe.sent + 1 if fe.sent else 0
        self._say(BackendSubscribe(request, fe.channel, fe.parameters, subscriber, after))

    def on_subscribed(self, session: Session, message: BackendSubscribed, now: float) -> None:
        fe = self._asked.pop(message.request, None)
        if fe is None:
            return
        if not self._is_here(fe) or fe.asked != message.request:
            # It is gone, or was asked for once more: from where its client is by now, which may have lost
            # what was under way.
            if message.be and not self._want(message, message.after).fes:
                self._linger(message.be, now)
            return
        fe.asked = 0
        if message.outcome != "confirmed":
            self.core.tell(ChannelState(fe.number, message.outcome, text=message.text), fe.client)
            self._remove(fe, now)
            return
        if fe.be not in (0, message.be):
            self._leave(fe, now)
        fe.be = message.be
        if not fe.sent:  # nothing has come to it that could be taken
            fe.taken = message.after
        fe.sent = max(fe.sent, message.after)
        self._want(message, fe.sent).fes[fe] = None
        if fe.located:  # else it says where it is, and is answered then
            confirmed = (message.after, message.lost, message.parameters, message.text)
            self.core.tell(ChannelState(fe.number, "confirmed", *confirmed), fe.client)
        self._serve(fe, now)

    def _want(self, message: BackendSubscribed, after: int) -> Wanted:
        wanted = self.wanted.get(message.be)
        if wanted is None:
            wanted = self.wanted[message.be] = Wanted(message.executed)
        wanted.executed = max(wanted.executed, message.executed)
        self.cache.begin(message.be, position(execution_of(after)) if in_whole(after) else after)
        return wanted

    def _is_here(self, fe: FrontEndSubscription) -> bool:
        return self.by_client.get(fe.client, {}).get(fe.number) is fe

    # --- leaving ------------------------------------------------------------------------------------------

    def on_unsubscribe(self, client: Session, message: UnsubscribeChannel, now: float) -> None:
        fe = self.by_client.get(client, {}).get(message.number)
        if fe is None:
            return
        others = (other for other in self.by_client[client].values() if other is not fe)
        if fe.kept and fe.be and self.backend is not None and fe.be not in {other.be for other in others}:
            self._say(BackendUnsubscribe(fe.be, fe.client.name))
        self._remove(fe, now)

    def link_lost(self, session: Session, now: float) -> None:
        if session in self.by_client:
            self._tell_cursors(session)
            for fe in list(self.by_client[session].values()):
                self._remove(fe, now)
            del self.by_client[session]

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, BackendSession) and session.dialled:
            if session is self.backend:
                self.backend = None
            # Also if it has greeted and not welcomed us yet: nobody else would dial again.
            self.core.timers.at(now + self.core.settings.links.redial_s, self._dial)
        elif session in self.by_client:
            self._tell_cursors(session)
            for fe in self.by_client[session].values():
                fe.located = False

    def _remove(self, fe: FrontEndSubscription, now: float) -> None:
        self.by_client.get(fe.client, {}).pop(fe.number, None)
        self._own.pop(fe.pulling, None)
        self._leave(fe, now)

    def _leave(self, fe: FrontEndSubscription, now: float) -> None:
        be, fe.be = fe.be, 0
        if (wanted := self.wanted.get(be)) is not None:
            wanted.fes.pop(fe, None)
            if not wanted.fes:
                self._linger(be, now)

    def _linger(self, be: int, now: float, for_s: float = LINGER_S) -> None:
        self.core.timers.at(now + for_s, lambda later: self._let_go(be, later))

    def _let_go(self, be: int, now: float) -> None:
        wanted = self.wanted.get(be)
        if wanted is None or wanted.fes:
            return
        if self._asked and self.backend is not None:
            self._linger(be, now, ASKED_S)  # one of them may be for it, and would be undone
            return
        del self.wanted[be]
        self.cache.drop(be)
        if self.backend is not None:
            self._say(BackendUnsubscribe(be))

    # --- results ------------------------------------------------------------------------------------------

    def on_executed(self, session: Session, message: Executed, now: float) -> None:
        """One pull for everything that somebody here waits for."""
        if not message.results:
            self._passed(message, now)
        ranges: dict[int, int] = {}
        for be, _, _ in message.results:
            wanted = self.wanted.get(be)
            if wanted is None:
                continue
            wanted.executed = max(wanted.executed, message.execution)
            if not wanted.pulling and self._reader(be, wanted):
                ranges[be] = self.cache.held[be].through
        self._pull(ranges, message.execution)

    def _passed(self, message: Executed, now: float) -> None:
        """Who has all that this link has told of has nothing else due: it and its client move on, before
        what lies between expires and looks like a loss."""
        here = position(message.execution)
        for be, wanted in self.wanted.items():
            fes = [fe for fe in wanted.fes if fe.channel == message.channel and not fe.asked]
            if not fes:  # or what came while there was no link is not known yet
                continue
            due, wanted.executed = position(wanted.executed), max(wanted.executed, message.execution)
            held = self.cache.held[be]
            if held.through >= due:
                held.through = max(held.through, here)
            for fe in fes:
                fe.acknowledged = 0  # said once more: it is here
                if fe.served and fe.sent >= due:
                    fe.sent = max(fe.sent, here)
                    self.core.tell(ChannelRows(fe.number, (), fe.sent), fe.client)
        self._cursors_soon(now)

    def _reader(self, be: int, wanted: Wanted) -> bool:
        """Whether somebody has come to the end of what is held, and has room."""
        through = self.cache.held[be].through
        return any(fe.sent >= through and fe.room > 0 and fe.served for fe in wanted.fes)

    def _pull(self, ranges: dict[int, int], execution: int) -> None:
        if not ranges or self.backend is None:
            return
        request = self._new_request()
        self._pulls[request] = ranges
        for be in ranges:
            self.wanted[be].pulling = request
        self._say(Pull(request, execution, tuple(ranges.items()), PULL_BYTES))

    def on_pulled(self, session: Session, message: Pulled, now: float) -> None:
        self.pulled_rows += len(message.rows)
        if (fe := self._own.get(message.request)) is not None:
            if message.last:
                del self._own[message.request]
                fe.pulling = 0
            self._push(fe, list(message.rows), message.through)
            self._serve(fe, now)
            return
        asked = self._pulls.get(message.request)
        if asked is None or message.be not in asked:
            return
        after = asked[message.be]
        if message.last:
            del self._pulls[message.request]
        wanted = self.wanted.get(message.be)
        if wanted is None:
            return
        wanted.pulling = 0
        self.cache.add(message.be, after, message.rows, message.through)
        for fe in list(wanted.fes):
            self._serve(fe, now)

    def _serve(self, fe: FrontEndSubscription, now: float) -> None:
        """Push what is due and fits; ask for what is not here."""
        wanted = self.wanted.get(fe.be)
        if wanted is None or not fe.served:
            return
        held = self.cache.held[fe.be]
        whole = in_whole(fe.sent)  # that is nobody else's
        while not whole and held.begin <= fe.sent < held.through and fe.room > 0:
            rows, through = held.after(fe.sent, fe.room)
            self._push(fe, rows, through)
        due = position(wanted.executed)
        if fe.sent >= due or fe.room <= 0 or self.backend is None:
            return
        if whole or fe.sent < held.begin:
            self._pull_own(fe, wanted.executed)
        elif fe.sent >= held.through and not wanted.pulling:
            if held.through < fe.sent:  # what nobody here needs is not pulled
                self.cache.skip(fe.be, fe.sent)
            self._pull({fe.be: held.through}, wanted.executed)

    def _pull_own(self, fe: FrontEndSubscription, execution: int) -> None:
        """Who is behind all others gets its own, up to where it meets them."""
        if fe.pulling or self.backend is None:
            return
        request = fe.pulling = self._new_request()
        self._own[request] = fe
        most = min(max(fe.room, 1), OWN_PULL_BYTES)
        self._say(Pull(request, execution, ((fe.be, fe.sent),), most))

    def _push(self, fe: FrontEndSubscription, rows: list[tuple[int, bytes]], through: int) -> None:
        if not fe.served:
            return
        fresh = [row for row in rows if row[0] > fe.sent]
        fe.sent = max(fe.sent, through)
        for at, row in fresh:
            fe.flight.append((at, len(row)))
            fe.flight_bytes += len(row)
        self.pushed_rows += len(fresh)
        if fresh:
            self.core.tell(ChannelRows(fe.number, tuple(fresh), through), fe.client)

    def on_taken(self, client: Session, message: ChannelTaken, now: float) -> None:
        fe = self.by_client.get(client, {}).get(message.number)
        if fe is None:
            return
        fe.took(message.position)
        if fe.kept:
            self._cursors_soon(now)
        self._serve(fe, now)

    def _cursors_soon(self, now: float) -> None:
        if not self._cursors_due:
            self._cursors_due = True
            self.core.timers.at(now + CURSORS_S, self._send_cursors)

    def _send_cursors(self, now: float) -> None:
        self._cursors_due = False
        for client in self.by_client:
            self._tell_cursors(client)

    def _tell_cursors(self, client: Session) -> None:
        """Of two subscriptions of a client to one set the one that is behind counts."""
        mine = [fe for fe in self.by_client[client].values() if fe.kept and fe.be]
        moved: dict[int, int] = {}
        for fe in mine:
            moved[fe.be] = min(fe.taken, moved.get(fe.be, fe.taken))
        told = {fe.be: fe.acknowledged for fe in mine}
        moved = {be: taken for be, taken in moved.items() if taken > told[be]}
        for fe in mine:
            fe.acknowledged = moved.get(fe.be, fe.acknowledged)
        if moved and self.backend is not None:
            self._say(Cursors(client.name, tuple(moved.items())))

    def on_troubled(self, session: Session, message: ChannelTroubled, now: float) -> None:
        for mine in list(self.by_client.values()):
            for fe in list(mine.values()):
                if fe.channel != message.channel:
                    continue
                if message.outcome == "replaced":
                    self._ask(fe)  # it goes on after its position, or hears that it cannot
                elif message.outcome == "expired":
                    if fe.pulling or (fe.be in self.wanted and self.wanted[fe.be].pulling):
                        self._ask(fe)
                else:
                    self.core.tell(ChannelState(fe.number, message.outcome, text=message.text), fe.client)
                    if message.outcome == "ended":
                        self._remove(fe, now)

    # --- what it looks like -------------------------------------------------------------------------------

    def status(self) -> Status:
        return {
            "back_end": self.backend.name if self.backend is not None else None,
            "front_end_subscriptions": sum(map(len, self.by_client.values())),
            "back_end_subscriptions": len(self.wanted),
            "cache_bytes": self.cache.size,
            "pulled_rows": self.pulled_rows,
            "pushed_rows": self.pushed_rows,
        }

    def validate(self) -> None:
        for be, wanted in self.wanted.items():
            held = self.cache.held[be]
            assert held.begin <= held.through and len(held.rows) == len(held.positions), be
            for fe in wanted.fes:
                assert fe.be == be and self._is_here(fe), fe.number
                assert fe.flight_bytes == sum(size for _, size in fe.flight), fe.number
        assert self.cache.size == sum(held.size for held in self.cache.held.values())
        assert not any(session.kind is not Kind.CLIENT for session in self.by_client)
