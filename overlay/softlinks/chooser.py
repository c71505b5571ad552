"""SPEC M4 to M6: which strategy runs, and the rounds in which a broker chooses its soft links.

Dormant while the strategy is S0. Once a round: what each link carried gives its gain, low gains are
discarded, high ones promoted, neighbours of good links become candidates. SH also watches the uplink:
unordered it switches between S1 and S2 as printed; ordered, the links with the least gain rest first and are
roused again when the uplink has been below a lower mark.
"""

from __future__ import annotations

from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.links.session import Remote, Session
from overlay.settings import CoreSettings
from overlay.softlinks.excludes import Tap
from overlay.softlinks.gains import link_gain
from overlay.softlinks.loads import LoadExchange
from overlay.softlinks.neighbourhoods import Neighbourhoods
from overlay.softlinks.rounds import decide_round, explore_from
from overlay.softlinks.shortcuts import Shortcuts
from overlay.softlinks.soft import Soft, Stage
from overlay.softlinks.strategies import choose_links_s1, choose_links_s2
from overlay.tree.peer import peers_of

ORDERED, UNORDERED = ("S0", "SD", "SH"), ("S0", "S1", "S2", "SH")
LOAD_THRESHOLD = 0.8  # of a bypassed broker
SHARE, LOWER_SHARE = 0.8, 0.6  # of the uplink: SH saves copies above, and stops saving below
USE_S = 1.0  # between two looks at the uplink
TRIED = 4  # rounds that a candidate without success is left alone


