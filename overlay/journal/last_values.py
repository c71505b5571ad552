"""Last values: of a stream with a key attribute, the newest publication of each key, then what is new.

A reader has no cursor: it asks from an offset on and is given what is newest of each key since, so one that
is slow skips what has been overtaken and is never behind by more than one message a key. What each key's last
is comes from the stream's own log, which is read once; a value that is past the stream's limits is forgotten.
As with groups, a client elsewhere is sent to the broker that has the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from grapevine.errors import FilterError
from grapevine.filters import parse
from grapevine.filters.evaluate import matches
from grapevine.filters.normal import Filter, Value
from grapevine.filters.printing import to_text
from grapevine.wire import WireError, decode_attributes
from grapevine.wire.messages import Publication
from grapevine.wire.streams import Fetch, Fetched, StreamRequest, StreamState
from matching.relations import covers
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client
from overlay.journal.contents import Stream
from overlay.journal.group_homes import Everybody, Report
from overlay.journal.readers import FETCH_MOST, Given, Readers
from overlay.links.session import Session

QUESTION = "last-values"
ASK_S = 3.0
SCAN = 1_024  # offsets read at a time


class Last(NamedTuple):
    offset: int
    publication: Publication
    attributes: dict[str, Value]


class View:
    """The newest of each key of one stream, in the order of their offsets, as far as the log was read."""

    __slots__ = ("key", "scanned", "values")

    def __init__(self, key: str) -> None:
        self.key = key
        self.values: dict[object, Last] = {}
        self.scanned = 1  # the first offset that was not read

    def take(self, offset: int, publication: Publication) -> None:
        try:
            attributes = decode_attributes(publication.attributes)
        except WireError:
            return
        value = attributes.get(self.key)
        place = (type(value) is bool, value)  # true is not 1
        self.values.pop(place, None)
        self.values[place] = Last(offset, publication, attributes)

    def since(self, first: int) -> list[Last]:
        found = []
        for last in reversed(self.values.values()):
            if last.offset < first:
                break
            found.append(last)
        return found[::-1]


class Waiting(NamedTuple):
    fetch: Fetch
    until: float


class LastValues(Quiet):
    after = ("Readers",)

    def __init__(self, readers: Readers, census: Everybody, addresses: tuple[str, ...]) -> None:
        self.readers = readers
        self.streams, self.journal = readers.streams, readers.journal
        self.census = census
        self.addresses = addresses
        self.views: dict[int, View] = {}  # by number of the stream
        self.wanted: dict[Client, dict[int, Filter]] = {}
        self.waiting: dict[tuple[Client, int], Waiting] = {}
        readers.last_values = self
        self.streams.on_end.append(self.forget)
        census.reporters[QUESTION] = self._report

    def attach(self, core: Core) -> None:
        self.core = core

    # --- which stream -----------------------------------------------------------------------------------

    def find(self, filter: Filter) -> Stream | None:
        """One with a key that keeps all of this."""
        for stream in self.journal.contents.streams.values():
            if stream.body.key and covers(stream.body.filter, filter):
                return stream
        return None

    def _report(self, argument: bytes) -> Report | None:
        try:
            stream = self.find(parse(argument.decode("utf-8", "replace")))
        except FilterError:
            return None
        return None if stream is None else {**self.census.brief(), "addresses": list(self.addresses)}

    def seek(self, client: Client, message: StreamRequest, now: float) -> None:
        assert message.filter is not None
        stream = self.find(message.filter)
        if not covers(client.may_ask, message.filter):
            text = f"its key may ask for {to_text(client.may_ask):.500} only"
            self.core.tell(StreamState(message.request, "not-allowed", text=text), client)
        elif stream is not None:
            self.wanted.setdefault(client, {})[stream.body.number] = message.filter
            self.readers.answer(client, message.request, stream, "", now)
        else:
            question = to_text(message.filter).encode()
            self.census.ask(QUESTION, None, now, self._heard(client, message), question, ASK_S)

    def _heard(self, client: Client, message: StreamRequest) -> Callable[[list[Report], float], None]:
        def done(reports: list[Report], now: float) -> None:
            found = [report for report in reports if report.get("addresses")]
            if found:
                addresses = tuple(str(address) for address in found[0]["addresses"])
                answer = StreamState(message.request, "elsewhere", addresses=addresses)
            elif any(report.get("missing") for report in reports):
                answer = StreamState(message.request, "busy", text="not everybody answers")
            else:
                text = "no stream with a key keeps this: pubctl stream add NAME FILTER --key ATTRIBUTE"
                answer = StreamState(message.request, "not-allowed", text=text)
            self.core.tell(answer, client)

        return done

    # --- reading ------------------------------------------------------------------------------------------

    def on_fetch(self, client: Client, fetch: Fetch, stream: Stream, now: float) -> None:
        number = stream.body.number
        if number not in self.wanted.get(client, {}):
            self.core.tell(Fetched(fetch.request, b"", (), outcome="taken"), client)
        elif not self._give(client, fetch, stream, now):
            self.waiting[client, number] = waiting = Waiting(fetch, now + fetch.wait_s)
            self.core.timers.at(waiting.until, lambda later: self._over(client, number, waiting, later))

    def _give(self, client: Client, fetch: Fetch, stream: Stream, now: float) -> bool:
        view, filter = self._view(stream, now), self.wanted[client][stream.body.number]
        since = view.since(max(fetch.first, stream.log.first))
        found = [last for last in since if matches(filter, last.attributes)][: min(fetch.most, FETCH_MOST)]
        if found:
            offsets = [last.offset for last in found]
            given = Given([last.publication for last in found], offsets, [])
            self.readers.send(client, fetch, stream, given, ())
        return bool(found)

    def _view(self, stream: Stream, now: float) -> View:
        """As of what is on disk."""
        number, log = stream.body.number, stream.log
        view = self.views.setdefault(number, View(stream.body.key))
        view.scanned = max(view.scanned, log.first)
        while view.scanned < self.streams.ends[number]:
            last = min(view.scanned + SCAN, self.streams.ends[number]) - 1
            given = self.readers.read(stream, list(range(view.scanned, last + 1)), now)
            for offset, publication in zip(given.offsets, given.publications):
                view.take(offset, publication)
            gaps = [gap.last for gap in given.gaps]
            view.scanned = max([*given.offsets, *gaps, view.scanned]) + 1
        return view

    def _over(self, client: Client, number: int, waiting: Waiting, now: float) -> None:
        """Nothing has come in time."""
        stream = self.journal.contents.streams.get(number)
        if self.waiting.get((client, number)) is waiting and stream is not None:
            del self.waiting[client, number]
            self.readers.send(client, waiting.fetch, stream, Given([], [], []), ())

    def serve(self, stream: Stream, now: float) -> None:
        for (client, number), waiting in list(self.waiting.items()):
            if number == stream.body.number and self._give(client, waiting.fetch, stream, now):
                del self.waiting[client, number]

    def forget(self, number: int) -> None:
        """The stream has ended."""
        self.views.pop(number, None)
        for client, wanted in list(self.wanted.items()):
            wanted.pop(number, None)
            if (waiting := self.waiting.pop((client, number), None)) is not None:
                self.core.tell(Fetched(waiting.fetch.request, b"", (), outcome="gone"), client)

    def link_down(self, session: Session, now: float) -> None:
        for client in [client for client in self.wanted if client is session]:
            for number in self.wanted.pop(client):
                self.waiting.pop((client, number), None)
