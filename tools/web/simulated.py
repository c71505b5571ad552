"""A simulation at the pace of the wall clock, told as the lines of a recording on stdout.

    python -m tools.web.simulated softlinks --seed 7 --brokers 100

The brokers are the real ones; what they say of themselves is asked of each directly, so that a look does not
disturb the run. Measurements of a process (load, memory) do not exist on a virtual clock: they are null.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import msgspec

from overlay.administration.pulse import Pulse
from overlay.administration.reports import Ask, Reports
from overlay.core import Core
from overlay.relocate.relocation import Relocation
from tools.simulator.scenario import Scenario, find
from tools.simulator.simulation import Simulation
from tools.simulator.tables import behaviour
from tools.web.model import Look
from tools.web.source_replay import Line

ENCODER = msgspec.json.Encoder()


class Told:
    """What has been written so far."""

    def __init__(self) -> None:
        self.generations: dict[str, tuple[int, int]] = {}
        self.events: dict[str, tuple[int, int]] = {}
        self.seen: dict[str, None] = {}


def adjusted(scenario: Scenario, brokers: int | None) -> Scenario:
    """With as many brokers as asked; nobody judges it here."""
    replace = msgspec.structs.replace
    changed = replace(scenario, validate_every=0, judge_every=1_000_000)
    return changed if brokers is None else replace(changed, brokers=replace(changed.brokers, count=brokers))


def lines(simulation: Simulation, told: Told, wall: float) -> list[Line]:
    """Events and, if it changed, the overlay; then the pulse they belong to."""
    cores: dict[str, Core] = {b.name: b.core for b in simulation.brokers if b.core is not None}
    told.seen |= dict.fromkeys(cores)
    beats: list[Any] = []
    reports, events, answers = [], [], []
    shape_changed = False
    for name, core in cores.items():
        pulse = behaviour(core, Pulse)
        pulse.census.asked_at = wall
        row = pulse.row()
        beats.append(row)
        if told.generations.get(name) != (core.incarnation, row[4]):
            told.generations[name] = (core.incarnation, row[4])
            shape_changed = True
        incarnation, last = told.events.get(name, (core.incarnation, 0))
        since = last if incarnation == core.incarnation else 0
        news = core.events.since(since)
        events += [{"broker": name, **happened.row(), "t_ms": round(wall * 1000)} for happened in news]
        told.events[name] = (core.incarnation, core.events.last)
        relocation = behaviour(core, Relocation)
        answers += [relocation.row(client) for client in core.clients.values() if client.advertisements]
    if shape_changed:
        for core in cores.values():
            said = behaviour(core, Reports)
            reports.append(
                {"id": core.id, "name": core.name, "incarnation": core.incarnation, **said.topology(Ask())}
            )
    missing = [name for name in told.seen if name not in cores]
    look = Look(next(iter(cores), ""), round(wall * 1000), beats, missing, [])
    found = []
    if shape_changed:
        found.append(Line(wall, "overlay", rows=reports))
    if events:
        found.append(Line(wall, "events", rows=events))
    body: dict[str, Any] = {"publishers": answers, "algorithms": {}, "moved": 0}
    found.append(Line(wall, "answer", verb="relocate.show", body=body))
    found.append(Line(wall, "pulse", look=msgspec.Raw(ENCODER.encode(look))))
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tools.web.simulated", description=__doc__.splitlines()[0])
    parser.add_argument("scenario")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of the wall clock")
    parser.add_argument("--fast", action="store_true", help="as fast as it goes, for a recording")
    options = parser.parse_args(arguments)
    simulation = Simulation(adjusted(find(options.scenario), options.brokers), options.seed)
    simulation.start()
    told, again_at = Told(), 0.0
    began, wall0, looks = time.monotonic(), time.time(), 0
    while looks * options.every < options.seconds:
        looks += 1
        if looks * options.every >= again_at:  # the faults of the scenario come again and again
            simulation.faults.schedule(simulation.scenario.faults, simulation.scenario.seconds)
            again_at += simulation.scenario.seconds
        simulation.world.run(looks * options.every)
        for line in lines(simulation, told, wall0 + looks * options.every):
            sys.stdout.buffer.write(ENCODER.encode(line) + b"\n")
        sys.stdout.buffer.flush()
        if not options.fast:
            time.sleep(max(0.0, began + looks * options.every - time.monotonic()))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
