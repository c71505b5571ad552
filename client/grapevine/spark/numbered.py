"""Publishing by number: a task is the publisher (query, partition), a row's number is (batch, row).

The incarnation comes from the query, so a second run of the task is the same publisher to every broker; its
first broker has noted on disk how far the first run came, and the rows up to there are left out.
"""

from __future__ import annotations

import grapevine
from grapevine.client.sync import Client
from grapevine.errors import NotAllowed, Undelivered
from grapevine.spark.connection import tell
from grapevine.spark.feeding import FeedLink
from grapevine.spark.options import WriteOptions, client_keys
from grapevine.spark.rows import Row
from grapevine.wire.identity import identify

WINDOW = 8_192  # many tasks share the broker's links, and a link that is down must not overflow
ROW_BITS = 32  # of a sequence number; the batch is above them


class Numbered:
    def __init__(self, options: WriteOptions, link: FeedLink, name: str, query: str, batch: int) -> None:
        self.options = options
        self.link = link
        self.name = name
        self.incarnation = identify(query)
        self._sequence = (batch + 1) << ROW_BITS
        self._client: Client | None = None
        self._settled = 0

    def __enter__(self) -> Numbered:
        try:
            self._open()
        except BaseException:
            self._close(0)
            raise
        return self

    def _open(self) -> None:
        options = self.options
        self._settled = self.link.note(self.name, self.incarnation)
        self._client = grapevine.connect(
            options.brokers,
            name=self.name,
            incarnation=self.incarnation,
            publish_window=WINDOW,
            keys=client_keys(options.keys),
            timeout=options.timeout_s,
        )
        self._client.advertise(options.advertisement, timeout=options.timeout_s)

    def _close(self, timeout_s: float) -> None:
        if self._client is not None:
            self._client.close(timeout_s)
        self.link.close()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._close(0 if error is not None else self.options.timeout_s)

    def publish(self, rows: list[Row]) -> None:
        client = self._client
        assert client is not None
        known = self._settled - self._sequence
        if known > 0:
            self._sequence += min(known, len(rows))
            rows = rows[known:]
        client.publish_packed(rows, self._sequence + 1)
        self._sequence += len(rows)

    def finish(self) -> None:
        """Returns when every row is settled and the broker has noted that on its disk."""
        client = self._client
        assert client is not None
        try:
            client.flush(until="settled")
        except (Undelivered, NotAllowed) as error:
            tell(f"{self.name}: {error}")
        self.link.note(self.name, self.incarnation)
