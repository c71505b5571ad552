"""Who has copies of a broker's custody, and who publishes them when its disk is lost (DP-D3).

`broker forget NAME`: an administrator declares the disk lost. Whoever has the newest whole copy publishes it;
older copies go. Refused while the broker is there, and where nobody keeps anything for it.

A broker that comes back asks by the same question whether that has happened. One that comes back with an
empty disk has its copies published wherever they are; a neighbour gives them back itself (copying.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from grapevine.wire.identity import identify
from grapevine.wire.keeping import KeptUpTo
from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.journal.copying import Copying
from overlay.journal.keeper import Keeper
from overlay.journal.regaining import SERIAL_BITS
from overlay.links.session import Link

LOOK, TAKE = "copies", "copies-take"
DEADLINE_S = 5.0
SWEEP = 2  # times lost_after_s
SEEK_MOST_S = 3_600.0  # between two questions of a broker whose journal is new
Say = Callable[[str, Report, str], None]  # outcome, body, text


class Order(msgspec.Struct, frozen=True):
    """The argument of "copies-take": `keeper` publishes what it has of `owner`, others drop older copies."""

    owner: str
    keeper: str
    round: int
    by_owner: bool = False  # whose journal is new


class Forgetting(Quiet):
    after = ("Keeper",)

    def __init__(self, census: Census, keeper: Keeper, copying: Copying) -> None:
        self.census = census
        self.keeper = keeper
        self.copying = copying
        copying.regaining.inquire = self.inquire
        census.reporters[LOOK] = self._kept
        census.reporters[TAKE] = self._take

    def attach(self, core: Core) -> None:
        self.core = core
        core.on_command("broker.forget", self.on_forget)

    def start(self, now: float) -> None:
        self._sweep_later(now)
        if self.copying.regaining.is_new:
            self._seek_later(self.core.settings.links.lost_after_s, now)

    # --- one broker ---------------------------------------------------------------------------------

    def _kept(self, argument: bytes) -> Report:
        owner = identify(argument.decode(errors="replace"))
        copied = self.keeper.kept_for(owner)
        report = {**self.census.brief(), "alive": self.keeper.alive(owner)}
        if owner == self.core.id:
            report["complete"] = self.copying.complete
        if copied is not None:
            report |= {
                "publications": copied.custody.items,
                "publishers": len(copied.custody.held),
                "round": copied.round,
                "taken": self.keeper.taken_of(owner),
            }
        return report

    def _take(self, argument: bytes) -> Report | None:
        try:
            order = msgspec.json.decode(argument, type=Order)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        owner, now = identify(order.owner), self.census.asked_at
        copied = self.keeper.kept_for(owner)
        if copied is None or self.keeper.alive(owner) or not copied.custody.items:
            return None
        if order.keeper == self.core.name and copied.round == order.round:
            return {**self.census.brief(), "taken": self.keeper.take_over(owner, now)}
        if copied.round < order.round:
            self.keeper.drop(owner)
        return None

    # --- the whole overlay --------------------------------------------------------------------------

    def on_forget(self, link: Link, command: Command, now: float) -> None:
        name = str(command.arguments.get("name") or "")

        def say(outcome: str, body: Report, text: str) -> None:
            if self.core.links.get(link.number) is link:
                self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)

        if name:
            self.forget(name, bool(command.arguments.get("dry_run")), say, now)
        else:
            say("usage", {}, "broker.forget needs 'name'")

    def forget(self, name: str, dry_run: bool, say: Say, now: float) -> None:
        def looked(reports: list[Report], later: float) -> None:
            missing = [r["name"] for r in reports if r.get("missing") and r["name"] != name]
            if any(r.get("alive") for r in reports):
                text = f"{name} is there, and publishes what it has itself; stop it if its disk is lost"
                say("failed", {}, text)
                return
            keeping = [r for r in reports if r.get("publications")]
            if not keeping:
                say("not-found", {"missing": missing}, _nobody(name, missing))
                return
            newest = max(keeping, key=lambda r: int(r["round"]))
            row = {key: newest[key] for key in ("publications", "publishers")}
            row |= {"asked": self.core.name, "broker": name, "keeper": newest["name"], "missing": missing}
            if dry_run:
                say("partial" if missing else "ok", {**row, "outcome": "would be published"}, "")
            else:
                self._order(Order(name, newest["name"], newest["round"]), row, say, later)

        self.census.ask(LOOK, None, now, looked, name.encode(), DEADLINE_S)

    def _order(self, order: Order, row: Report, say: Say, now: float) -> None:
        def taken(reports: list[Report], later: float) -> None:
            found = [r["taken"] for r in reports if "taken" in r]
            if found:
                say("ok", {**row, "publications": found[0], "outcome": "published"}, "")
            else:
                say("not-found", row, f"{order.keeper} has not taken over from {order.owner}: ask again")

        self.census.ask(TAKE, None, now, taken, msgspec.json.encode(order), DEADLINE_S)

    # --- a broker about itself ------------------------------------------------------------------------

    def inquire(self, now: float) -> None:
        """Has anybody taken over what we had?"""

        def done(reports: list[Report], later: float) -> None:
            answered = {str(r["name"]) for r in reports if not r.get("missing")}
            taken = [one for r in reports for one in _taken(r)]
            self.copying.regaining.told(answered, taken, later)

        self.census.ask(LOOK, None, now, done, self.core.name.encode(), DEADLINE_S)

    def _seek_later(self, after_s: float, now: float) -> None:
        self.core.timers.at(now + after_s, lambda later: self._seek(after_s, later))

    def _seek(self, after_s: float, now: float) -> None:
        """Our journal is new: was there another, and somebody far away has copies of what was in it?"""

        def done(reports: list[Report], later: float) -> None:
            for r in reports:
                round = r.get("round")
                former = isinstance(round, int) and round >> SERIAL_BITS < self.core.incarnation
                if former and r.get("publications") and not r.get("alive"):
                    order = Order(self.core.name, str(r["name"]), int(r["round"]), by_owner=True)
                    self._order(order, {}, lambda outcome, body, text: None, later)

        if self.core.ready:
            self.census.ask(LOOK, None, now, done, self.core.name.encode(), DEADLINE_S)
        if now - self.core.started_at < self.core.settings.journal.custody_s:
            self._seek_later(min(2 * after_s, SEEK_MOST_S), now)

    # --- copies that are no longer wanted --------------------------------------------------------------

    def _sweep_later(self, now: float) -> None:
        self.core.timers.at(now + SWEEP * self.core.settings.links.lost_after_s, self._sweep)

    def _sweep(self, now: float) -> None:
        """Owners that are no neighbours of ours any more say nothing to us: others may have newer copies."""
        for owner, copied in self.keeper.copies.owners.items():
            if copied.custody.items and not self.keeper.alive(owner):
                self._compare(owner, copied.name, now)
        self._sweep_later(now)

    def _compare(self, owner: int, name: str, now: float) -> None:
        def done(reports: list[Report], later: float) -> None:
            copied = self.keeper.kept_for(owner)
            newest = max((_newest(r) for r in reports), default=0)
            if copied is not None and not self.keeper.alive(owner) and copied.round < newest:
                self.keeper.drop(owner)

        self.census.ask(LOOK, None, now, done, name.encode(), DEADLINE_S)


def _newest(report: Report) -> int:
    rounds = [report.get("round"), report.get("complete")]
    return max((one for one in rounds if isinstance(one, int)), default=0)


def _taken(report: Report) -> Iterator[KeptUpTo]:
    rows: Any = report.get("taken")
    for row in rows if isinstance(rows, list) else ():
        try:
            yield msgspec.convert(row, KeptUpTo)
        except msgspec.MsgspecError:
            continue


def _nobody(name: str, missing: list[str]) -> str:
    if missing:
        return f"nobody who answers keeps anything for {name}; {', '.join(missing[:3])} did not answer"
    return (
        f"nobody keeps anything for {name}: all it had was settled, or its journal.copies is 1; "
        "`pubctl broker ls` names those who are there"
    )
