"""What one sees of the demo while it runs: a bar, the numbers, and the brokers. On stderr.

Where stderr is no terminal, a line per step and now and then the numbers.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tools.pubctl.invocation import Invocation
from tools.pubctl.output import count

EVERY_S = 2.0


class Live:
    def __init__(self, invocation: Invocation, total: int) -> None:
        self.invocation = invocation
        self.total = total
        self._shown = sys.stderr.isatty() and not invocation.quiet
        self._progress = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[said]}"),
        )
        self._task = self._progress.add_task("", total=1, said="")
        self._brokers: list[dict[str, Any]] = []
        self._last = (time.monotonic(), 0, 0)
        self._rates = (0.0, 0.0)
        console = Console(stderr=True, no_color=invocation.color is False)
        self._screen = Screen(
            console=console, get_renderable=self._picture, refresh_per_second=8, transient=True
        )

    def __enter__(self) -> Live:
        if self._shown:
            self._screen.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._screen.stop()

    def step(self, what: str, total: int) -> None:
        self._progress.reset(self._task, total=total, description=what, said="")
        if not self._shown:
            self.invocation.say(f"{what} ...")

    def advance(self, name: str) -> None:
        self._progress.update(self._task, advance=1, said=name)

    def numbers(self, sent: int, received: int, brokers: list[dict[str, Any]]) -> None:
        now = time.monotonic()
        at, sent_before, received_before = self._last
        if now - at >= (1.0 if self._shown else EVERY_S):
            seconds = now - at
            self._rates = ((sent - sent_before) / seconds, (received - received_before) / seconds)
            self._last = (now, sent, received)
            if not self._shown:
                self.invocation.say("  " + self._said(sent, received))
        self._brokers = brokers
        self._progress.update(self._task, completed=sent, said=self._said(sent, received))

    def _said(self, sent: int, received: int) -> str:
        in_s, out_s = self._rates
        return (
            f"{count(sent)} published ({count(round(in_s))}/s), "
            f"{count(received)} delivered ({count(round(out_s))}/s)"
        )

    def _picture(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("broker", "parent", "clients", "subs", "accepted", "forwarded", "delivered", "cpu"):
            table.add_column(heading, justify="left" if heading in ("broker", "parent") else "right")
        for row in self._brokers:
            cpu = row.get("measured", {}).get("cpu")
            table.add_row(
                row["name"],
                row.get("parent") or "-",
                *(
                    count(row[key])
                    for key in ("clients", "subscriptions", "accepted", "forwarded", "delivered")
                ),
                "-" if cpu is None else f"{100 * cpu:.0f} %",
            )
        return Group(self._progress, table) if self._brokers else Group(self._progress)
