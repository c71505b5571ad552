"""A one-hop cluster of our own daemons: two matchers and the dispatcher that all clients attach to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.systems.grapevine import Grapevine

MATCHERS = 2


class OneHop(Grapevine):
    def __init__(self, dimensions: list[str], **sections: dict[str, Any]) -> None:
        super().__init__("one-hop", MATCHERS + 1, overlay={"kind": "onehop"}, **sections)
        self.dimensions = dimensions

    def start(self, directory: Path) -> None:
        self.processes, self.addresses = [], []
        for number in range(self.brokers):
            role = "matcher" if number < MATCHERS else "dispatcher"
            self.sections["onehop"] = {"dimensions": self.dimensions, "seeds": self.addresses[:1]}
            self._start_one(directory, number, roles=[role])
        del self.addresses[:-1]  # clients know the dispatcher only
