"""The question `pulse`: a broker's numbers as one short array, for who looks at all of them each second.

    [name, id, incarnation, t_ms, generation, state, accepted, forwarded, delivered, duplicates, dropped,
     cpu, busy, queue_ms, slowest_ms, backlog, slow, clients, events,
     [[peer, kind, sent, received, bytes_out, bytes_in, unsettled, rtt_ms, gain], ..],
     received, memory_bytes, subscriptions, subscriptions_known]

Counters never fall within an incarnation; t_ms is this broker's own clock, so that a rate is exact however
long the answer took. `generation` counts changes of neighbours, of their kinds and of the parent: who knows
the overlay of that generation need not ask for it again. More fields may follow. A number that is not known
is null: bytes of a single link are not counted.
"""

from __future__ import annotations

from typing import Any

from overlay.administration.census import Census
from overlay.administration.reports import Ask, Reports
from overlay.behaviour import Quiet
from overlay.core import Core

Row = list[Any]
# Of a report: what moves the generation beside its links.
PLACES = ("parent", "segments", "roles", "channels", "member", "position", "successors", "fingers")


class Pulse(Quiet):
    def __init__(self, census: Census, reports: Reports) -> None:
        self.census = census
        self.reports = reports
        self.generation = 0
        self._shape: tuple[Any, ...] = ()
        census.reporters["pulse"] = self._answer

    def attach(self, core: Core) -> None:
        self.core = core

    def _answer(self, argument: bytes) -> Row | None:
        """Whom it is meant for is the first thing in the argument, if it is not meant for all."""
        if argument and argument != self.core.name.encode():
            return None
        return self.row()

    def row(self) -> Row:
        core, reports = self.core, self.reports
        said = reports.broker(Ask())
        measured = core.report
        clients = [client.deliveries for client in core.clients.values()]
        links = [self._link(row) for row in reports.links(Ask())["rows"]]
        self._turn(said, links)
        return [
            core.name,
            core.id,
            core.incarnation,
            round(self.census.asked_at * 1000),
            self.generation,
            said["state"],
            said["accepted"],
            said["forwarded"],
            said["delivered"],
            said["duplicates"],
            reports.dropped_before + sum(d.dropped for d in clients),
            _rounded(measured.get("cpu"), 1, 3),
            _rounded(measured.get("busy"), 1, 3),
            _rounded(measured.get("queue_delay_s"), 1000, 3),
            _rounded(measured.get("slowest_turn_s"), 1000, 3),
            sum(len(d.backlog) for d in clients),
            sum(d.stalled or bool(d.backlog) for d in clients),
            said["clients"],
            core.events.last,
            links,
            said["received"],
            measured.get("memory_bytes"),
            said["subscriptions"],
            said["subscriptions_known"],
        ]

    def _link(self, row: dict[str, Any]) -> Row:
        sent, received, unsettled = row["sent"], row["received"], row["unsettled"]
        kind = row["kind"] if row["state"] != "suspended" else "suspended"
        return [
            row["name"], kind, sent, received, None, None, unsettled, row["round_trip_ms"], row.get("gain"),
        ]  # fmt: skip

    def _turn(self, said: dict[str, Any], links: list[Row]) -> None:
        """Parent, neighbours and their kinds; of other overlays the place on the ring or the segments."""
        said = {**said, "channels": self.reports.channels()}
        place = tuple(repr(said.get(key)) for key in PLACES)
        shape = (*place, *((link[0], link[1]) for link in links))
        if shape != self._shape:
            self._shape = shape
            self.generation += 1


def _rounded(value: float | None, scale: float, digits: int) -> float | None:
    return None if value is None else round(value * scale, digits)
