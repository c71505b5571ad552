"""SPEC A1: datasets that publications feed: a subscriber inside the back end writes what comes to a log.

What it has taken is settled when it is on disk: a publisher that was told "settled" finds its row in every
later execution. A row that is sent again, also after a restart, is recognised by its publisher's last number.
"""

from __future__ import annotations

from collections.abc import Callable

from grapevine.filters import parse
from grapevine.wire.catalog import Dataset
from grapevine.wire.driving import FedRow
from grapevine.wire.identity import identify
from grapevine.wire.messages import PROTOCOL, PROTOCOL_OLDEST, Attach, Publication
from overlay.behaviour import Quiet, Status
from overlay.channels.dataset_log import DatasetLog, DatasetLogError
from overlay.channels.store import Store
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.router import Registry, Router
from overlay.gather import Gather

TAKEN = 1 << 30  # publications that the log takes unsettled: it settles in the same burst
NUMBER_BYTES = 4


class Feeder(Client):
    """Its deliveries go to `taken` instead of to a link."""

    __slots__ = ("_taken",)

    def __init__(
        self, core: Core, name: str, taken: Callable[[list[Publication], list[bytes]], bool], now: float
    ):
        attach = Attach(PROTOCOL_OLDEST, PROTOCOL, name, identify(name), core.incarnation, 1, 0, 0)
        super().__init__(core, attach, lambda client: None, now)
        self._taken = taken
        self.deliveries.begin(TAKEN)
        self.deliveries.limit = TAKEN

    def flush(self) -> None:
        deliveries = self.deliveries
        most = self.core.settings.links.batch_publications
        deliveries.seal(most)
        publications: list[Publication] = []
        ids: list[bytes] = []
        for chunk in deliveries.take(most):
            publications += chunk.publications
            ids += chunk.ids
        if publications and self._taken(publications, ids):
            here = deliveries.sent - deliveries.base
            deliveries.marked(here, here, here + TAKEN)


class Feeds(Quiet):
    name = "datasets"
    after = ("Attachments",)

    def __init__(self, store: Store, registry: Registry, router: Router) -> None:
        self.store = store
        self.registry = registry
        self.router = router
        self.arrived: Callable[[str, float], None] = lambda dataset, now: None
        self.fed = 0
        self._numbers: dict[int, str] = {}  # of subscriptions -> dataset
        self._last: dict[str, dict[tuple[int, int], int]] = {}  # dataset -> publisher -> its last number
        self._filters: dict[str, str] = {}
        self._number = 0

    def attach(self, core: Core) -> None:
        self.core = core

    def start(self, now: float) -> None:
        """Before any neighbour is met: what is published from then on is owed."""
        self.client = Feeder(self.core, f"datasets/{self.core.name}", self._take, now)
        self.core.clients[self.client.id] = self.core.numbered[self.client.number] = self.client
        for dataset in self.store.catalog.datasets.values():
            self.begin(dataset, now)

    def begin(self, dataset: Dataset, now: float, confirmed: Callable[[float], None] | None = None) -> None:
        """Subscribe for a dataset, or anew if its filter is another now; `confirmed` when every broker that
        must know does."""
        before = [number for number, name in self._numbers.items() if name == dataset.name]
        if not dataset.fed or (before and self._filters[dataset.name] == dataset.filter):
            if confirmed is not None:
                confirmed(now)
            return
        self._filters[dataset.name] = dataset.filter
        if not before:
            self._last[dataset.name] = last_numbers(self.store.log, dataset.name)
        self._number += 1
        self._numbers[self._number] = dataset.name
        gather = Gather(lambda gather, later: confirmed(later) if confirmed is not None else None)
        key = self.registry.subscribe(self.client, parse(dataset.filter), self._number, gather, now)
        self.client.subscriptions[self._number] = key
        gather.start(now)
        for number in before:
            del self._numbers[number]
            self.registry.unsubscribe(self.client, self.client.subscriptions.pop(number), now)

    def end(self, dataset: str, now: float) -> None:
        for number, name in list(self._numbers.items()):
            if name == dataset:
                del self._numbers[number]
                self.registry.unsubscribe(self.client, self.client.subscriptions.pop(number), now)
        self._last.pop(dataset, None)
        self._filters.pop(dataset, None)
        self.store.log.drop(dataset)

    def _take(self, publications: list[Publication], ids: list[bytes]) -> bool:
        """What came for each dataset, on disk; False if that cannot be, and then this broker stops."""
        rows: dict[str, list[FedRow]] = {}
        for publication, numbers in zip(publications, ids):
            row = self._row(publication)
            for at in range(0, len(numbers), NUMBER_BYTES):
                dataset = self._numbers.get(int.from_bytes(numbers[at : at + NUMBER_BYTES], "little"))
                if dataset is not None and self._is_new(dataset, row):
                    rows.setdefault(dataset, []).append(row)
        try:
            for dataset, found in rows.items():
                self.store.log.append(dataset, found)
                self.fed += len(found)
            self.store.log.sync()
        except DatasetLogError as error:
            self.core.out.fatal = f"datasets cannot be written: {error}"
            return False
        for dataset in rows:
            self.arrived(dataset, self.core.now)
        return True

    def _row(self, publication: Publication) -> FedRow:
        known = self.router.introduction(publication.publisher)
        return FedRow(
            publication.publisher,
            publication.incarnation,
            publication.sequence,
            known.publisher_name if known is not None else "",
            publication.accepted_at,
            bytes(publication.attributes),
            bytes(publication.payload),
        )

    def _is_new(self, dataset: str, row: FedRow) -> bool:
        last, source = self._last[dataset], (row.publisher, row.incarnation)
        if row.sequence <= last.get(source, 0):
            return False
        last[source] = row.sequence
        return True

    def status(self) -> Status:
        log = self.store.log
        names = [dataset.name for dataset in self.store.catalog.datasets.values() if dataset.fed]
        return {"fed": self.fed, "datasets": {name: [log.start(name), log.end(name)] for name in names}}


def last_numbers(log: DatasetLog, dataset: str) -> dict[tuple[int, int], int]:
    """Of the publishers whose rows are still kept."""
    found: dict[tuple[int, int], int] = {}
    after = log.start(dataset) - 1
    while rows := log.read(dataset, after, log.end(dataset), 1 << 20):
        for read in rows:
            source = (read.row.publisher, read.row.incarnation)
            found[source] = max(found.get(source, 0), read.row.sequence)
        after = rows[-1].position
    return found
