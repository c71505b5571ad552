"""SPEC T1's first half: who is at the other end of a link, and for what.

HELLO goes both ways before anything else; it compares versions, cluster-wide settings and names (DECISIONS
12, 14). What the session is then, whether it is refused and whether an earlier one is resumed is up to the
*purpose* of the link, which HELLO names: a member of the overlay, or what an overlay adds (softlinks/soft.py,
tree/staged_links.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from grapevine.wire.identity import identify
from grapevine.wire.messages import BROKERS_OLDEST, Hello, Refuse, Reset
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.dialling import Dial, Dialling
from overlay.links.liveness import Liveness
from overlay.links.session import Kind, Link, Remote, Session

MEMBER, SOFT, STAGED, BACKEND, COORDINATOR = range(5)  # purposes as HELLO says them
SINCE = {BACKEND: 3, COORDINATOR: 3}  # protocols: who does not know a purpose would take us for a member


class Purpose(Protocol):
    """Why brokers greet each other."""

    number: int

    def offered(self, dial: Dial) -> Remote | None:
        """The suspended session that a dial would go on with."""

    def refusal(self, link: Link, hello: Hello, now: float) -> Refuse | None:
        """Why who dialled us is not taken."""

    def accept(self, link: Link, hello: Hello, now: float) -> None:
        """Answer who dialled us; the session is there."""

    def objection(self, hello: Hello) -> tuple[str, str] | None:
        """Why the answer to our dial is not taken: a reason and a text."""

    def answered(self, link: Link, hello: Hello, greeted: Callable[[Any, float], None], now: float) -> None:
        """Our dial was answered: the session is there, `greeted` is to hear of it."""


def purpose_of(hello: Hello) -> int:
    said = {SOFT: hello.soft, STAGED: hello.staged, BACKEND: hello.backend, COORDINATOR: hello.coordinator}
    return next((purpose for purpose, is_said in said.items() if is_said), MEMBER)


class Handshake(Quiet):
    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self.liveness = Liveness()
        self.purposes: dict[int, Purpose] = {}
        self.sessions: dict[Session, Remote] = {}  # with brokers, whatever they are for
        self._epoch = 0

    def attach(self, core: Core) -> None:
        self.core = core
        self.dialling = Dialling(core)
        self._epoch = core.incarnation << 20
        self.liveness.attach(core)
        core.on_transport = self._transport
        core.on_transport_ended = self.dialling.transport_ended
        core.on_greeting(Hello, self.on_hello)
        core.on_greeting(Refuse, self.on_refuse)
        core.on_greeting(Reset, self.on_reset)

    def register(self, purpose: Purpose) -> None:
        assert purpose.number not in self.purposes, f"purpose {purpose.number} is registered twice"
        self.purposes[purpose.number] = purpose

    # --- dialling -------------------------------------------------------------------------------

    def dial(
        self,
        addresses: tuple[str, ...],
        greeted: Callable[[Any, float], None],
        failed: Callable[[str, str, float], None],
        now: float,
        purpose: int = MEMBER,
        replaces: int = 0,
        path: tuple[int, ...] = (),
        patience: int = 1,
    ) -> None:
        """`greeted` gets the session. `patience` times greet_s is waited for an answer: a broker with large
        tables is slow to greet, and would never be reached otherwise."""
        dialling, why = self.dialling, self.purposes[purpose]
        dialling.dial(why, addresses, greeted, failed, now, replaces, path, patience)

    def _transport(self, link: Link, now: float) -> None:
        if link.dial:
            self._greet(link)
        elif link.kind is Kind.PEER:
            grace = now + self.core.settings.links.greet_s
            self.core.timers.at(grace, lambda later: self._never_greeted(link))

    def _never_greeted(self, link: Link) -> None:
        """A link on which nobody said who it is."""
        if link.session is None and self.core.links.get(link.number) is link:
            self.core.refuse("silent")
            self.core.close(link)

    def _greet(self, link: Link) -> None:
        dial = self.dialling.of(link)
        if dial is None:
            self.core.close(link)
            return
        dial.link = link
        self._epoch += 1
        offered = dial.purpose.offered(dial)
        hello = self.hello(self._epoch, False, offered, dial.purpose.number, dial.replaces, dial.path)
        self.core.send(hello, link)

    def hello(
        self,
        epoch: int,
        answer: bool,
        resumed: Remote | None,
        purpose: int = MEMBER,
        replaces: int = 0,
        path: tuple[int, ...] = (),
    ) -> Hello:
        resume, resumes = resumed.resume_state() if resumed is not None and resumed.epoch else (None, ())
        core = self.core
        return Hello(
            oldest=SINCE.get(purpose, BROKERS_OLDEST),
            newest=core.protocol,
            name=core.name,
            broker=core.id,
            incarnation=core.incarnation,
            epoch=epoch,
            answer=answer,
            window=core.settings.links.window,
            settings=core.settings.cluster_wide(),
            root_path=path or self.liveness.place(),
            addresses=self.addresses,
            resume=resume,
            replaces=replaces,
            soft=purpose == SOFT,
            staged=purpose == STAGED,
            resumes=resumes,
            backend=purpose == BACKEND,
            coordinator=purpose == COORDINATOR,
        )

    # --- HELLO ------------------------------------------------------------------------------------

    def on_hello(self, link: Link, hello: Hello, now: float) -> None:
        link.agree(self.core.protocol, hello.newest)
        if link.session is not None or link.kind is not Kind.PEER or bool(link.dial) is not hello.answer:
            self.core.drop(link, "greeting", now)  # one greeting a link, and only the dialled side answers
        elif hello.answer:
            self._answered(link, hello, now)
        elif (refusal := self._refusal(link, hello, now)) is not None:
            self.core.send(refusal, link)
            self.core.close(link)
        else:
            self.purposes[purpose_of(hello)].accept(link, hello, now)

    def _refusal(self, link: Link, hello: Hello, now: float) -> Refuse | None:
        if (refusal := self.mismatch(hello)) is not None:
            return refusal
        if (purpose := self.purposes.get(purpose_of(hello))) is None:
            return Refuse("purpose", f"{self.core.name} takes no such link on this overlay")
        return purpose.refusal(link, hello, now)

    def _answered(self, link: Link, hello: Hello, now: float) -> None:
        dial = self.dialling.of(link)
        if dial is None or dial.link is not link:
            self.core.drop(link, "answer", now)
        elif (refusal := self.mismatch(hello)) is not None:
            self.dialling.fail(dial, refusal.reason, refusal.text, now)
        elif (objection := dial.purpose.objection(hello)) is not None:
            self.dialling.fail(dial, *objection, now)
        else:
            self.dialling.answered(dial)
            dial.purpose.answered(link, hello, dial.greeted, now)

    def mismatch(self, hello: Hello) -> Refuse | None:
        core = self.core
        if not (BROKERS_OLDEST <= hello.newest and hello.oldest <= core.protocol):
            ours, theirs = f"{BROKERS_OLDEST}-{core.protocol}", f"{hello.oldest}-{hello.newest}"
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

    def on_refuse(self, link: Link, refuse: Refuse, now: float) -> None:
        dial = self.dialling.of(link)
        if dial is not None and link.session is None:
            self.dialling.fail(dial, refuse.reason, refuse.text, now)

    def on_reset(self, link: Link, reset: Reset, now: float) -> None:
        """The other side does not know this link: end it; whoever dialled it dials again."""
        if link.session is not None:
            self.core.drop(link, "", now)

    # --- the session comes up -----------------------------------------------------------------------

    def establish(self, session: Remote, link: Link, hello: Hello, dialled: bool, now: float) -> None:
        """What every purpose does with a session and its new link."""
        self.core.names[hello.broker] = hello.name
        self.sessions[session] = session
        link.session, session.link = session, link
        session.incarnation, session.addresses = hello.incarnation, hello.addresses
        session.window, session.dialled = hello.window, dialled

    def link_lost(self, session: Session, now: float) -> None:
        self.sessions.pop(session, None)

    def announce(self, session: Remote, now: float) -> None:
        """The behaviours hear that the session is up."""
        for behaviour in self.core.behaviours:
            behaviour.link_up(session, now)
