"""Who cannot be reached (DECISIONS 25): a broker that has given a neighbour up says so to all it reaches.

Each broker has one list, of the neighbours that it has lost and not heard of since, but for those that have
another place in the tree by now: who gives them up there would say so. Only it raises the list's number;
lists are flooded, and told whole to a neighbour that comes, which tells a newer one if it has that. Whoever
finds itself on a list says its own again: who is heard is there, by whatever way. But the word of one that is
missing waits for the SyncDone of the neighbour that brings it: until then nobody here knows what is wanted
there, or behind it, and it would be settled as if for nobody. Whoever has restarted hears the list of its
former life from the others, takes it over and takes it back. After a while a broker that does not come back
counts as gone for good.

Clients are told (`client.partial`), or sent away (`clients.when_split`); and what publishers send again is
named as undelivered while somebody is missing, since its former broker may have owed it there (the rule
*tombstone-adopted* of tests/model).
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.wire.draining import Missing, MissingBroker
from grapevine.wire.limits import MISSING
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.tree.peer import Peer, peers_of
from overlay.tree.sync import Sync

REMEMBERED = 10  # times lost_after_s
LISTS = 4_096


class Said:
    """What a broker has said last: whom it misses, since when by our clock."""

    __slots__ = ("at", "brokers", "incarnation", "number")

    def __init__(self, incarnation: int, number: int, at: float) -> None:
        self.incarnation = incarnation
        self.number = number
        self.at = at
        self.brokers: dict[int, tuple[str, float]] = {}


class MissingBrokers(Quiet):
    name = "missing"

    def __init__(self, sync: Sync, side: Callable[[int], int]) -> None:
        self.said: dict[int, Said] = {}
        self.changed: list[Callable[[float], None]] = []
        self._side = side  # behind which neighbour a broker lies, as far as is known; 0: nobody knows
        self._last: dict[str, float] = {}
        self._former = (0, 0)  # the newest list of a former life that was taken over
        self._early: dict[
            Peer, dict[int, Missing]
        ] = {}  # by origin; of neighbours that have not told all yet
        sync.forget_stale.append(self._synced)

    def attach(self, core: Core) -> None:
        self.core = core
        self.own = self.said[core.id] = Said(core.incarnation, 0, 0.0)
        core.on(Missing, self.on_missing)

    def brokers(self) -> dict[str, float]:
        """The names of those that cannot be reached -> since when."""
        return self._last

    def elsewhere(self, neighbour: int) -> Peer | None:
        """The neighbour behind which one that we have lost, or are losing, lies by now."""
        side = self._side(neighbour)
        return peers_of(self.core).get(side) if side != neighbour else None

    # --- what we say ----------------------------------------------------------------------------------

    def link_down(self, session: Session, now: float) -> None:
        self._early.pop(session, None)  # type: ignore[call-overload]

    def link_lost(self, session: Session, now: float) -> None:
        if not isinstance(session, Peer) or session.departed or session.retiring:
            return
        if self.elsewhere(session.id) is None:
            self.own.brokers[session.id] = (session.name, now)
            self._say(now)
            later = now + REMEMBERED * self.core.settings.links.lost_after_s
            self.core.timers.at(later, self._look)

    def _synced(self, peer: Peer, now: float) -> None:
        for message in self._early.pop(peer, {}).values():
            self.on_missing(peer, message, now)
        self._heard(peer.id, now)

    def _heard(self, broker: int, now: float) -> None:
        if self.own.brokers.pop(broker, None) is not None:
            self._say(now)

    def _say(self, now: float) -> None:
        self.own.number += 1
        self.own.at = now
        self.core.tell(self._message(self.core.id, self.own, now), *self._linked())
        self._look(now)

    def _message(self, origin: int, said: Said, now: float) -> Missing:
        brokers = tuple(
            MissingBroker(broker, name, max(now - since, 0.0))
            for broker, (name, since) in said.brokers.items()
        )
        age_s = max(now - said.at, 0.0)
        return Missing(origin, said.incarnation, said.number, age_s, brokers[:MISSING])

    def _linked(self) -> list[Peer]:
        return [peer for peer in peers_of(self.core).values() if peer.link is not None]

    def link_up(self, session: Session, now: float) -> None:
        if isinstance(session, Peer):
            for origin, said in self.said.items():
                if said.brokers:
                    self.core.tell(self._message(origin, said, now), session)

    # --- what others say --------------------------------------------------------------------------------

    def on_missing(self, peer: Peer, message: Missing, now: float) -> None:
        if self._comes_early(peer, message.origin):
            self._early.setdefault(peer, {})[message.origin] = message
            return
        known = self.said.get(message.origin)
        number = message.incarnation, message.number
        if message.origin == self.core.id:
            self._take_over(message, now)
        if known and (known is self.own or number <= (known.incarnation, known.number)):
            if number < (known.incarnation, known.number):
                self.core.tell(self._message(message.origin, known, now), peer)
            return
        if known is None and len(self.said) >= LISTS:
            self.core.refuse("missing")
            return
        said = self.said[message.origin] = Said(*number, now - message.age_s)
        said.brokers = {one.broker: (one.name, now - one.age_s) for one in message.brokers}
        self.core.tell(message, *(other for other in self._linked() if other is not peer))
        if said.at > self.own.brokers.get(message.origin, ("", now))[1]:
            self._heard(message.origin, now)
        if self.core.id in said.brokers:
            self._say(now)
        self._look(now)

    def _take_over(self, message: Missing, now: float) -> None:
        """A former life of ours has said this, and the others hold to it until we say something newer."""
        number = message.incarnation, message.number
        if message.incarnation >= self.core.incarnation or number <= self._former:
            return
        self._former = number
        for one in message.brokers:
            peer, since = peers_of(self.core).get(one.broker), now - one.age_s
            if (peer is None or not peer.synced) and not self._is_here(one.broker, since):
                self.own.brokers.setdefault(one.broker, (one.name, since))
        self._say(now)

    def _look(self, now: float) -> None:
        """Tell those who want to know if it is not the same any more."""
        oldest = now - REMEMBERED * self.core.settings.links.lost_after_s
        missing: dict[str, float] = {}
        for origin, said in list(self.said.items()):
            for broker, (name, since) in list(said.brokers.items()):
                if since <= oldest:
                    del said.brokers[broker]
                elif not self._is_here(broker, since):
                    missing[name] = min(since, missing.get(name, since))
            if not said.brokers and said.at <= oldest and said is not self.own:
                del self.said[origin]
        if missing != self._last:
            named, self._last = set(self._last), missing
            if missing.keys() != named:
                for call in self.changed:
                    call(now)
        if missing:
            self.core.timers.at(min(missing.values()) - oldest + now, self._look)

    def _comes_early(self, peer: Peer, broker: int) -> bool:
        """Whether this is the word of one that is missing, and what is wanted there is not told yet."""
        if peer.synced:
            return False
        named = (said.brokers[broker][1] for said in self.said.values() if broker in said.brokers)
        return any(not self._is_here(broker, since) for since in named)

    def _is_here(self, broker: int, since: float) -> bool:
        heard = self.said.get(broker)
        return broker == self.core.id or (heard is not None and heard is not self.own and heard.at > since)

    def status(self) -> Status:
        return {"brokers": {name: round(since, 3) for name, since in sorted(self._last.items())}}