class Chooser(Quiet):
    name = "softlinks"

    def __init__(self, neighbourhoods: Neighbourhoods, shortcuts: Shortcuts, loads: LoadExchange) -> None:
        self.neighbourhoods = neighbourhoods
        self.shortcuts = shortcuts
        self.loads = loads
        self.strategy = "S0"
        self.use = 0.0  # of the uplink, 0 to 1
        self.gains: dict[int, float] = {}  # of the last round
        self.rounds = 0
        self._saving = False
        self._given: dict[Remote, int] = {}  # to each link, at the last round
        self._given_before: dict[Remote, int] = {}  # and at the last look at the uplink
        self._round_at = self._use_at = 0.0
        self._tried: dict[int, int] = {}
        self._running = 0  # which series of timers counts

    def attach(self, core: Core) -> None:
        self.core = core
        self.settings = core.settings.softlinks

    def start(self, now: float) -> None:
        self.set_strategy(self.settings.strategy, now)

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        """What pubctl has set stays until the file says something new."""
        self.settings = self.core.settings.softlinks
        if self.settings.strategy != before.softlinks.strategy:
            self.set_strategy(self.settings.strategy, now)

    @property
    def strategies(self) -> tuple[str, ...]:
        return ORDERED if self.core.settings.overlay.ordered else UNORDERED

    def set_strategy(self, strategy: str, now: float) -> None:
        """From S0 the rounds begin; to S0 all soft links go."""
        assert strategy in self.strategies, strategy
        if self.core.settings.overlay.delta == 1:
            strategy = "S0"  # the map ends at our neighbours
        was, self.strategy = self.strategy, strategy
        if was != strategy:
            text = f"{self.core.name} forwards by {strategy}, {was} before"
            self.core.event(now, "strategy", text, strategy=strategy, before=was)
        self._saving = False
        self._print()
        if strategy == "S0":
            self._running += 1
            self._forget(now)
        elif was == "S0":
            self._running += 1
            self._begin(self._running, now)

    def _forget(self, now: float) -> None:
        for soft in self.shortcuts.softs.out.values():
            self.shortcuts.close(soft, now)
        self.shortcuts.rested.clear()
        self._tried.clear()
        self.gains.clear()
        self._given.clear()
        self.shortcuts.table.candidates.clear()
        self.shortcuts.table.rebuild()

    def _begin(self, series: int, now: float) -> None:
        """Rounds of different brokers fall at different times."""
        self._mark(now)
        self._use_at, self._given_before = now, self._ends()
        interval = self.settings.interval_s
        self.core.timers.at(
            now + interval * self.core.random.uniform(0.5, 1.0), lambda t: self._round(series, t)
        )
        self.core.timers.at(now + USE_S, lambda t: self._look_at_uplink(series, t))

    def _print(self) -> None:
        """The paper's choice of links, where it holds as printed."""
        if self.core.settings.overlay.ordered or self.strategy == "S0":
            printed = None
        else:
            saving = self.strategy == "S1" or (self.strategy == "SH" and self._saving)
            printed = choose_links_s1 if saving else choose_links_s2
        if self.shortcuts.table.printed is not printed:
            self.shortcuts.table.printed = printed
            self.shortcuts.table.rebuild()

    # --- rounds -------------------------------------------------------------------------------------

    def _round(self, series: int, now: float) -> None:
        if series != self._running:
            return
        self.choose_links(now)
        self.core.timers.at(now + self.settings.interval_s, lambda later: self._round(series, later))

    def choose_links(self, now: float) -> None:
        """One round."""
        self.rounds += 1
        table = self.shortcuts.table
        softs = {b: s for b, s in self.shortcuts.softs.out.items() if not s.leaving}
        rested = self.shortcuts.rested
        soft = {
            b: self.gains.get(b, 0.0) if b in rested else self._gain(b, self._carried(s))
            for b, s in softs.items()
        }  # a link at rest carries nothing and is worth what it was
        candidates = {b: self._gain(b, tap.count) for b, tap in table.candidates.items()}
        self.gains = self.shortcuts.gains = {**soft, **candidates}
        decided = decide_round(
            peers_of(self.core),
            soft,
            candidates,
            self._wanted(softs),
            self.settings.fanout,
            self.settings.maxlinks,
        )
        for broker in decided.discard:
            if self.shortcuts.softs.out[broker].stage is not Stage.ACTIVATING:
                self.shortcuts.close(self.shortcuts.softs.out[broker], now)
        for broker in decided.promote if not rested else ():  # else the uplink is full
            self.shortcuts.open(broker, now)
        self._tried = {b: left - 1 for b, left in self._tried.items() if left > 1}
        self._tried |= {b: TRIED for b in candidates if b not in decided.promote}
        table.candidates = {broker: Tap() for broker in decided.explore}
        table.rebuild()
        self.loads.rate = self._rate(self._round_at, self._given, now)
        self._mark(now)
        self.loads.ask()

    def _wanted(self, softs: dict[int, Soft]) -> list[int]:
        """Whom to explore. Primary links bypass nobody and have no gain: what they carried counts here."""
        master = self.neighbourhoods.master
        carried = {b: float(self._carried(p)) for b, p in peers_of(self.core).items()}
        carried |= {b: float(self._carried(s)) for b, s in softs.items()}
        carried |= {b: float(tap.count) for b, tap in self.shortcuts.table.candidates.items()}

        peers = peers_of(self.core)

        def linked(broker: int) -> bool:
            return broker in peers or broker in softs or self.shortcuts.barred(master.path(broker))

        def hurry(broker: int) -> float:
            path = master.path(broker)
            slow = sum(self.loads.slowness_s(b) for b in path)
            return slow + sum(self.loads.normalised(b) for b in path[:-1])

        found = explore_from(carried, master.beside, linked, hurry)
        return [b for b in found if b not in self._tried] + [b for b in found if b in self._tried]

    def _gain(self, broker: int, publications: int) -> float:
        path = self.neighbourhoods.master.path(broker)
        bypassed = [self.loads.normalised(b) for b in path[:-1]]
        return link_gain(publications, len(path), bypassed, LOAD_THRESHOLD, self.settings.load_factor)

    def _carried(self, remote: Remote) -> int:
        """Publications given to the link since the last round."""
        return remote.out.end() - self._given.get(remote, 0)

    def _mark(self, now: float) -> None:
        self._round_at, self._given = now, self._ends()

    def _ends(self) -> dict[Remote, int]:
        remotes: list[Remote] = [*peers_of(self.core).values(), *self.shortcuts.softs.out.values()]
        return {remote: remote.out.end() for remote in remotes}

    def _rate(self, since: float, before: dict[Remote, int], now: float) -> float:
        """Publications a second given to the links, not only what got through: a full uplink sends no more
        than it can. Link by link: one that was closed has not taken back what went over it."""
        given = sum(end - before.get(remote, 0) for remote, end in self._ends().items())
        return given / (now - since) if now > since else 0.0

    def link_lost(self, session: Session, now: float) -> None:
        self._given.pop(session, None)  # type: ignore[call-overload]
        self._given_before.pop(session, None)  # type: ignore[call-overload]
        if isinstance(session, Soft) and session.dialled:
            self.shortcuts.rested.discard(session.id)

    # --- the uplink ---------------------------------------------------------------------------------

    def _look_at_uplink(self, series: int, now: float) -> None:
        if series != self._running:
            return
        self.use = self._uplink_use(now)
        if self.strategy == "SH":
            self._adapt(now)
        self.core.timers.at(now + USE_S, lambda later: self._look_at_uplink(series, later))

    def _uplink_use(self, now: float) -> float:
        rate = self._rate(self._use_at, self._given_before, now)
        self._use_at, self._given_before = now, self._ends()
        capacity = self.settings.uplink_msgs_s
        return rate / capacity if capacity else self.core.report.get("uplink_use", 0.0)

    def _adapt(self, now: float) -> None:
        if not self.core.settings.overlay.ordered:
            self._saving = self.use >= SHARE
            self._print()
        elif self.use >= SHARE:
            active = [
                s for s in self.shortcuts.softs.out.values() if s.stage is Stage.ACTIVE and not s.leaving
            ]
            if active:
                least = min(active, key=lambda s: (self.gains.get(s.id, 0.0), s.id))
                self.shortcuts.rest(least.id, now)
        elif self.use < LOWER_SHARE and self.shortcuts.rested:
            best = max(self.shortcuts.rested, key=lambda b: (self.gains.get(b, 0.0), -b))
            self.shortcuts.rouse(best, now)

    # --- what it looks like ---------------------------------------------------------------------------

    def status(self) -> Status:
        return {
            "strategy": self.strategy,
            "rounds": self.rounds,
            "uplink_use": round(self.use, 3),
            "links": self.rows(),
            "incoming": len(self.shortcuts.softs.into),
        }

    def rows(self) -> list[Status]:
        """Soft and candidate links, in the form of the primary ones."""
        softs = [self._row(soft) for soft in self.shortcuts.softs.out.values()]
        master = self.neighbourhoods.master  # a candidate that has gone from it counts until the next round
        return softs + [self._stub(b) for b in self.shortcuts.table.candidates if b in master]

    def _row(self, soft: Soft) -> Status:
        return {
            "name": soft.name,
            "kind": "soft",
            "state": soft.stage.value,
            "parent": False,
            "distance": len(soft.path),
            "bypasses": [self._name(broker) for broker in soft.path[:-1]],
            "gain": round(self.gains.get(soft.id, 0.0), 1),
            "sent": soft.out.sent,
            "received": 0,
            "unsettled": soft.out.unsettled,
            "round_trip_ms": round(soft.round_trip_s * 1000, 3),
            "addresses": list(soft.addresses),
        }

    def _stub(self, broker: int) -> Status:
        """A candidate has no connection: `sent` is what it would have carried this round."""
        path = self.neighbourhoods.master.path(broker)
        return {
            "name": self._name(broker),
            "kind": "candidate",
            "state": "candidate",
            "parent": False,
            "distance": len(path),
            "bypasses": [self._name(b) for b in path[:-1]],
            "gain": round(self.gains.get(broker, 0.0), 1),
            "sent": self.shortcuts.table.candidates[broker].count,
            "received": 0,
            "unsettled": 0,
            "round_trip_ms": 0.0,
            "addresses": [],
        }

    def _name(self, broker: int) -> str:
        nearby = self.neighbourhoods.master.nearby.get(broker)
        return nearby.name if nearby is not None else self.core.names.get(broker, f"{broker:016x}")
