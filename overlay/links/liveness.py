"""Is it still there? Pings find silent links and measure round trips; they carry where each side is."""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.messages import Ping, Pong, Refuse
from overlay.core import Core
from overlay.links.session import Link, Session

Place = tuple[int, ...]  # what an overlay says of a broker's place; on a tree its root path


class Liveness:
    def __init__(self) -> None:
        # Set by the overlay: where this broker is, and that another says where it is.
        self.place: Callable[[], Place] = lambda: ()
        self.placed: Callable[[Session, Place, float], None] = lambda session, place, now: None

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(Ping, self.on_ping)
        core.on(Pong, self.on_pong)

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
                self.core.drop(link, "silent", later)
            else:
                self.core.send(Ping(later, self.place()), link)
                self.core.timers.at(later + ping_s, again)

        self.core.timers.at(now + self.core.settings.links.ping_s, again)

    def on_ping(self, session: Session, ping: Ping, now: float) -> None:
        self.core.tell(Pong(ping.sent_at, self.place()), session)
        self.placed(session, ping.root_path, now)

    def on_pong(self, session: Session, pong: Pong, now: float) -> None:
        session.round_trip_s = max(0.0, now - pong.sent_at)
        if session.link is not None:
            session.link.answered = pong.sent_at
        self.placed(session, pong.root_path, now)

    def challenge(self, session: Session, link: Link, newcomer: int, now: float) -> Refuse | None:
        """Another incarnation of a name whose link seems alive: a restart that we did not notice, or two
        holders of one name. The old link decides: if it answers a ping, the newcomer is refused. However long
        the newcomer takes to ask again: both were there at once. Other words prove nothing, they may be late
        ones of who is dead; while they come, the newcomer waits."""
        greet_s = self.core.settings.links.greet_s
        asked_at = link.challenged_at
        stale = asked_at is not None and now - asked_at > greet_s and link.challenger != newcomer
        if asked_at is None or stale:  # what it answered to another some time ago proves nothing
            link.challenged_at, link.challenger = now, newcomer
            self.core.send(Ping(now, self.place()), link)
        elif link.answered >= asked_at:
            return Refuse("name", f"one named {session.name} is alive: rename one of the two")
        elif now - max(asked_at, link.heard_at) >= greet_s / 2:
            return None
        return Refuse("not-ready", f"{self.core.name} still has a link to an earlier {session.name}")
