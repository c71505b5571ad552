"""SPEC A5: what subscribers of channels cost their brokers, and who should move (BAD 5).

Every broker knows the rates of the results that it pulls and who of its subscribers wants them; the broker
that is asked gathers that, computes loads, and plans a round. Nobody is moved: live migration waits for the
handover of subscribers, so that a plan is shown and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet, Status
from overlay.channels.frontend import FrontEnd
from overlay.coordinate.loads import Assignment, Rate, variation
from overlay.coordinate.plan import Plan, Thresholds, migrate, shuffle, stage
from overlay.core import Core
from overlay.links.session import Link

QUESTION = "balance"
ASK_S = 3.0
WINDOW_S = 60.0
MOVES_FOR_TEN = 20  # in a round, for ten brokers
SCHEMES = ("LDM", "SDM")


class Balancing(msgspec.Struct):
    """What a round goes by; `keep` below 0: a shuffle as printed, which moves nearly all."""

    alpha: float = 0.15
    beta: float = 1e6
    gamma: float = 0.5
    theta: float = 1e6
    scheme: str = "LDM"
    keep: float = 0.02
    moves: int = 0  # in a round; 0: 20 for ten brokers


class Balance(Quiet):
    name = "balancing"

    def __init__(self, census: Census, front: FrontEnd) -> None:
        self.census = census
        self.front = front
        self.settings = Balancing()
        self.rates: dict[int, Rate] = {}
        census.reporters[QUESTION] = self._report
        front.measured = self._measured

    def attach(self, core: Core) -> None:
        self.core = core
        core.on_command("balance.show", self.on_show)
        core.on_command("balance.plan", self.on_plan)
        core.on_command("balance.set", self.on_set)
        core.on_command("balance.apply", self.on_apply)

    # --- what a broker knows ------------------------------------------------------------------------------

    def _measured(self, be: int, size: int, now: float) -> None:
        rate = self.rates.get(be)
        if rate is None:
            rate = self.rates[be] = Rate(WINDOW_S)
            rate.sample(0, now - WINDOW_S / 6)  # what came first came in some time
        rate.sample(size, now)

    def _report(self, argument: bytes) -> Report:
        now = self.core.now
        for be in [each for each in self.rates if each not in self.front.wanted]:
            del self.rates[be]
        wanted: dict[str, list[str]] = {}
        for client, mine in self.front.by_client.items():
            if client.link is not None:  # online ones only, as the paper counts
                wanted[client.name] = sorted({str(fe.be) for fe in mine.values() if fe.be})
        rates = {str(be): rate.sample(0, now) for be, rate in self.rates.items()}
        return {**self.census.brief(), "subscribers": wanted, "rates": rates}

    # --- what is asked ------------------------------------------------------------------------------------

    def _answer(self, link: Link, command: Command, outcome: str, body: Any, text: str = "") -> None:
        self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)

    def _gather(self, command: Command, now: float, done: Callable[[list[Report]], None]) -> None:
        self.census.ask(
            QUESTION, None, now, lambda reports, later: done([r for r in reports if "rates" in r]), b"", ASK_S
        )

    def on_show(self, link: Link, command: Command, now: float) -> None:
        def done(reports: list[Report]) -> None:
            at, names, _ = assignment(reports)
            rows = [
                {
                    "broker": name,
                    "subscribers": len(report["subscribers"]),
                    "front_end": sum(map(len, report["subscribers"].values())),
                    "back_end": int((at.counts[number] > 0).sum()),
                    "load_bytes_s": round(float(at.loads[number]), 1),
                }
                for number, (name, report) in enumerate(zip(names, reports))
            ]
            body = {"brokers": rows, **_summary(at), "settings": msgspec.to_builtins(self.settings)}
            self._answer(link, command, "ok", body)

        self._gather(command, now, done)

    def on_plan(self, link: Link, command: Command, now: float) -> None:
        def done(reports: list[Report]) -> None:
            at, names, subscribers = assignment(reports)
            before = _summary(at)
            due, plan = planned(at, self.settings)
            moves = [
                {"subscriber": subscribers[i], "from": names[source], "to": names[target]}
                for i, (source, target) in plan.moves.items()
            ]
            after = {f"{key}_after": value for key, value in _summary(at).items()}
            self._answer(
                link, command, "ok", {"stage": due, "moves": moves, "ended": plan.ended, **before, **after}
            )

        self._gather(command, now, done)

    def on_set(self, link: Link, command: Command, now: float) -> None:
        given = {key: value for key, value in command.arguments.items() if key != "timeout_s"}
        try:
            changed = msgspec.convert(
                {**msgspec.to_builtins(self.settings), **given}, Balancing, strict=False
            )
        except msgspec.ValidationError as error:
            self._answer(link, command, "usage", {}, str(error))
            return
        if changed.scheme not in SCHEMES:
            self._answer(link, command, "usage", {}, f"scheme is one of {', '.join(SCHEMES)}")
            return
        self.settings = changed
        self._answer(link, command, "ok", {"settings": msgspec.to_builtins(changed)})

    def on_apply(self, link: Link, command: Command, now: float) -> None:
        text = (
            "subscribers cannot be moved yet: their handover is not there; `balance plan` shows who would go"
        )
        self._answer(link, command, "failed", {}, text)

    def status(self) -> Status:
        return {"rates": len(self.rates)}


def assignment(reports: list[Report]) -> tuple[Assignment, list[str], list[str]]:
    """Loads of all brokers; the names of brokers and of subscribers by number. A result that several brokers
    pull has one rate: the greatest that one of them has seen."""
    rates: dict[str, float] = {}
    for report in reports:
        for be, rate in report["rates"].items():
            rates[be] = max(rates.get(be, 0.0), float(rate))
    numbers: dict[str, int] = {be: number for number, be in enumerate(sorted(rates))}
    subscribers, wanted, home = [], [], []
    for broker, report in enumerate(reports):
        for name, mine in sorted(report["subscribers"].items()):
            subscribers.append(name)
            wanted.append([numbers.setdefault(be, len(numbers)) for be in mine])
            home.append(broker)
    values = np.zeros(max(len(numbers), 1))
    for be, number in numbers.items():
        values[number] = rates.get(be, 0.0)
    at = Assignment.of(max(len(reports), 1), values.tolist(), wanted, home)
    return at, [str(report["name"]) for report in reports], subscribers


def planned(at: Assignment, settings: Balancing) -> tuple[str, Plan]:
    """One round; `at` becomes what it leads to."""
    thresholds = Thresholds(settings.alpha, settings.beta, settings.gamma, settings.theta)
    due = stage(at.loads, thresholds)
    if due == "shuffle":
        return due, shuffle(at, settings.keep if settings.keep >= 0 else None)
    if due == "migrate":
        most = settings.moves or max(MOVES_FOR_TEN * at.brokers // 10, 1)
        scheme = "SDM" if settings.scheme == "SDM" else "LDM"
        return due, migrate(at, settings.alpha, settings.beta, scheme, most)  # type: ignore[arg-type]
    return due, Plan({}, 0, "balanced")


def _summary(at: Assignment) -> dict[str, float]:
    return {
        "cov": round(variation(at.loads), 4),
        "mean_bytes_s": round(float(at.loads.mean()), 1),
        "max_bytes_s": round(float(at.loads.max()), 1),
    }
