"""SPEC T1's first half: who is at the other end of a link, and is it still there.

HELLO goes both ways before anything else; it compares versions, cluster-wide settings and names,
reveals a cycle, and decides whether the two sides still share an epoch (DECISIONS 9, 12, 14). Pings
carry root paths and find silent links. A link that ends suspends its session; after `lost_after_s` the
session is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grapevine.wire.identity import identify
from grapevine.wire.messages import (
    PROTOCOL,
    PROTOCOL_OLDEST,
    Hello,
    Marks,
    Ping,
    Pong,
    Refuse,
    Reset,
    Resume,
)
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.apart import Apart
from overlay.links.session import Kind, Link, Peer, Session
from overlay.links.soft import Soft
from overlay.outbox import Open


class Dial:
    """An attempt to reach a broker: `failed(reason, text, now)` or `greeted(peer, now)` is called once."""

    __slots__ = ("addresses", "apart", "failed", "greeted", "link", "number", "path", "replaces")

    def __init__(
        self,
        number: int,
        addresses: tuple[str, ...],
        greeted: Callable[[Any, float], None],
        failed: Callable[[str, str, float], None],
        replaces: int,
        path: tuple[int, ...],
        apart: bool = False,
    ) -> None:
        self.number = number
        self.addresses = addresses
        self.greeted = greeted
        self.failed = failed
        self.replaces = replaces
        self.path = path  # of a soft link: the primary path to who is dialled
        self.apart = apart
        self.link: Link | None = None


class Greeting(Quiet):
    name = "links"

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self.root_path: Callable[[], tuple[int, ...]] = lambda: (self.core.id,)
        self.leaving = False  # takes no new neighbour,
        self.heirs_of: Mapping[int, object] = {}  # but in the place of one of these, who leave as well
        self.closed = False  # nor an old one whose link broke
        self.moved_root: Callable[[Peer, float], None] = lambda peer, now: None
        self.soft_refusal: Callable[[Hello], str] = lambda hello: "no soft links here"  # "" admits
        self.apart = Apart(self)
        self._dials: dict[int, Dial] = {}
        self._number = 0
        self._epoch = 0

    def attach(self, core: Core) -> None:
        self.core = core
        self._epoch = core.incarnation << 20
        core.on_transport = self._transport
        core.on_untaken = self._untaken
        core.on_greeting(Hello, self.on_hello)
        core.on_greeting(Refuse, self.on_refuse)
        core.on_greeting(Reset, self.on_reset)
        core.on(Ping, self.on_ping, None)
        core.on(Pong, self.on_pong, None)

    # --- dialling -------------------------------------------------------------------------------

    def dial(
        self,
        addresses: tuple[str, ...],
        greeted: Callable[[Any, float], None],
        failed: Callable[[str, str, float], None],
        now: float,
        replaces: int = 0,
        path: tuple[int, ...] = (),
        patience: int = 1,
        apart: bool = False,
    ) -> None:
        """With a `path` it is a soft link, with `apart` one that is not of the tree yet (apart.py), else one
        of the tree; `greeted` gets its session. `patience` times greet_s is waited for an answer: a broker
        with large tables is slow to greet, and would never be reached otherwise."""
        self._number += 1
        dial = self._dials[self._number] = Dial(
            self._number, addresses, greeted, failed, replaces, path, apart
        )
        self.core.out.opens.append(Open(dial.number, addresses))
        patient_s = self.core.settings.links.greet_s * patience
        self.core.timers.at(now + patient_s, lambda later: self._unanswered(dial, later))

    def _untaken(self, link: Link, now: float) -> None:
        """The transport gave up before anybody answered."""
        dial = self._dials.get(link.dial)
        if dial is not None and dial.link is link:
            self._unanswered(dial, now)

    def _unanswered(self, dial: Dial, now: float) -> None:
        self._fail(dial, "unreachable", "no answer from " + ", ".join(dial.addresses), now)

    def _fail(self, dial: Dial, reason: str, text: str, now: float) -> None:
        if self._dials.pop(dial.number, None) is not None:
            if dial.link is not None and dial.link.session is None:
                self.core.close(dial.link)
            dial.failed(reason, text, now)

    def _transport(self, link: Link, now: float) -> None:
        if link.dial:
            self._greet(link)
        elif link.kind is Kind.PEER:
            grace = now + self.core.settings.links.greet_s
            self.core.timers.at(grace, lambda later: self._strange(link))

    def _strange(self, link: Link) -> None:
        """A link on which nobody said who it is."""
        if link.session is None and self.core.links.get(link.number) is link:
            self.core.refuse("silent")
            self.core.close(link)

    def _greet(self, link: Link) -> None:
        dial = self._dials.get(link.dial)
        if dial is None:
            self.core.close(link)
            return
        dial.link = link
        self._epoch += 1
        peer = None if dial.path or dial.apart else self._remembered(dial)
        self.core.send(self.hello(self._epoch, False, peer, dial.replaces, dial.path, dial.apart), link)

    def _remembered(self, dial: Dial) -> Peer | None:
        """The suspended session that the dialled addresses belong to."""
        for peer in self.core.peers.values():
            if peer.dialled and peer.link is None and set(peer.addresses) & set(dial.addresses):
                return peer
        return None

    def hello(
        self,
        epoch: int,
        answer: bool,
        peer: Peer | None,
        replaces: int = 0,
        path: tuple[int, ...] = (),
        apart: bool = False,
    ) -> Hello:
        resume = None
        if peer is not None and peer.epoch:
            resume = peer.incoming.resume(peer.epoch)
        core = self.core
        return Hello(
            PROTOCOL_OLDEST,
            PROTOCOL,
            core.name,
            core.id,
            core.incarnation,
            epoch,
            answer,
            core.settings.links.window,
            core.settings.cluster_wide(),
            path or self.root_path(),
            self.addresses,
            resume,
            replaces,
            bool(path),
            apart,
        )

    # --- HELLO ------------------------------------------------------------------------------------

    def on_hello(self, link: Link, hello: Hello, now: float) -> None:
        if link.session is not None or link.kind is not Kind.PEER or bool(link.dial) is not hello.answer:
            self.drop(link, "greeting", now)  # one greeting a link, and only the dialled side answers
        elif hello.answer:
            self._answered(link, hello, now)
        elif hello.soft:
            self._soft_hello(link, hello, now)
        elif hello.apart:
            self.apart.on_hello(link, hello, now)
        elif (refusal := self._refusal(link, hello, now)) is not None:
            self.core.send(refusal, link)
            self.core.close(link)
        else:
            peer = self.core.peers.get(hello.broker)
            shared = (
                peer is not None
                and hello.resume is not None
                and peer.epoch == hello.resume.epoch
                and peer.incarnation == hello.incarnation
            )
            epoch = peer.epoch if peer is not None and shared else hello.epoch
            self.core.send(self.hello(epoch, True, peer if shared else None), link)
            self._establish(link, hello, epoch, shared, dialled=False, now=now)

    def _answered(self, link: Link, hello: Hello, now: float) -> None:
        dial = self._dials.get(link.dial)
        if dial is None or dial.link is not link:
            self.drop(link, "answer", now)
            return
        if (refusal := self.mismatch(hello)) is not None:
            self._fail(dial, refusal.reason, refusal.text, now)
            return
        if dial.path:
            del self._dials[dial.number]
            dial.greeted(self._establish_soft(link, hello, dialled=True, now=now), now)
            return
        if dial.apart:
            del self._dials[dial.number]
            dial.greeted(self.apart.establish(link, hello, dialled=True, now=now), now)
            return
        peer = self.core.peers.get(hello.broker)
        if peer is not None and peer.link is not None and not peer.dialled and hello.broker < self.core.id:
            self._fail(dial, "twice", f"{hello.name} has dialled us", now)
            return
        shared = peer is not None and hello.resume is not None and hello.epoch == peer.epoch
        if hello.resume is not None and not shared:
            # The session that we offered to resume was lost while the answer was on its way.
            self._fail(dial, "forgotten", f"{hello.name} resumes what we have given up", now)
            return
        del self._dials[dial.number]
        self._establish(link, hello, hello.epoch, shared, dialled=True, now=now)
        dial.greeted(self.core.peers[hello.broker], now)
        self.joined(self.core.peers[hello.broker], now)

    def _soft_hello(self, link: Link, hello: Hello, now: float) -> None:
        refusal = self.mismatch(hello)
        if refusal is None and (self.leaving or (reason := self.soft_refusal(hello))):
            refusal = Refuse(
                "leaving" if self.leaving else "not-ready", "leaving" if self.leaving else reason
            )
        if refusal is not None:
            self.core.send(refusal, link)
            self.core.close(link)
        else:
            self.core.send(self.hello(hello.epoch, True, None, 0, hello.root_path), link)
            self._establish_soft(link, hello, dialled=False, now=now)

    def _refusal(self, link: Link, hello: Hello, now: float) -> Refuse | None:
        if (refusal := self.mismatch(hello)) is not None:
            return refusal
        heir = hello.replaces in self.heirs_of
        if not heir and (self.closed or (self.leaving and hello.broker not in self.core.peers)):
            return Refuse("leaving", f"{self.core.name} is leaving the overlay")
        if hello.broker in self.root_path()[1:]:
            return Refuse("cycle", f"{self.core.name} is below {hello.name}: dialling it would close a cycle")
        peer = self.core.peers.get(hello.broker)
        if peer is None or peer.link is None or peer.link is link:
            return None
        if peer.incarnation != hello.incarnation:
            return self.challenge(peer, peer.link, hello.incarnation, now)
        if peer.dialled and self.core.id < hello.broker:
            return Refuse("twice", f"{self.core.name} has dialled {hello.name}")
        return None

    def mismatch(self, hello: Hello) -> Refuse | None:
        core = self.core
        if not (PROTOCOL_OLDEST <= hello.newest and hello.oldest <= PROTOCOL):
            ours, theirs = f"{PROTOCOL_OLDEST}-{PROTOCOL}", f"{hello.oldest}-{hello.newest}"
            return Refuse("version", f"{core.name} speaks protocol {ours}, {hello.name} {theirs}")
        known = core.names.get(hello.broker, hello.name)
        if hello.broker in (core.id, 0) or known != hello.name or hello.broker != identify(hello.name):
            return Refuse(
                "name", f"the name {hello.name} (or its id) is taken: rename one of the two brokers"
            )
        ours_all, theirs_all = core.settings.cluster_wide(), hello.settings
        for key in sorted(ours_all.keys() | theirs_all.keys()):
            if ours_all.get(key) != theirs_all.get(key):
                text = (
                    f"{key} is {ours_all.get(key)} at {core.name} and {theirs_all.get(key)} at {hello.name}"
                )
                return Refuse("settings", text + ": it must agree in the whole overlay")
        return None

    def challenge(self, peer: Session, link: Link, newcomer: int, now: float) -> Refuse | None:
        """Another incarnation of a name whose link seems alive: a restart that we did not notice, or two
        holders of one name. The old link decides: if it answers a ping, the newcomer is refused. However long
        the newcomer takes to ask again: both were there at once."""
        greet_s = self.core.settings.links.greet_s
        asked_at = link.challenged_at
        stale = asked_at is not None and now - asked_at > greet_s and link.challenger != newcomer
        if asked_at is None or stale:  # what it answered to another some time ago proves nothing
            link.challenged_at, link.challenger = now, newcomer
            self.core.send(Ping(now, self.root_path()), link)
        elif link.heard_at > asked_at:
            return Refuse("name", f"one named {peer.name} is alive: rename one of the two")
        elif now - asked_at >= greet_s / 2:
            return None
        return Refuse("not-ready", f"{self.core.name} still has a link to an earlier {peer.name}")

    def on_refuse(self, link: Link, refuse: Refuse, now: float) -> None:
        dial = self._dials.get(link.dial)
        if dial is not None and link.session is None:
            self._fail(dial, refuse.reason, refuse.text, now)

    def on_reset(self, link: Link, reset: Reset, now: float) -> None:
        """The other side does not know this link: end it; whoever dialled it dials again."""
        if link.session is not None:
            self.drop(link, "", now)

    def drop(self, link: Link, reason: str, now: float) -> None:
        """End a link; its session, if it has one, waits for another."""
        if reason:
            self.core.refuse(reason)
        self.core.close(link)
        if link.session is not None and link.session.link is link:
            self.core.suspend(link.session, now)

    # --- the session comes up -----------------------------------------------------------------------

    def _establish(
        self, link: Link, hello: Hello, epoch: int, shared: bool, *, dialled: bool, now: float
    ) -> None:
        core = self.core
        peer = core.peers.get(hello.broker)
        if peer is None:
            peer = core.peers[hello.broker] = Peer(core, hello.broker, hello.name)
        if (old := peer.link) is not None and old is not link:
            core.close(old)
            core.suspend(peer, now)
        if peer.lost_timer is not None:
            peer.lost_timer.cancel()
        core.names[hello.broker] = hello.name
        link.session, peer.link = peer, link
        peer.incarnation = hello.incarnation
        peer.addresses = hello.addresses
        peer.root_path = hello.root_path
        peer.dialled = dialled
        peer.window = hello.window
        if shared and hello.resume is not None:
            self._resume(peer, hello.resume)
        else:
            peer.epoch, peer.cuts_seen = epoch, 0
            peer.incoming.new_epoch()
            peer.out.new_epoch(hello.window)
        peer.begin_sync()
        self.watch(peer, link, now)
        if not dialled:
            self.joined(peer, now)

    def _establish_soft(self, link: Link, hello: Hello, *, dialled: bool, now: float) -> Soft:
        """Always a new session; an older one to the same broker ends here."""
        core = self.core
        known = core.soft_out if dialled else core.soft_in
        if (old := known.get(hello.broker)) is not None:
            core.lose(old, now)
        soft = known[hello.broker] = Soft(core, hello.broker, hello.name, dialled)
        core.names[hello.broker] = hello.name
        link.session, soft.link = soft, link
        soft.incarnation, soft.addresses, soft.window = hello.incarnation, hello.addresses, hello.window
        soft.epoch, soft.path = hello.epoch, hello.root_path
        soft.out.new_epoch(hello.window)
        self.watch(soft, link, now)
        for behaviour in core.behaviours:
            behaviour.link_up(soft, now)
        return soft

    def _resume(self, peer: Peer, resume: Resume) -> None:
        """Both sides are alive: the epoch goes on after what was received."""
        credit, cuts = resume.settled + peer.window, (resume.cuts, resume.cuts_first)
        marks = Marks(resume.epoch, resume.received, resume.settled, credit, 0, *cuts, 0, resume.cuts_open)
        peer.take_marks(marks)
        peer.out.resume(resume.received, peer.window)
        peer.incoming.moved = False
        peer.incoming.mark()

    def joined(self, peer: Peer, now: float) -> None:
        for behaviour in self.core.behaviours:
            behaviour.link_up(peer, now)
        peer.touch()

    # --- is it still there ----------------------------------------------------------------------

    def watch(self, session: Session, link: Link, now: float) -> None:
        """Ping as long as this is the session's link; end the link after three pings without a word."""
        if link.watched is session:  # a client attached again by the same link
            return
        link.watched = session

        def again(later: float) -> None:
            if session.link is not link:
                return
            ping_s = self.core.settings.links.ping_s
            if later - link.heard_at > 3 * ping_s:
                self.drop(link, "silent", later)
            else:
                self.core.send(Ping(later, self.root_path()), link)
                self.core.timers.at(later + ping_s, again)

        self.core.timers.at(now + self.core.settings.links.ping_s, again)

    def on_ping(self, session: Session, ping: Ping, now: float) -> None:
        self.core.tell(Pong(ping.sent_at, self.root_path()), session)
        self._rooted(session, ping.root_path, now)

    def on_pong(self, session: Session, pong: Pong, now: float) -> None:
        session.round_trip_s = max(0.0, now - pong.sent_at)
        self._rooted(session, pong.root_path, now)

    def _rooted(self, peer: Session, root_path: tuple[int, ...], now: float) -> None:
        if isinstance(peer, Peer) and root_path != peer.root_path:
            peer.root_path = root_path
            self.moved_root(peer, now)

    # --- breaks -----------------------------------------------------------------------------------

    def link_down(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            session.end_sync()
            lost_at = now + self.core.settings.links.lost_after_s
            session.lost_timer = self.core.timers.at(lost_at, lambda later: self.core.lose(session, later))

    def link_lost(self, session: Session, now: float) -> None:
        for known in (self.core.peers, self.core.soft_out, self.core.soft_in, self.apart.sessions):
            if known.get(session.id) is session:
                del known[session.id]

    def status(self) -> Status:
        return {"peers": [self._row(peer) for peer in self.core.peers.values()]}

    def _row(self, peer: Peer) -> Status:
        return {
            "name": peer.name,
            "state": "suspended" if peer.link is None else "ready" if peer.synced_by_peer else "syncing",
            "parent": peer.dialled,
            "round_trip_ms": round(peer.round_trip_s * 1000, 3) or None,  # none before the first pong
            "sent": peer.out.sent,
            "received": peer.received_total,
            "unsettled": peer.out.unsettled,
            "addresses": list(peer.addresses),
        }

    def validate(self) -> None:
        for peer in self.core.peers.values():
            assert not peer.lost, peer
            assert peer.out.settled <= peer.out.received <= peer.out.sent < peer.out.next, peer
            assert peer.incoming.settled <= peer.incoming.received, peer
            assert peer.link is None or peer.link.session is peer, peer
