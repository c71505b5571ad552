"""`python -m tests.model WORLD`: explore a model with all its rules, in one process, with a bar.

WORLD is loss, relocation, edges, crashes or join; `--states` says how many distinct states, `--seed` where
walks begin. Exit 1 and a short counterexample if a property breaks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
from rich.console import Console
from rich.progress import Progress

from tests.model import join
from tests.model.edges import events as edge_events
from tests.model.edges import world as edges
from tests.model.explorer import Event, Found, Make, shrink, walk
from tests.model.ownership import events as ownership_events
from tests.model.ownership import world as ownership
from tests.model.ownership.properties import come_to_rest

CHAIN = (None, 0, 1)
FORK = (None, 0, 1, 1)


def owned(relocations: int) -> tuple[Make, dict[str, float], list[Event]]:
    limits = ownership.Limits(faults=3, relocations=relocations)
    start: list[Event] = []
    come_to_rest(ownership.World(CHAIN, 0, (2,), ownership.Limits(0, 0, 0)), None, start)
    return lambda: ownership.World(CHAIN, 0, (2,), limits), ownership_events.WEIGHTS, start


def changing(crashes: int) -> tuple[Make, dict[str, float], list[Event]]:
    limits = edges.Limits(changes=2, breaks=2, crashes=crashes)
    return lambda: edges.World(FORK, 0, (2, 3), limits), edge_events.WEIGHTS, []


WORLDS: dict[str, Callable[[], tuple[Make, dict[str, float], list[Event]]]] = {
    "loss": lambda: owned(0),
    "relocation": lambda: owned(2),
    "edges": lambda: changing(0),
    "crashes": lambda: changing(1),
}


@click.command()
@click.argument("world", type=click.Choice([*WORLDS, "join"]))
@click.option("--states", default=1_000_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(world: str, states: int, seed: int) -> None:
    """Explore one of the models."""
    if world == "join":
        count, trail = join.explore(4, 3)
        said = "no cycle, one change at a time" if trail is None else "wrong: " + " ; ".join(trail)
        print(f"{count} states, all of them: {said}")
        calm, trapped = join.stuck(3, 3)
        print(
            f"{calm} states without a fault left: "
            + (f"stuck: {trapped}" if trapped else "a tree is reached")
        )
        sys.exit(trail is not None or trapped is not None)
    make, weights, start = WORLDS[world]()
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(world, total=states)

        def seen(found: Found) -> None:
            progress.update(task, completed=len(found.states))

        found = walk(make, weights, states=states, seed=seed, start=start, progress=seen)
    if found.violation is not None:
        found.trace = shrink(make, found.trace, found.violation.what) or found.trace
    print(found.sentence())
    sys.exit(found.violation is not None)


if __name__ == "__main__":
    main()
