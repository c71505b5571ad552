"""A simulated overlay as a source: the brokers' own code on a virtual clock, in a process of its own.

That process runs the simulator at the pace of the wall clock and writes the lines of a recording into a pipe;
the page process reads them like one. So a thousand brokers cost the page what a thousand real ones would.
"""

from __future__ import annotations

import subprocess
import sys
from typing import IO

from tools.web.model import SourceState
from tools.web.source_replay import ReplaySource


class SimulatorSource(ReplaySource):
    kind = "simulator"

    def __init__(self, scenario: str, seed: int, brokers: int | None, every_s: float) -> None:
        words = [sys.executable, "-m", "tools.web.simulated", scenario, "--seed", str(seed)]
        words += ["--every", str(every_s)]
        if brokers is not None:
            words += ["--brokers", str(brokers)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE)
        out: IO[bytes] | None = self._process.stdout
        assert out is not None
        super().__init__(iter(out.readline, b""), f"{scenario}, seed {seed}", speed=0.0)
        self.state = SourceState("slow", self.name, 0.0, "the simulation starts", self.kind)

    def _read_ahead(self) -> None:
        """A pulse is written last: what belongs to it came before."""

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(5)
