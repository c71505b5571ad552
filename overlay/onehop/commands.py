"""What an administrator sees of the cluster: `onehop.status`, one row a member, and `onehop.segments`."""

from __future__ import annotations

import msgspec

from grapevine.wire.messages import Answer, Command
from grapevine.wire.onehop import DISPATCHER
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.links.session import Link
from overlay.onehop.asking import Asking
from overlay.onehop.cluster import Cluster
from overlay.onehop.listing import STATES, roles_of
from overlay.onehop.matcher import Matching
from overlay.onehop.placing import Placing
from overlay.onehop.sampling import Sampling
from overlay.onehop.watching import Watching

DEADLINE_S = 5.0
BROAD_MAX = 0.1  # of the subscriptions: above it they lie on every matcher of some dimension too often


class OneHopCommands(Quiet):
    def __init__(
        self,
        census: Census,
        cluster: Cluster,
        placing: Placing,
        asking: Asking,
        watching: Watching,
        sampling: Sampling,
        matching: Matching | None,
    ) -> None:
        self.census, self.cluster, self.placing, self.asking = census, cluster, placing, asking
        self.watching, self.sampling, self.matching = watching, sampling, matching
        census.reporters["onehop"] = self._report

    def attach(self, core: Core) -> None:
        self.core = core
        for verb in ("onehop.status", "onehop.segments"):
            core.on_command(verb, self.on_question)

    def on_question(self, link: Link, command: Command, now: float) -> None:
        def done(reports: list[Report], later: float) -> None:
            members = [report for report in reports if "roles" in report]
            missing = [report["name"] for report in reports if report.get("missing")]
            body = {
                "asked": self.core.name,
                "dimensions": list(self.cluster.table.dimensions),
                "brokers": members,
                "missing": missing,
                "uncovered": self._uncovered(),
                "saturated": any(member.get("saturated") for member in members),
            }
            if self.core.links.get(link.number) is link:
                outcome = "partial" if missing else "ok"
                self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), ""), link)

        self.census.ask("onehop", None, now, done, b"", DEADLINE_S)

    def _uncovered(self) -> list[str]:
        """Dimensions in which some value has no owner; with `placement` other than partition one is used."""
        table = self.cluster.table
        used = len(table.dimensions) if self.core.settings.onehop.placement == "partition" else 1
        return [name for name, gaps in list(zip(table.dimensions, table.uncovered()))[:used] if gaps]

    def _report(self, argument: bytes) -> Report | None:
        entry = self.cluster.own
        report: Report = {
            **self.census.brief(),
            "roles": roles_of(entry.roles),
            "state": STATES[entry.state],
            "version": entry.version,
        }
        if entry.roles & DISPATCHER:
            report |= self._dispatcher()
        if self.matching is not None:
            report |= self._matcher(self.matching)
        return report

    def _dispatcher(self) -> Report:
        placed, asked = self.placing.status(), self.asking.status()
        count = placed["count"]
        return {
            "subscriptions": count,
            "copies_each": round(placed["copies_each"], 2),
            "broad_share": round(placed["broad"] / count, 3) if count else 0.0,
            "too_broad": bool(count) and placed["broad"] > BROAD_MAX * count,
            "asked": asked["asked"],
            "asked_again": asked["asked_again"],
            "waiting": asked["waiting"],
            "response_ms": round(asked["response_ms"], 3),
            "saturated": self.watching.saturated,
        }

    def _matcher(self, matching: Matching) -> Report:
        load, status = matching.load(), matching.status()
        return {
            "segments": status["segments"],
            "copies": status["copies"],
            "answered": status["answered"],
            "refused_positions": status["refused"],
            "taking": status["taking"],
            "spares": matching.sets.spares,
            "busy": round(load.busy, 3),
            "backlog_s": round(load.backlog_s, 4),
            "arrivals_s": {
                name: round(of.arrivals, 1) for name, of in zip(matching.dimensions, load.dimensions)
            },
            "covered": {
                name: round(self.sampling.covered(dimension), 3)
                for dimension, name in enumerate(matching.dimensions)
            },
        }
