"""What an administrator sees of streams and may change: `stream ls`, `add`, `show`, `rm`, `parked`.

`ls` asks the whole overlay. The others are for the broker that is asked, which is the stream's home.
"""

from __future__ import annotations

import msgspec

from grapevine.errors import FilterError
from grapevine.filters import parse
from grapevine.filters.printing import to_text
from grapevine.wire.messages import Answer, Command
from overlay.administration.census import Census, Report
from overlay.behaviour import Quiet, Status
from overlay.core import Core
from overlay.gather import Gather
from overlay.journal.contents import Stream
from overlay.journal.streams import LIMITS, Streams
from overlay.links.session import Link

DEADLINE_S = 5.0
QUESTION = "streams"


class StreamCommands(Quiet):
    def __init__(self, census: Census, streams: Streams) -> None:
        self.census = census
        self.streams = streams
        census.reporters[QUESTION] = lambda argument: {**census.brief(), "rows": self._rows()}

    def attach(self, core: Core) -> None:
        self.core = core
        core.on_command("stream.ls", self.on_ls)
        core.on_command("stream.add", self.on_add)
        core.on_command("stream.show", self.on_show)
        core.on_command("stream.rm", self.on_rm)

    def _rows(self) -> list[Status]:
        return [self._row(stream) for stream in self.streams.journal.contents.streams.values()]

    def _row(self, stream: Stream) -> Status:
        row = self.streams.row(stream)
        cursors = row.pop("cursors")
        behind = [row["end"] - 1 - cursor["acknowledged"] for cursor in cursors]
        parked = sum(len(cursor["parked"]) for cursor in cursors)
        filter = f"{to_text(stream.body.filter):.200}"
        return {
            **row,
            "filter": filter,
            "readers": len(cursors),
            "behind": max(behind, default=0),
            "parked": parked,
        }

    def on_ls(self, link: Link, command: Command, now: float) -> None:
        def done(reports: list[Report], later: float) -> None:
            missing = [report["name"] for report in reports if report.get("missing")]
            found = [report for report in reports if "rows" in report]
            body = {"asked": self.core.name, "brokers": found, "missing": missing}
            self._answer(link, command, "partial" if missing else "ok", body)

        self.census.ask(QUESTION, None, now, done, b"", DEADLINE_S)

    def on_add(self, link: Link, command: Command, now: float) -> None:
        """A stream that keeps by its limits, whoever reads it; answered when it is confirmed and on disk."""
        said = command.arguments
        name = str(said.get("name") or "")
        try:
            filter = parse(str(said.get("filter") or ""))
        except FilterError as error:
            self._answer(link, command, "usage", {}, str(error))
            return
        if not name or self.streams.find(name) is not None:
            self._answer(link, command, "usage", {}, f"a stream named {name} is here" if name else "no name")
            return
        if text := self.streams.registry.refusal(filter):
            self._answer(link, command, "usage", {}, text)
            return
        if said.get("dry_run"):
            self._answer(link, command, "ok", {"name": name, "outcome": "would be made"})
            return

        def confirmed(gather: Gather, later: float) -> None:
            last = self.streams.journal.next - 1
            body = {"name": name, "broker": self.core.name, "outcome": "made"}
            self.streams.journal.when_kept(last, lambda _: self._answer(link, command, "ok", body))

        limits = float(said.get("age_s") or 0.0), int(said.get("bytes") or 0)
        key = str(said.get("key") or "")
        self.streams.make(name, filter, link.peer, LIMITS, Gather(confirmed), now, *limits, key)

    def on_show(self, link: Link, command: Command, now: float) -> None:
        """With its readers and what is parked for them."""
        if (stream := self._named(link, command)) is not None:
            row = self.streams.row(stream)
            body = {**row, "broker": self.core.name, "filter": to_text(stream.body.filter)}
            body |= {"age_s": stream.body.age_s, "bytes_most": stream.body.bytes}
            self._answer(link, command, "ok", body)

    def on_rm(self, link: Link, command: Command, now: float) -> None:
        if (stream := self._named(link, command)) is not None:
            row = {"name": stream.body.name, "broker": self.core.name, "readers": len(stream.cursors)}
            if command.arguments.get("dry_run"):
                self._answer(link, command, "ok", {**row, "outcome": "would be removed"})
            else:
                self.streams.end(stream, now)
                self._answer(link, command, "ok", {**row, "outcome": "removed"})

    def _named(self, link: Link, command: Command) -> Stream | None:
        name = str(command.arguments.get("name") or "")
        stream = self.streams.find(name) if name else None
        if stream is None:
            self._answer(link, command, "not-found", {}, f"{self.core.name} has no stream {name}")
        return stream

    def _answer(self, link: Link, command: Command, outcome: str, body: object, text: str = "") -> None:
        if self.core.links.get(link.number) is link:
            self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)
