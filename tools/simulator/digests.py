"""`python -m tools.simulator digests`: what every shipped scenario does for some seeds, a line each.

Two trees that print the same did the same: `diff` of the two outputs names the first scenario and seed that
changed. Lines go to standard output as they come, in one order whatever the number of processes; the time
they took goes to standard error, so that nothing but behaviour is compared.

Shipped sizes take too long for a look after every commit, so `--size small` bounds what a scenario draws
and how long its load lasts; faults, filters and settings stay those of the scenario.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from hashlib import blake2b
from time import perf_counter

import click
import msgspec

from tools.simulator.result import Result
from tools.simulator.scenario import Load, Scenario, ScenarioError, Span, Whole, find, shipped
from tools.simulator.seeds import Seeds, shown, simulate

# `small`: at most so many of each, and so many seconds of load.
BROKERS = 12
PUBLISHERS = 4
SUBSCRIBERS = 8
BURST = 8
SECONDS = 10.0


def bounded(span: Whole, most: int) -> Whole:
    if isinstance(span, int):
        return min(span, most)
    low, high = span
    return min(low, most), min(high, most)


def small(scenario: Scenario) -> Scenario:
    replace = msgspec.structs.replace
    brokers, clients, load = scenario.brokers, scenario.clients, scenario.load
    return replace(
        scenario,
        seconds=min(scenario.seconds, SECONDS),
        brokers=replace(brokers, count=bounded(brokers.count, BROKERS)),
        clients=replace(
            clients,
            publishers=bounded(clients.publishers, PUBLISHERS),
            subscribers=bounded(clients.subscribers, SUBSCRIBERS),
        ),
        load=replace(load, burst=bounded(load.burst, BURST)),
    )


def work(scenario: Scenario) -> float:
    """Publications times brokers, roughly: the quick ones go first."""
    publishers = _largest(scenario.clients.publishers)
    return scenario.seconds * publishers * _rate(scenario.load) * _largest(scenario.brokers.count)


def _largest(span: Whole) -> int:
    return span if isinstance(span, int) else span[1]


def _rate(load: Load) -> float:
    every_s: Span = load.every_s
    return _largest(load.burst) / (every_s[0] if isinstance(every_s, tuple) else every_s)


def line(result: Result) -> str:
    verdict = "ok" if result.ok else f"BAD {result.violation_count}"
    return f"{result.scenario} {result.seed} {result.digest} {result.messages} messages {verdict}"


def _simulate(codec: bool | None, run: tuple[Scenario, int]) -> Result:
    scenario, seed = run
    return simulate(scenario, "", codec, seed)


def results(scenarios: list[Scenario], seeds: range, codec: bool | None, jobs: int) -> Iterator[Result]:
    runs = [(scenario, seed) for scenario in scenarios for seed in seeds]
    if jobs == 1:
        yield from map(partial(_simulate, codec), runs)
    else:
        with ProcessPoolExecutor(jobs) as pool:
            yield from pool.map(partial(_simulate, codec), runs)


def chosen(names: tuple[str, ...], size: str) -> list[Scenario]:
    scenarios = [find(name) for name in names or shipped()]
    if size == "small":
        scenarios = [small(scenario) for scenario in scenarios]
    return sorted(scenarios, key=work)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Next: the same in another tree, then diff; a BAD line again: run SCENARIO --size small --seed N",
)
@click.argument("scenarios", nargs=-1)
@click.option("--seed", "--seeds", "seeds", type=Seeds(), default=range(20), help="5, or 0:20 (the default).")
@click.option("--size", type=click.Choice(["small", "shipped"]), default="small", show_default=True)
@click.option("--codec/--no-codec", default=None, help="Every message through its bytes: the digests stay.")
@click.option("--jobs", default=1, show_default=True, help="Processes.")
def command(scenarios: tuple[str, ...], seeds: range, size: str, codec: bool | None, jobs: int) -> None:
    """Print the digest of SCENARIOS (every one that ships) for some seeds, and one for all of them."""
    began = perf_counter()
    try:
        runs = chosen(scenarios, size)
    except ScenarioError as error:
        raise click.UsageError(str(error)) from None
    together = blake2b(digest_size=16)
    bad = 0
    for result in shown(results(runs, seeds, codec, jobs), len(runs) * len(seeds)):
        text = line(result)
        together.update(text.encode())
        bad += not result.ok
        click.echo(text)
    click.echo(f"all {together.hexdigest()} {len(runs)} scenarios {len(seeds)} seeds {bad} bad")
    print(f"{perf_counter() - began:.0f} s", file=sys.stderr)
