"""SPEC T1: a broker joins the tree below the first candidate that takes it, and undoes a cycle.

Candidates are tried in order; at most one parent is dialled. A parent whose link breaks is dialled again
until it is lost, then the next candidate is joined afresh (DECISIONS 13). Root paths travel in HELLO and
pings: a broker that finds itself in its parent's path is on a cycle, and the lowest id on it lets go. Other
candidates may come while the broker runs; a parent that is none of them is left at once, and what was under
way on that link ends as cut. When no candidate has answered for long, *fallback addresses* are tried too:
who was near on the map when a parent was lost, and where one that left said that a parent is. The candidates
may all have left while this broker was away; so these are kept on disk, and a leaver waits until they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from grapevine.wire.limits import ADDRESSES, ROOT_PATH_BROKERS
from grapevine.wire.messages import LeaveDone, Leaving, Ping
from overlay.administration.census import Census
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Session
from overlay.settings import CoreSettings
from overlay.tree.neighbours import Neighbours
from overlay.tree.peer import Peer, peers_of
from overlay.tree.sync import TABLE, Sync

Known = tuple[tuple[str, tuple[str, ...]], ...]  # names and addresses
FATAL = ("version", "settings", "name", "not-allowed")
REDIAL_MOST = 10  # times redial_s
LONG = 10  # attempts in a row that failed
ASKING, ASK_AGAIN_S = "asking", 0.1  # whom we dial asks the root first: it may be dialled again at once
PATIENCE_MOST = 4  # times greet_s, after some attempts: a broker with large tables is slow to greet


class Join(Quiet):
    name = "tree"
    keeps = TABLE

    def __init__(
        self,
        neighbours: Neighbours,
        sync: Sync,
        census: Census,
        candidates: tuple[str, ...],
    ) -> None:
        self.neighbours = neighbours
        self.handshake = neighbours.handshake
        self.sync = sync
        self.census = census
        self.candidates = candidates
        self.known: Known = ()  # neighbours from before a restart
        self.fallback: tuple[str, ...] = ()  # addresses, the latest first
        self._parent: Peer | None = None
        self.reparented: Callable[[], None] = lambda: None  # another parent, or none
        self.left: Callable[[], None] = lambda: None  # about to be gone for good
        self.locked: Callable[[float], bool] = lambda now: False  # another's edge changes by our permission
        self.former: Peer | None = None  # a parent that was given up while its link was broken
        self.elsewhere: Callable[[], tuple[str, ...]] = lambda: ()  # where others are that are not below us
        self.joined: Callable[[Peer, float], None] = lambda peer, now: None  # a parent has answered
        self.stopped = False  # leaving: dial nobody any more
        self._next = 0
        self._tries = 0
        self._dialling = False
        self._given_up = False  # its answer comes too late
        self._silent: set[str] = set()  # addresses where nobody answered when they were dialled last
        self._seeking = False
        self._name_checked = False
        self._reloaded = False  # candidates came while it runs: a wrong one is no reason to end
        self._through = ""  # the address by which the parent was reached
        neighbours.root_path = self.root_path
        neighbours.moved_root = self._moved_root
        sync.seeking = lambda: self._seeking

    def attach(self, core: Core) -> None:
        self.core = core

    @property
    def parent(self) -> Peer | None:
        return self._parent

    @parent.setter
    def parent(self, parent: Peer | None) -> None:
        self._parent = parent
        self.reparented()

    def restore(self, rows: Mapping[str, bytes]) -> None:
        if (known := rows.get("neighbours")) is not None:
            self.known = msgspec.json.decode(known, type=Known)
        if (fallback := rows.get("fallback")) is not None:
            self.fallback = msgspec.json.decode(fallback, type=tuple[str, ...])
        if (parent := rows.get("parent")) is not None:
            self._first(msgspec.json.decode(parent, type=str))

    def _first(self, candidate: str) -> None:
        self.candidates = (candidate, *(c for c in self.candidates if c != candidate))

    def start(self, now: float) -> None:
        for name, addresses in self.known:
            self._await(name, addresses, now)
        if self.candidates:
            self._seeking = True
            self.core.timers.at(now + self.core.settings.links.lost_after_s, self._alone)
            self._dial_next(now)
        self.sync.check_all(now)

    def _await(self, name: str, addresses: tuple[str, ...], now: float) -> None:
        """A neighbour from before the restart: nothing flows until it is back or lost."""
        core = self.core
        peer = Peer(core, self.census.identify(name), name)
        peer.addresses = addresses
        peer.awaited = True
        core.peers[peer.id] = peer
        core.names[peer.id] = name
        lost_at = now + core.settings.links.lost_after_s
        peer.lost_timer = core.timers.at(lost_at, lambda later: core.lose(peer, later))

    @property
    def apart(self) -> bool:
        """Whether this is the root of what is here because nobody answers where a parent may be: there may be
        another part of the tree. Candidates that are below us do answer."""
        silent = self._seeking or not self._silent.isdisjoint(self.candidates)
        return self.parent is None and bool(self.candidates) and silent

    def _alone(self, now: float) -> None:
        """No candidate answered in time: serve as the root of what is here, and keep trying."""
        if self._seeking and self.parent is None:
            self._found(now)

    def _found(self, now: float) -> None:
        self._seeking = False
        self.sync.check_all(now)

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        wanted = self.core.settings.tree.neighbours
        if wanted == before.tree.neighbours:
            return
        self._reloaded = True
        self.candidates = wanted
        self._next = self._tries = 0
        self.core.keep(TABLE, "parent", None)  # where it had moved to
        self._forget_fallback()
        if self.parent is None:
            self._dial_next(now)
        elif self._through not in wanted:
            self._part(self.parent, now)

    def _part(self, parent: Peer, now: float) -> None:
        """Leave it with all that is below us, and say so: it waits for nobody then."""
        if parent is not self.parent:
            return
        self.core.note(now, f"{parent.name} is no neighbour of ours any more")
        self.core.tell(Leaving(parent.id, parent.name, parent.addresses, ()), parent)
        self.core.tell(LeaveDone(), parent)
        parent.departed = True
        self.core.lose(parent, now)
        self._forget_fallback()  # those beyond it

    # --- dialling -------------------------------------------------------------------------------------

    def _dial_next(self, now: float) -> None:
        if not self.candidates or self._dialling or self.parent is not None or self.stopped:
            return
        if self.locked(now):
            self.core.timers.at(now + self.core.settings.links.redial_s, self.try_again)
            return
        fallback = self.fallback if self._tries >= LONG else ()
        if self._tries > len(self.candidates) and self.core.settings.healing.after_s:
            fallback = tuple(dict.fromkeys((*fallback, *self.elsewhere())))
        self._through = by_turns(self._next, self.candidates, fallback)
        self._next += 1
        self._dial(now)

    def _dial(self, now: float) -> None:
        self._dialling = True
        patience = min(max(1, self._tries - 1), PATIENCE_MOST)
        self._given_up = False
        addresses, replaces = (self._through,), self._replaces()
        self.handshake.dial(addresses, self._greeted, self._failed, now, replaces=replaces, patience=patience)

    def _replaces(self) -> int:
        """What HELLO says of our place: whom we have given up, or ourselves if others come with us. Then the
        root is asked first (granting.py), unless we are known there."""
        if self.parent is not None or not self.core.settings.healing.after_s:
            return 0
        if self.former is not None:
            return self.former.id
        return self.core.id if self.core.peers else 0

    @property
    def asks(self) -> bool:
        """Whether an answer may make us somebody's child. Where nobody has answered before none is expected:
        a root whose candidates are dead would grant nothing to others, as it always dials one of them."""
        expected = self._through not in self._silent
        return self._dialling and self.parent is None and not self._given_up and expected

    def give_up_dial(self) -> None:
        self._given_up = True

    def give_up_parent(self) -> None:
        """J1: its link is broken, and somebody else was permitted to join below us."""
        self.former, self.parent = self.parent, None

    def dismiss(self, peer: Peer, now: float) -> None:
        """It has taken us, and we do not come: say so, or it would wait."""
        self.core.tell(Leaving(peer.id, peer.name, (), ()), peer)
        self.core.tell(LeaveDone(), peer)
        peer.departed = True
        self.core.timers.at(now, lambda later: self.core.lose(peer, later))

    def _greeted(self, peer: Peer, now: float) -> None:
        self._dialling = False
        self._tries = 0
        self._silent.clear()
        if self._given_up or self.parent not in (None, peer):
            self.dismiss(peer, now)
            return
        self.joined(peer, now)
        self._adopt(peer, now)
        known = (*self.candidates, *self.fallback, *self.elsewhere())
        if self._through not in known:  # changed while this one answered
            self.core.timers.at(now, lambda later: self._part(peer, later))
        if self._name_checked:
            self._found(now)
        else:
            self.census.ask("name", peer, now, self._checked, self.core.name.encode())

    def adopt(self, peer: Peer, through: str, now: float) -> None:
        """This neighbour is our parent from now on, and after a restart it is dialled first: those that are
        configured may be below us by then."""
        self._through = through
        if through:
            self._first(through)
            self.core.keep(TABLE, "parent", through)
        self._adopt(peer, now)

    def sought(self) -> tuple[str, ...]:
        """Where a parent may be found, as far as we know."""
        return tuple(dict.fromkeys((*self.candidates, *self.fallback)))[:ADDRESSES]

    def learn(self, addresses: tuple[str, ...]) -> None:
        """A parent may be found here as well, also after a restart."""
        fallback = latest(addresses, self.fallback, self.handshake.addresses)
        if fallback != self.fallback:
            self.fallback = fallback
            self.core.keep(TABLE, "fallback", fallback)

    def _forget_fallback(self) -> None:
        self.fallback = ()
        self.core.keep(TABLE, "fallback", None)

    def inherit(self, addresses: tuple[str, ...]) -> None:
        """Our parent has left without having one: we are the root of what was below it, and look for a
        parent where it did, as all that we are configured with may have left."""
        strange = [address for address in addresses if address not in self.handshake.addresses]
        if strange:
            self.candidates = tuple(dict.fromkeys((*strange, *self.candidates)))[:ADDRESSES]
            self._next = self._tries = 0
            self._reloaded = True
            self.core.keep(TABLE, "parent", strange[0])

    def _adopt(self, peer: Peer, now: float) -> None:
        self._silent.clear()
        self.former = None
        self.parent = peer
        self._tell_children(now)

    def _checked(self, reports: list[dict[str, object]], now: float) -> None:
        """DECISIONS 15: nobody else may have our name. Neighbours that miss us are not somebody else."""
        self._name_checked = True
        if any(report["id"] == self.core.id and not report.get("missing") for report in reports):
            self.core.out.fatal = f"the overlay has a broker named {self.core.name} already: rename this one"
        self._found(now)

    def _failed(self, reason: str, text: str, now: float) -> None:
        self._dialling = False
        configured = self._through in self.core.settings.tree.neighbours
        if reason in FATAL and configured and self.parent is None and not self._reloaded:
            self.core.out.fatal = text
            return
        if reason == ASKING:
            self._next -= self.parent is None
            self.core.timers.at(now + ASK_AGAIN_S, self.try_again)
            return
        self._tries += 1
        self._silent -= {self._through}
        if reason == "unreachable" and self.parent is None:
            self._silent.add(self._through)
        if reason != "unreachable" or self._tries == 1:
            self.core.note(now, f"could not join by {self._through}: {text}")
            said = f"{self.core.name} could not join by {self._through}: {text}"
            self.core.event(now, "refused", said, "warn", reason=reason, through=self._through)
        if reason == "twice" and self._tries >= len(self.candidates) and self._seeking:
            self._name_checked = True
            self._found(now)
        pause = self.core.settings.links.redial_s * min(self._tries, REDIAL_MOST)
        self.core.timers.at(now + pause, self.try_again)

    def try_again(self, now: float) -> None:
        if self._dialling or self.stopped:
            return
        if self.parent is None:
            self._dial_next(now)
        elif self.parent.link is None and not self.parent.paused:
            self._dial(now)

    # --- breaks ---------------------------------------------------------------------------------------

    def link_down(self, session: Session, now: float) -> None:
        if session is self.parent and not self.parent.paused:
            self.core.timers.at(now + self.core.settings.links.redial_s, self.try_again)

    def link_lost(self, session: Session, now: float) -> None:
        if session is self.former:
            self.former = None
        if session is self.parent:
            self.parent = None
            self._tell_children(now)
            self.core.timers.at(now + self.core.settings.links.redial_s, self.try_again)

    # --- the way to the root ------------------------------------------------------------------------------

    def root_path(self) -> tuple[int, ...]:
        above = self.parent.root_path if self.parent is not None else ()
        if self.core.id in above:
            above = above[: above.index(self.core.id)]
        return (self.core.id, *above)[:ROOT_PATH_BROKERS]

    def _moved_root(self, peer: Peer, now: float) -> None:
        if peer is not self.parent:
            return
        above = peer.root_path
        if self.core.id in above and self.core.id == min(above[: above.index(self.core.id) + 1]):
            self.core.note(now, f"{peer.name} is below us: letting go, or the tree would be a cycle")
            self.core.lose(peer, now)
        else:
            self._tell_children(now)

    def _tell_children(self, now: float) -> None:
        children = [peer for peer in peers_of(self.core).values() if peer is not self.parent]
        self.core.tell(Ping(now, self.root_path()), *children)

    def status(self) -> Status:
        return {
            "parent": self.parent.name if self.parent is not None else None,
            "depth": len(self.root_path()) - 1,
        }

    def validate(self) -> None:
        assert self.parent is None or peers_of(self.core).get(self.parent.id) is self.parent


def latest(new: tuple[str, ...], known: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses that were heard of, the latest first, so many as a message holds; never our own."""
    return tuple(a for a in dict.fromkeys((*new, *known)) if a not in own)[:ADDRESSES]


def by_turns(attempt: int, candidates: tuple[str, ...], fallback: tuple[str, ...]) -> str:
    """Every second attempt is at a fallback address: a candidate that is back need not wait for all."""
    if not fallback:
        return candidates[attempt % len(candidates)]
    known = fallback if attempt % 2 else candidates
    return known[attempt // 2 % len(known)]
