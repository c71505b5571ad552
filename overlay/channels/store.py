"""Everything that the back end keeps, and what a crash leaves of it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from overlay.channels.catalog import Catalog
from overlay.channels.dataset_log import DatasetLog, MemoryDatasetLog
from overlay.channels.executions import Executions
from overlay.channels.interest import Interest
from overlay.channels.records import Records
from overlay.channels.results import MemoryResults, Results


class Disks(NamedTuple):
    log: DatasetLog
    results: Results


def memory_disks() -> Disks:
    return Disks(MemoryDatasetLog(), MemoryResults())


class Store:
    def __init__(self, disks: Disks, records: Records) -> None:
        self.log, self.results = disks
        self.records = records
        self.catalog = Catalog()
        for key, value in self.records.items():
            if key == "catalog":
                self.catalog = msgspec.msgpack.decode(value, type=Catalog)
        self.interest = Interest(self.records)
        self.executions = Executions(self.catalog, self.interest, self.log, self.results, self.records)

    def note_catalog(self) -> None:
        self.records.put("catalog", msgspec.msgpack.encode(self.catalog))
