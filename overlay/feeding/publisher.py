"""A publisher inside the broker: it publishes what a query has staged, as a client would, without a link.

Its name and its incarnation are the query's, and its sequence numbers are (batch, row), so that what this
broker sends again after a restart is recognised wherever it was delivered. It advertises before anything
leaves, keeps to a client's window, and does a bounded piece of work at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grapevine.filters.normal import Filter
from grapevine.wire import WireError, decode_publications
from grapevine.wire.identity import identify
from grapevine.wire.messages import RESENT, Publication, Publish
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.router import Registry
from overlay.gather import Gather

ROW_BITS = 32  # of a sequence number; the batch is above them
STEP = 2_048  # publications of one piece of work
NUMBER = 0  # of its one advertisement


class QueryPublisher:
    """`finished(publisher, now)` is called when everything that `publish` was given is settled."""

    def __init__(
        self,
        core: Core,
        attachments: Attachments,
        registry: Registry,
        query: str,
        name: str,
        finished: Callable[[QueryPublisher, float], None],
    ) -> None:
        self.core = core
        self.attachments = attachments
        self.registry = registry
        self.query = query
        self.name = name
        self.client: Client | None = None
        self.idle_since = 0.0
        self.damaged = 0  # pieces that could not be read
        self._finished = finished
        self._confirmed = False
        self._pieces: Iterator[bytes] | None = None
        self._rows: list[Publication] = []
        self._sequence = 0
        self._skip = 0  # rows that were settled before
        self._before = 0  # position of its client before the first row
        self._flags = 0
        self._working = False

    @property
    def busy(self) -> bool:
        return self._pieces is not None

    def advertise(self, filter: Filter, may_publish: Filter, now: float) -> str:
        """Be there as a publisher of this; why not, if that cannot be."""
        if self.client is not None and not self.client.ended:
            if self.client.advertisements[NUMBER][1] == filter and self.client.may_publish == may_publish:
                return ""
            self.attachments.end(self.client, now)
        id, incarnation = identify(self.name), identify(self.query)
        taken = self.core.clients.get(id)
        if taken is not None:
            return f"a client named {self.name} is attached here"
        if home := self.registry.name_taken(id, incarnation):
            return f"a publisher named {self.name} is at {home}"
        client = self.client = self.attachments.admit_inside(self.name, incarnation, now)
        client.grant(may_publish, client.may_ask)
        self._confirmed = False
        gather = Gather(lambda gather, later: self._confirm(client, later), patient=True)
        key = self.registry.advertise(client, filter, gather, now)
        client.advertisements[NUMBER] = (key, filter)
        client.readvertised()
        gather.start(now)
        return ""

    def _confirm(self, client: Client, now: float) -> None:
        if client is self.client:
            self._confirmed = True
            self.go_on(now)

    @property
    def settled(self) -> int:
        """Rows of what is being published, beyond those that were left out."""
        return self.client.incoming.settled - self._before if self.client is not None else 0

    def publish(self, batch: int, pieces: Iterator[bytes], done: int, again: bool, now: float) -> None:
        """The rows of a batch, in order, without the first `done`, which are known to be settled. `again`: of
        the others too some may have been published before a restart."""
        assert self.client is not None and not self.busy
        self._pieces, self._rows, self._skip = pieces, [], done
        self._before = self.client.incoming.received
        self._sequence = (batch + 1) << ROW_BITS
        self._flags = RESENT if again else 0
        self.go_on(now)

    def go_on(self, now: float) -> None:
        """Something has changed that may have been waited for."""
        if self.busy and self._confirmed and self.core.ready and not self._working:
            self._working = True
            self.core.defer(self._step)

    def _step(self, now: float) -> bool:
        client = self.client
        assert client is not None
        if client.ended:  # another client has taken its name: whoever holds us begins again
            self._working = False
            return False
        incoming = client.incoming
        room = min(incoming.credit - incoming.received, STEP)
        if room and self._fill():
            run = self._take(room)
            first = incoming.received + 1
            incoming.take(first, len(run))
            self.core.accept.call(client, Publish(client.epoch, first, run), 0, now)
            return True
        self._working = False
        self.check(now)
        return False

    def _fill(self) -> bool:
        """Whether there are rows left; the next piece is read when none is at hand."""
        assert self._pieces is not None
        while not self._rows:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            try:
                rows = decode_publications(piece)
            except WireError:
                self.damaged += 1
                self.core.refuse("staged rows")
                continue
            left_out = min(self._skip, len(rows))
            self._rows = rows[left_out:] if left_out else rows
            self._skip -= left_out
            self._sequence += left_out
        return True

    def _take(self, most: int) -> list[Publication]:
        run, self._rows = self._rows[:most], self._rows[most:]
        for sequence, publication in enumerate(run, self._sequence + 1):
            publication.sequence = sequence
            publication.flags = self._flags
        self._sequence += len(run)
        return run

    def check(self, now: float) -> None:
        """After a drain that touched its client: there may be room again, or all may be settled."""
        client = self.client
        if not self.busy or self._working or client is None:
            return
        incoming = client.incoming
        if self._fill():
            if incoming.credit > incoming.received:
                self.go_on(now)
        elif incoming.settled == incoming.received:
            self._pieces = None
            self.idle_since = now
            self._finished(self, now)

    def take_refused(self) -> int:
        """How many publications did not reach everybody since the last call."""
        if self.client is None:
            return 0
        incoming = self.client.incoming
        count = sum(cut.last - cut.first + 1 for cut in incoming.cuts)
        incoming.cuts_taken(incoming.cuts_first + len(incoming.cuts))
        return count

    def end(self, now: float) -> None:
        if self.client is not None and not self.client.ended:
            self.attachments.end(self.client, now)
        self.client = None
