"""SPEC A4, A5: the coordinator: registers brokers and subscribers, places who comes, moves who should go.

It asks all brokers every `report_s` and looks at their loads every `check_s`; a round is planned when nobody
is moving (plan.py) and carried out a few subscribers at a time (migration.py). A coordinator that restarts
has everything reported anew; it plans nothing before every broker it knew has reported or is gone.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from grapevine.wire.messages import Attach, GoAway
from overlay.administration.census import Census
from overlay.administration.census import Report as Answer
from overlay.behaviour import Quiet, Status
from overlay.coordinate.loads import variation
from overlay.coordinate.migration import Migrations, Step
from overlay.coordinate.placement import Assign, Placement
from overlay.coordinate.plan import Plan, Thresholds, migrate, shuffle, stage
from overlay.coordinate.registry import Known, Loads, Registry, Reported
from overlay.coordinate.reporting import DEPART, REPORT, Depart
from overlay.core import Core
from overlay.settings import BalancingSettings, CoreSettings

ASK_S = 3.0
LOOK_S = 1.0  # between two reports while subscribers move
SPARES = 2  # brokers that a new subscriber is told beside its own
AGAIN_S = 10.0  # who comes back so soon has not reached the broker that it was given
MOVES_FOR_TEN = 20  # in a round, for ten brokers
PLACED_MAX = 100_000
TABLE = "balancing"


class Proposal(msgspec.Struct):
    """What a round came to."""

    stage: str
    steps: list[Step]
    ended: str
    before: dict[str, float]
    after: dict[str, float]


class Balance(Quiet):
    name = "balancing"
    keeps = TABLE

    def __init__(self, census: Census, settings: BalancingSettings) -> None:
        self.census = census
        self.settings = settings
        self.registry = Registry(settings.window_s)
        self.migrations = Migrations()
        self.rounds = 0
        self.proposal: Proposal | None = None  # of the last round
        self._placed: dict[str, tuple[str, float]] = {}  # who was sent where, and when
        self._expected: tuple[str, ...] = ()  # brokers that an earlier life knew
        self._asking = False
        self._check_at = 0.0

    def attach(self, core: Core) -> None:
        self.core = core
        words: tuple[Assign, ...] = ("nearest", "round_robin", "random")
        self.placement = {word: Placement(word, core.random) for word in words}

    def restore(self, rows: Mapping[str, bytes]) -> None:
        self._expected = tuple(rows)

    def start(self, now: float) -> None:
        for name in self._expected:
            self.registry.expect(name, now)
        self._check_at = now + self.settings.check_s
        self.core.timers.at(now, self._ask)

    def reconfigured(self, before: CoreSettings, now: float) -> None:
        if self.core.settings.balancing != before.balancing:
            self.set(self.core.settings.balancing)

    def set(self, settings: BalancingSettings) -> None:
        self.settings = settings
        self.registry.window_s = settings.window_s

    # --- reports ------------------------------------------------------------------------------------------

    def _ask(self, now: float) -> None:
        if not self._asking:
            self._asking = True
            argument = msgspec.json.encode(self.registry.knows())
            self.census.ask(REPORT, None, now, self._heard, argument, ASK_S)

    def _heard(self, answers: list[Answer], now: float) -> None:
        self._asking = False
        more = False
        for answer in answers:
            try:
                report = msgspec.convert(answer, Reported)
            except msgspec.ValidationError:
                continue  # missing, or of another version
            if report.name not in self.registry.brokers:
                self.core.keep(TABLE, report.name, True)
            self.registry.take(report, now)
            self.migrations.stayed(report.name, report.stays)
            more |= report.more
        if more:
            self.core.timers.at(now, self._ask)
            return
        self.registry.sample(now)
        for name in self.registry.forget_silent(now):
            self.core.keep(TABLE, name, None)
        self._go_on(now)
        soon = self.migrations.busy or not self.registry.serving()
        wait_s = LOOK_S if soon else self.settings.report_s
        self.core.timers.at(now + min(wait_s, self.settings.report_s), self._ask)

    def _go_on(self, now: float) -> None:
        migrations, homes = self.migrations, self.registry.homes
        migrations.look(homes, now, self.settings.cooldown_s)
        if not migrations.busy and now >= self._check_at:
            self._check_at = now + self.settings.check_s
            if self.settings.mode != "off" and not self.waits_for(now):
                self._round(now)
        self._launch(now)

    def waits_for(self, now: float) -> list[str]:
        """Brokers whose word is due: nothing is planned without it."""
        return list(self.registry.silent(now, self.settings.report_s))

    # --- rounds -------------------------------------------------------------------------------------------

    def propose(self) -> Proposal:
        loads = self.registry.assignment()
        staying = loads.fixed | {
            number for number, name in enumerate(loads.subscribers) if name in self.migrations.moved_at
        }
        before = summary(loads)
        due, plan = planned(loads, self.settings, staying)
        steps = [
            Step(loads.subscribers[i], loads.brokers[source], loads.brokers[target])
            for i, (source, target) in plan.moves.items()
            if i not in staying
        ]
        return Proposal(due, steps, plan.ended, before, summary(loads))

    def _round(self, now: float) -> None:
        self.rounds += 1
        self.proposal = self.propose()
        if self.settings.mode == "on":
            self.apply(self.proposal, now)

    def apply(self, proposal: Proposal, now: float) -> None:
        self.migrations.add(proposal.steps)
        if proposal.steps:
            text = f"{len(proposal.steps)} subscribers of channels move: {proposal.stage}"
            self.core.event(now, "balanced", text, moves=len(proposal.steps), cov=proposal.before["cov"])
        self._launch(now)

    def _launch(self, now: float) -> None:
        steps = self.migrations.launch(self.registry.homes, now, self.settings.in_flight)
        if not steps:
            return
        brokers = self.registry.brokers
        departs = [
            Depart(step.subscriber, step.source, brokers[step.target].addresses, step.target)
            for step in steps
            if step.target in brokers
        ]
        self.census.ask(DEPART, None, now, self._departed, msgspec.json.encode(departs), ASK_S)
        self.core.timers.at(now + LOOK_S, self._ask)

    def _departed(self, answers: list[Answer], now: float) -> None:
        for answer in answers:
            for name, why in dict(answer.get("refused", {})).items():
                self.migrations.refuse(str(name), str(why))

    # --- placing ------------------------------------------------------------------------------------------

    def place(self, attach: Attach, now: float) -> GoAway | None:
        """Where somebody who has just come should attach; None: here, because nobody else serves."""
        ranked = self._ranked(attach, now)
        if not ranked:
            return None
        if len(self._placed) >= PLACED_MAX:
            self._placed.clear()
        self._placed[attach.name] = (ranked[0].name, now)
        addresses = [address for known in ranked[: 1 + SPARES] for address in known.addresses]
        return GoAway(tuple(addresses))

    def _ranked(self, attach: Attach, now: float) -> list[Known]:
        """Best first. A name that is known goes back to its broker, unless it could not reach it just now."""
        silent = set(self.waits_for(now))
        brokers = {known.name: known for known in self.registry.serving() if known.name not in silent}
        given, at = self._placed.get(attach.name, ("", 0.0))
        home = self.registry.homes.get(attach.name, given)
        word = self.settings.assign if attach.place == "assigned" else attach.place
        if given and now < at + AGAIN_S:
            brokers.pop(given, None)
        elif home in brokers:
            others = [known for known in brokers.values() if known.name != home]
            return [brokers[home], *others]
        if word not in self.placement or not brokers:
            return list(brokers.values())
        candidates = [known.candidate() for known in brokers.values()]
        names = self.placement[word].choose(candidates, attach.location)
        return [brokers[name] for name in names]

    # --- what it looks like -------------------------------------------------------------------------------

    def status(self) -> Status:
        migrations = self.migrations
        return {
            "mode": self.settings.mode,
            "brokers": len(self.registry.brokers),
            "subscribers": len(self.registry.homes),
            "rounds": self.rounds,
            "moving": len(migrations.flying) + len(migrations.waiting),
            "moved": migrations.moved,
            "failed": migrations.failed,
        }


def planned(loads: Loads, settings: BalancingSettings, staying: set[int]) -> tuple[str, Plan]:
    """One round; the assignment becomes what it leads to."""
    at = loads.at
    thresholds = Thresholds(settings.alpha, settings.beta, settings.gamma, settings.theta)
    due = stage(at.loads, thresholds)
    if due == "shuffle":
        return due, shuffle(at, settings.keep if settings.keep >= 0 else None, staying=staying)
    if due == "migrate":
        most = settings.moves or max(MOVES_FOR_TEN * at.brokers // 10, 1)
        scheme = "SDM" if settings.scheme == "SDM" else "LDM"
        return due, migrate(at, settings.alpha, settings.beta, scheme, most, staying)  # type: ignore[arg-type]
    return due, Plan({}, 0, "balanced")


def summary(loads: Loads) -> dict[str, float]:
    carried = loads.at.loads
    return {
        "cov": round(variation(carried), 4),
        "mean_bytes_s": round(float(carried.mean()), 1),
        "max_bytes_s": round(float(carried.max()), 1),
    }
