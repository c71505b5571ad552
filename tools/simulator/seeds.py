"""Many runs of scenarios: which seeds, in how many processes, with a bar while they last."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import click
import msgspec

from tools.simulator.mutants import mutated
from tools.simulator.result import Result
from tools.simulator.scenario import Scenario
from tools.simulator.simulation import Simulation


def made(scenario: Scenario, seed: int, codec: bool | None) -> Simulation:
    if scenario.kind == "channels":
        from tools.simulator.channels import ChannelSimulation

        return ChannelSimulation(scenario, seed, codec=codec)
    if scenario.kind == "requests":
        from tools.simulator.requesting import RequestSimulation

        return RequestSimulation(scenario, seed, codec=codec)
    return Simulation(scenario, seed, codec=codec)


def simulate(scenario: Scenario, mutant: str, codec: bool | None, seed: int) -> Result:
    """One run; what it raises is a violation like any other."""
    simulation = made(scenario, seed, codec)
    with mutated(mutant):
        try:
            simulation = made(scenario, seed, codec)
            result = simulation.run()
        except Exception as error:
            simulation.oracle.violation(f"raised {type(error).__name__}: {error}")
            result = simulation.result(0.0)
    return msgspec.structs.replace(result, mutant=mutant)


def runs(
    scenario: Scenario, seeds: Iterable[int], mutant: str, codec: bool | None, jobs: int
) -> Iterator[Result]:
    run = partial(simulate, scenario, mutant, codec)
    if jobs == 1:
        yield from map(run, seeds)
    else:
        with ProcessPoolExecutor(jobs) as pool:
            yield from pool.map(run, seeds)


class Seeds(click.ParamType[range]):
    """5 or 0:200."""

    name = "seeds"

    def convert(self, value: str | range, parameter: object, context: object) -> range:
        if isinstance(value, range):
            return value
        first, _, end = value.partition(":")
        try:
            return range(int(first), int(end) if end else int(first) + 1)
        except ValueError:
            self.fail(f"{value!r} is not a seed like 5 or a range like 0:200")


def shown(results: Iterator[Result], count: int) -> Iterator[Result]:
    if count == 1 or not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, "seeds", total=count, console=Console(stderr=True), transient=True)
