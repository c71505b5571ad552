"""Readers of streams: who asks for what comes next, and what they say about it.

One reader at a time has a cursor, unless it is a group's (groups.py). A Fetch that finds nothing waits for
its time; what is under way comes again when its deadline passes or its reader goes. Offsets that cannot be
read are told as gaps, never skipped.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from grapevine.filters.printing import to_text
from grapevine.wire import encode_publications
from grapevine.wire.messages import CUT_ROTTEN, Publication
from grapevine.wire.streams import Acknowledge, Fetch, Fetched, StreamGap, StreamRequest, StreamState
from matching.relations import covers
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client
from overlay.data.router import Router
from overlay.gather import Gather
from overlay.journal.contents import Stream
from overlay.journal.cursor import Cursor
from overlay.journal.journal import Journal
from overlay.journal.publisher_names import PublisherNames
from overlay.journal.stream_log import LOST
from overlay.journal.streams import ACKED, Streams
from overlay.links.session import Session
from overlay.timers import Timer

FETCH_MOST = 4_096
FETCH_BYTES = 4 << 20
LOOK_S = 0.1  # at the earliest: something that is due may have to wait for room
Place = tuple[int, str]  # number of a stream, name of a cursor


class Reader:
    """A client that has a cursor."""

    __slots__ = ("client", "request", "timer", "waiting")

    def __init__(self, client: Client, request: StreamRequest) -> None:
        self.client = client
        self.request = request  # its last, for what it said about itself
        self.waiting: Fetch | None = None
        self.timer: Timer | None = None


class Given(NamedTuple):
    publications: list[Publication]
    offsets: list[int]
    gaps: list[StreamGap]


class Shared(Protocol):
    """Cursors that several read together."""

    def seek(self, client: Client, message: StreamRequest, now: float) -> bool:
        """Whether it takes this request: then it answers, or calls `Readers.open` when it is to be here."""

    def join(self, client: Client, message: StreamRequest, stream: Stream, now: float) -> None: ...
    def has(self, place: Place) -> bool: ...
    def on_fetch(self, client: Client, fetch: Fetch, stream: Stream, now: float) -> None: ...
    def on_acknowledge(
        self, client: Client, message: Acknowledge, stream: Stream, cursor: Cursor, now: float
    ) -> None: ...
    def leave(self, client: Client, place: Place, now: float) -> bool:
        """Whether others go on reading."""

    def serve(self, stream: Stream, now: float) -> None: ...


class Newest(Protocol):
    """Readers without a cursor of what is newest of each key."""

    def seek(self, client: Client, message: StreamRequest, now: float) -> None: ...
    def on_fetch(self, client: Client, fetch: Fetch, stream: Stream, now: float) -> None: ...
    def serve(self, stream: Stream, now: float) -> None: ...


class Readers(Quiet):
    after = ("Streams", "Attachments")

    def __init__(self, streams: Streams, router: Router) -> None:
        self.streams = streams
        self.journal: Journal = streams.journal
        self.names = PublisherNames(self.journal, router)
        self.readers: dict[Place, Reader] = {}
        self.shared: Shared  # these two set themselves
        self.last_values: Newest

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(StreamRequest, self.on_request)
        core.on(Fetch, self.on_fetch)
        core.on(Acknowledge, self.on_acknowledge)
        self.journal.after_written = self.serve
        self.streams.on_end.append(self.forget)

    def reads(self, client: Client) -> bool:
        return any(reader.client is client for reader in self.readers.values())

    # --- becoming a reader --------------------------------------------------------------------------

    def on_request(self, client: Client, message: StreamRequest, now: float) -> None:
        if message.last and message.filter is not None:
            self.last_values.seek(client, message, now)
        elif not self.shared.seek(client, message, now):
            self.open(client, message, now)

    def open(self, client: Client, message: StreamRequest, now: float) -> None:
        """The cursor is to be here."""
        outcome, text = self._open(client, message, now)
        if outcome:
            self.core.tell(StreamState(message.request, outcome, text=text), client)

    def _open(self, client: Client, message: StreamRequest, now: float) -> tuple[str, str]:
        """Why not; nothing: the answer follows."""
        stream = self.streams.find(message.stream, message.filter)
        wanted = message.filter if stream is None else stream.body.filter
        if wanted is None:
            return "gone", f"{self.core.name} has no stream {message.stream}"
        if not covers(client.may_ask, wanted):
            return "not-allowed", f"its key may ask for {to_text(client.may_ask):.500} only"
        if stream is None and (text := self.streams.registry.refusal(wanted)):
            return "filter", text
        if not message.cursor:
            if stream is None:
                return "gone", "no stream of that filter"
            self._tell_state(client, message.request, stream, self.base(stream, message) - 1)
            return "", ""
        if stream is not None and (refusal := self._refusal(client, stream, message)):
            return refusal
        if message.end:
            if stream is not None and message.cursor in stream.cursors:
                place = (stream.body.number, message.cursor)
                if self.shared.leave(client, place, now):
                    return "ok", ""
                self.readers.pop(place, None)
                self.streams.end_cursor(stream, message.cursor, now)
            return "ok", ""
        self._make(client, message, stream, now)
        return "", ""

    def _refusal(self, client: Client, stream: Stream, message: StreamRequest) -> tuple[str, str] | None:
        reader = self.readers.get((stream.body.number, message.cursor))
        if reader is not None and reader.client is not client and reader.client.link is not None:
            return "taken", f"{reader.client.name} reads as {message.cursor}"
        known = stream.cursors.get(message.cursor)
        if known is not None and known[0].group and not message.group:
            return "taken", f"{message.cursor} is the name of a group"
        if known is not None and message.group and not known[0].group:
            return "taken", f"{message.cursor} is the name of a durable subscription"
        if known is not None and self.core.granted is not None and known[0].owner != client.key:
            return "not-allowed", f"the durable subscription {message.cursor} belongs to another key"
        return None

    def _make(self, client: Client, message: StreamRequest, stream: Stream | None, now: float) -> None:
        """The cursor is there when everybody who must know of the stream knows it, and it is on disk."""

        def confirmed(gather: Gather, later: float) -> None:
            found = self.journal.contents.streams.get(number)
            if found is not None:
                self._confirmed(client, message, found, later)

        gather = Gather(confirmed)
        if stream is None:
            assert message.filter is not None
            number = self.journal.contents.next_stream
            self.streams.make(message.stream, message.filter, client.key, ACKED, gather, now)
        else:
            number = stream.body.number
            self.streams.await_confirmation(stream, gather, now)

    def _confirmed(self, client: Client, message: StreamRequest, stream: Stream, now: float) -> None:
        name = message.cursor
        if message.fresh and name in stream.cursors and not self.shared.has((stream.body.number, name)):
            stream.cursors.pop(name)
        if name not in stream.cursors:
            base = self.base(stream, message)
            self.streams.open_cursor(stream, name, client.key, base, message.expires_s, now, message.group)
        self.streams.used(stream, name, now)
        if message.group:
            self.shared.join(client, message, stream, now)
        else:
            self._take(client, message, (stream.body.number, name), now)
        if self.journal.persisted >= self.journal.next - 1:
            self.answer(client, message.request, stream, name, now)
        else:
            last = self.journal.next - 1
            self.journal.when_kept(
                last, lambda later: self.answer(client, message.request, stream, name, later)
            )

    def _take(self, client: Client, message: StreamRequest, place: Place, now: float) -> None:
        before = self.readers.get(place)
        if before is not None and before.client is not client:
            self._leave(place, before, now)
        self.readers[place] = Reader(client, message)

    def base(self, stream: Stream, message: StreamRequest) -> int:
        log = stream.log
        if message.start == "first":
            return log.first
        if message.start == "offset":
            return min(max(int(message.at), 1), log.next)
        if message.start == "time":
            return self.streams.offset_at(stream, message.at)
        return log.next

    def answer(self, client: Client, request: int, stream: Stream, name: str, now: float) -> None:
        cursor = self.streams.cursor(stream, name)
        self._tell_state(client, request, stream, cursor.acknowledged if cursor is not None else 0)

    def _tell_state(self, client: Client, request: int, stream: Stream, acknowledged: int) -> None:
        body, end = stream.body, self.streams.ends.get(stream.body.number, 1)
        state = StreamState(request, "ok", body.name, body.version, stream.log.first, end, acknowledged)
        self.core.tell(state, client)

    # --- reading ------------------------------------------------------------------------------------

    def on_fetch(self, client: Client, fetch: Fetch, now: float) -> None:
        stream = self.streams.find(fetch.stream)
        if stream is None:
            self.core.tell(Fetched(fetch.request, b"", (), outcome="gone"), client)
        elif fetch.last:
            self.last_values.on_fetch(client, fetch, stream, now)
        elif not fetch.cursor:
            self._give_range(client, fetch, stream, now)
        elif self.shared.has((stream.body.number, fetch.cursor)):
            self.shared.on_fetch(client, fetch, stream, now)
        else:
            reader = self.readers.get((stream.body.number, fetch.cursor))
            if reader is None or reader.client is not client:
                self.core.tell(Fetched(fetch.request, b"", (), outcome="taken"), client)
                return
            reader.waiting = fetch
            self.streams.used(stream, fetch.cursor, now)
            if not self._give(reader, stream, now) and reader.timer is None:
                self._wait(reader, stream, now)

    def _give_range(self, client: Client, fetch: Fetch, stream: Stream, now: float) -> None:
        if not covers(client.may_ask, stream.body.filter):
            self.core.tell(Fetched(fetch.request, b"", (), outcome="not-allowed"), client)
            return
        end = self.streams.ends[stream.body.number]
        last = min(fetch.first + min(fetch.most, FETCH_MOST), end) - 1
        given = self.read(stream, list(range(fetch.first, last + 1)), now)
        self.send(client, fetch, stream, given, ())

    def _give(self, reader: Reader, stream: Stream, now: float) -> bool:
        """What there is for a Fetch that waits; False: nothing."""
        fetch, asked = reader.waiting, reader.request
        if fetch is None or reader.client.link is None:
            return True
        cursor = self.streams.cursor(stream, fetch.cursor)
        assert cursor is not None
        if asked.max_deliver:
            cursor.expire(now, asked.max_deliver)
            cursor.park(asked.max_deliver)
        else:
            cursor.expire(now, None)
        gaps = self.past_limits(stream, cursor)
        end, most = self.streams.ends[stream.body.number], min(fetch.most, FETCH_MOST)
        offsets = cursor.take(end, most, now, asked.ack_wait_s, asked.in_flight)
        if not offsets and not gaps:
            return False
        again = tuple([offset for offset in offsets if cursor.redelivered(offset)])
        given = self.read(stream, offsets, now)
        for gap in given.gaps:
            for offset in range(gap.first, gap.last + 1):
                cursor.acknowledge(offset)
        for offset in (
            set(offsets) - set(given.offsets) - {o for g in given.gaps for o in range(g.first, g.last + 1)}
        ):
            cursor.untake(offset, now)  # more than fits into one answer
        reader.waiting = None
        if reader.timer is not None:
            reader.timer.cancel()
            reader.timer = None
        self.send(
            reader.client, fetch, stream, Given(given.publications, given.offsets, gaps + given.gaps), again
        )
        self.streams.moved(stream, fetch.cursor, now)
        return True

    def past_limits(self, stream: Stream, cursor: Cursor) -> list[StreamGap]:
        first = stream.log.first
        if cursor.acknowledged + 1 >= first:
            return []
        gap = StreamGap(cursor.acknowledged + 1, first - 1, "expired")
        cursor.skip_to(first)
        return [gap]

    def read(self, stream: Stream, offsets: list[int], now: float) -> Given:
        """Publications at these offsets, as many as one answer holds."""
        given, size = Given([], [], []), 0
        for first, last in _runs(offsets):
            if first < stream.log.first:
                given.gaps.append(StreamGap(first, min(last, stream.log.first - 1), "expired"))
            for piece in stream.log.pieces(first, last):
                if piece.position == LOST:
                    given.gaps.append(StreamGap(piece.offset, piece.last, "lost"))
                    continue
                offset = piece.offset
                for read in self.journal.reader.read(piece.position, piece.items):
                    if read.publications is None:
                        lost = read.position + read.items - 1
                        self.journal.lose(read.position, lost, CUT_ROTTEN, now)
                        given.gaps.append(StreamGap(offset, offset + read.items - 1, "rotten"))
                    else:
                        given.publications.extend(read.publications)
                        given.offsets.extend(range(offset, offset + read.items))
                        size += sum(len(p.payload) + len(p.attributes) for p in read.publications)
                    offset += read.items
                    if size > FETCH_BYTES:
                        return given
        return given

    def send(
        self, client: Client, fetch: Fetch, stream: Stream, given: Given, again: tuple[int, ...]
    ) -> None:
        for publisher in {publication.publisher for publication in given.publications}:
            if (known := self.names.of(publisher)) is not None:
                client.introduce(publisher, known.publisher_name, known.home_name)
        fetched = Fetched(
            fetch.request,
            bytes(encode_publications(given.publications)),
            tuple(given.offsets),
            tuple(given.gaps),
            again,
            self.streams.ends[stream.body.number],
        )
        self.core.tell(fetched, client)

    # --- waiting ------------------------------------------------------------------------------------

    def _wait(self, reader: Reader, stream: Stream, now: float) -> None:
        """Until something comes, a deadline of what is under way passes, or the time of the Fetch is over."""
        fetch = reader.waiting
        assert fetch is not None
        until = now + fetch.wait_s
        cursor = self.streams.cursor(stream, fetch.cursor)
        due = cursor.deadline() if cursor is not None else None
        at = until if due is None else min(until, max(due, now + LOOK_S))

        def over(later: float) -> None:
            reader.timer = None
            if reader.waiting is not fetch or stream.body.number not in self.streams.ends:
                return
            if self._give(reader, stream, later):
                return
            if later >= until:
                reader.waiting = None
                self.send(reader.client, fetch, stream, Given([], [], []), ())
            else:
                self._wait(reader, stream, later)

        reader.timer = self.core.timers.at(at, over)

    def serve(self, now: float) -> None:
        """Something has come to disk: who waits for it has it."""
        touched, self.streams.touched = self.streams.touched, []
        for number in dict.fromkeys(touched):
            stream = self.journal.contents.streams.get(number)
            if stream is None:
                continue
            for name in stream.cursors:
                reader = self.readers.get((number, name))
                if reader is not None and reader.waiting is not None:
                    self._give(reader, stream, now)
            self.shared.serve(stream, now)
            self.last_values.serve(stream, now)

    # --- what readers say -----------------------------------------------------------------------------

    def on_acknowledge(self, client: Client, message: Acknowledge, now: float) -> None:
        stream = self.streams.find(message.stream)
        if stream is None:
            return
        place = (stream.body.number, message.cursor)
        reader, cursor = self.readers.get(place), self.streams.cursor(stream, message.cursor)
        if cursor is not None and self.shared.has(place):
            self.shared.on_acknowledge(client, message, stream, cursor, now)
            return
        if reader is None or reader.client is not client or cursor is None:
            self.core.refuse("acknowledgement of another's")
            return
        cursor.acknowledge_to(min(message.up_to, self.streams.ends[stream.body.number] - 1))
        for offset in message.offsets:
            cursor.acknowledge(offset)
        delays = (*message.delays_s, *((0.0,) * len(message.refused)))
        for offset, delay_s in zip(message.refused, delays):
            cursor.refuse(offset, now + delay_s)
        for offset in message.working:
            cursor.working(offset, now + reader.request.ack_wait_s)
        self.streams.moved(stream, message.cursor, now)
        if reader.waiting is not None:
            if reader.timer is not None:
                reader.timer.cancel()
                reader.timer = None
            if not self._give(reader, stream, now):
                self._wait(reader, stream, now)

    def forget(self, number: int) -> None:
        """The stream has ended."""
        for place, reader in list(self.readers.items()):
            if place[0] == number:
                if reader.waiting is not None:
                    gone = Fetched(reader.waiting.request, b"", (), outcome="gone")
                    self.core.tell(gone, reader.client)
                if reader.timer is not None:
                    reader.timer.cancel()
                del self.readers[place]

    def _leave(self, place: Place, reader: Reader, now: float) -> None:
        """What is under way to this reader comes again to the next."""
        self.readers.pop(place, None)
        if reader.timer is not None:
            reader.timer.cancel()
        stream = self.journal.contents.streams.get(place[0])
        if stream is not None and (cursor := self.streams.cursor(stream, place[1])) is not None:
            cursor.detach(now)

    def link_down(self, session: Session, now: float) -> None:
        for place, reader in list(self.readers.items()):
            if reader.client is session:
                self._leave(place, reader, now)


def _runs(offsets: list[int]) -> list[tuple[int, int]]:
    """Consecutive ones together."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] + 1 == offset:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
