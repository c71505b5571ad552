"""How fast is matching? `uv run --group bench python -m bench.matching --workload bluedove --subs 40000`

--mode match         our index, our scan, rtree and sqlite's R*Tree, interleaved, the median of five rounds
--mode growth        our index from 1,000 subscriptions up to --subs, on all workloads
--mode churn         100,000 inserts and removes, against a fresh index
--mode anchors       which of 45 anchors match, against listing the subscriptions
--mode deliveries    labels by client, at 1 and at 100 clients
--mode adversarial   what one filter of a stranger can cost
Data is generated; --data DIR (or GRAPEVINE_DATA) takes DIR/quotes_lowsel for the workload `quotes`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bench import matching_runs as runs
from bench.matching_workloads import WORKLOADS

Row = dict[str, Any]
MODES: dict[str, Callable[[str, int, Path | None], list[Row]]] = {
    "match": runs.match,
    "growth": runs.growth,
    "churn": runs.churn,
    "anchors": runs.anchors,
    "deliveries": runs.deliveries,
    "adversarial": runs.adversarial,
}


@click.command(help=__doc__)
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="bluedove", show_default=True)
@click.option("--subs", type=click.IntRange(1), default=40_000, show_default=True)
@click.option("--mode", type=click.Choice(list(MODES)), default="match", show_default=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True), default=None)
@click.option("-o", "--output", type=click.Choice(["json", "table"]), default="table", show_default=True)
def main(workload: str, subs: int, mode: str, data: Path | None, output: str) -> None:
    if data is None and os.environ.get("GRAPEVINE_DATA"):
        data = Path(os.environ["GRAPEVINE_DATA"])
    rows = MODES[mode](workload, subs, data)
    if output == "json":
        json.dump({"schema": "bench.matching/1", "mode": mode, "rows": rows}, sys.stdout, indent=1)
        print()
    else:
        print(table(rows))


def table(rows: list[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *lines)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in [names, *lines]
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return (
        f"{value:,.1f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


if __name__ == "__main__":
    main()
