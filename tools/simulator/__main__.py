"""`python -m tools.simulator run SCENARIO`: one seed or many, a line each, JSON for programs; `digests`."""

from __future__ import annotations

import sys
from collections import Counter

import click
import msgspec

from tools.simulator import digests
from tools.simulator.mutants import MUTANTS
from tools.simulator.result import Result
from tools.simulator.scenario import ScenarioError, find
from tools.simulator.seeds import Seeds, runs, shown


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Next: --seeds A:B for more of them; docs/simulator.md for scenarios of your own",
)
@click.argument("scenario", default="quick")
@click.option("--seed", "--seeds", "seeds", type=Seeds(), default=range(1), help="5, or 0:200 for many.")
@click.option("--mutant", type=click.Choice(sorted(MUTANTS)), default=None, help="Run with a known mistake.")
@click.option("--until-caught", is_flag=True, help="Stop at the first seed with a violation; succeed if any.")
@click.option("--codec/--no-codec", default=None, help="Every message through its bytes.")
@click.option(
    "--size", type=click.Choice(["small", "shipped"]), default="shipped", help="As `digests` has it."
)
@click.option("--jobs", default=1, show_default=True, help="Processes.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "jsonl"]), default="table")
def command(
    scenario: str,
    seeds: range,
    mutant: str | None,
    until_caught: bool,
    codec: bool | None,
    size: str,
    jobs: int,
    output: str,
) -> None:
    """Run SCENARIO (a name that ships, or a TOML file) and judge it."""
    small = size == "small"
    try:
        chosen = digests.small(find(scenario)) if small else find(scenario)
    except ScenarioError as error:
        raise click.UsageError(str(error)) from None
    results = []
    for result in shown(runs(chosen, seeds, mutant or "", codec, jobs), len(seeds)):
        results.append(result)
        if output == "jsonl":
            click.echo(msgspec.json.encode(result))
        elif output == "table":
            _print(result, small)
        if until_caught and not result.ok:
            break
    if output == "json":
        click.echo(msgspec.json.encode(_together(results, small)))
    elif len(results) > 1 and output == "table":
        _summary(results)
    bad = any(not result.ok for result in results)
    raise SystemExit(0 if bad == until_caught else 1)


def _together(results: list[Result], small: bool) -> Result | dict[str, object]:
    """One run as it is; many as their sums."""
    if len(results) == 1:
        return results[0]
    steps: Counter[str] = Counter()
    crashes: Counter[str] = Counter()
    excused: Counter[str] = Counter()
    for result in results:
        steps.update(result.faults_by_step)
        excused.update(result.excused_by_reason)
        crashes.update(result.crashes_by_step)
    return {
        "schema": "pubctl.sim.runs/1",
        "seeds": len(results),
        "messages": sum(result.messages for result in results),
        "deliveries": sum(result.deliveries for result in results),
        "owed": sum(result.owed for result in results),
        "excused": sum(result.excused for result in results),
        "excused_by_reason": dict(sorted(excused.items())),
        "cut": sum(result.cut for result in results),
        "crying_wolf": sum(result.crying_wolf for result in results),
        "faults_by_step": dict(sorted(steps.items())),
        "crashes_by_step": dict(sorted(crashes.items())),
        "steps_never_crashed": sorted(step for step in steps if not crashes[step]),
        "violations": sum(result.violation_count for result in results),
        "bad_seeds": [result.seed for result in results if not result.ok],
        "replay": [result.replay(small) for result in results if not result.ok],
        "seconds": sum(result.seconds for result in results),
    }


def _print(result: Result, small: bool) -> None:
    verdict = "ok " if result.ok else "BAD"
    click.echo(
        f"{verdict} seed {result.seed}: {result.brokers} brokers, {result.messages} messages, "
        f"{result.deliveries} deliveries, {result.owed} owed ({_excuses(result)}), "
        f"{sum(result.faults.values())} faults, {result.virtual_s:.0f} s in {result.seconds:.1f} s, "
        f"digest {result.digest[:12]}"
    )
    for violation in result.violations[:8]:
        click.echo(f"    {violation}")
    if not result.ok:
        click.echo(f"    replay: {result.replay(small)}")


def _excuses(*results: Result) -> str:
    """How many are missing and may be, and why; how many were named as cut for nothing."""
    reasons: Counter[str] = Counter()
    for result in results:
        reasons.update(result.excused_by_reason)
    listed = ", ".join(f"{reason} {n}" for reason, n in sorted(reasons.items()))
    wolf, cut = sum(result.crying_wolf for result in results), sum(result.cut for result in results)
    return (
        f"{sum(reasons.values())} excused"
        + (f": {listed}" if listed else "")
        + (f"; {wolf} of {cut} cuts cried wolf" if cut else "")
    )


def _summary(results: list[Result]) -> None:
    steps: Counter[str] = Counter()
    for result in results:
        steps.update(result.faults_by_step)
    click.echo("faults by protocol step: " + ", ".join(f"{step} {n}" for step, n in sorted(steps.items())))
    click.echo(f"{sum(result.owed for result in results)} owed, {_excuses(*results)}")
    bad = [result.seed for result in results if not result.ok]
    click.echo(f"{len(results)} seeds, {len(bad)} bad" + (f": {bad}" if bad else ""))


def main(words: list[str] | None = None) -> int:
    """`run` may stand before the scenario, as in `pubctl sim run`; `digests` is a command of its own."""
    words = sys.argv[1:] if words is None else words
    chosen, name = (digests.command, "sim digests") if words[:1] == ["digests"] else (command, "sim run")
    if words[:1] in (["run"], ["digests"]):
        words = words[1:]
    try:
        chosen.main(words, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SystemExit as done:
        return int(done.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
