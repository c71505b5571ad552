"""Groups: one cursor of a stream that several clients read together.

A message is under way to one member at a time, the least loaded that asks and has room, and only that one may
acknowledge it. What a member refuses, holds for too long or leaves behind when it goes comes to another. An
acknowledgement is told to have counted when it is on disk: from then on nobody gets that message again,
whoever crashes. Which broker a group lives at is looked for by group_homes.py.
"""

from __future__ import annotations

from grapevine.wire.streams import Acknowledge, Acknowledged, Fetch, Fetched, StreamGap, StreamRequest
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client
from overlay.journal.contents import Kept, Stream
from overlay.journal.cursor import Cursor
from overlay.journal.dealing import deal
from overlay.journal.group_homes import GroupHomes
from overlay.journal.readers import FETCH_MOST, LOOK_S, Given, Place, Readers
from overlay.links.session import Session
from overlay.timers import Timer

TELL_S = 0.05  # acknowledgements are gathered for so long before they are written and answered
NO_LIMIT = 1 << 62  # of what is under way to all of a group: each member has its own


class Member:
    """A client that reads as one of a group."""

    __slots__ = ("acknowledged", "client", "holds", "late", "request", "until", "waiting")

    def __init__(self, client: Client, request: StreamRequest) -> None:
        self.client = client
        self.request = request
        self.waiting: Fetch | None = None
        self.until = 0.0  # how long it waits
        self.holds: dict[int, None] = {}  # offsets under way to it
        self.acknowledged: list[int] = []  # counted, not told yet
        self.late: list[int] = []  # did not count

    @property
    def room(self) -> int:
        if self.waiting is None or self.client.link is None:
            return 0
        return max(min(self.waiting.most, FETCH_MOST, self.request.in_flight - len(self.holds)), 0)


class Group:
    """`holders` has every offset that is under way, and nothing else."""

    __slots__ = ("holders", "members", "timer")

    def __init__(self) -> None:
        self.members: dict[Client, Member] = {}
        self.holders: dict[int, Member] = {}
        self.timer: Timer | None = None

    def hold(self, member: Member, offsets: list[int]) -> None:
        for offset in offsets:
            self.holders[offset] = member
            member.holds[offset] = None

    def drop(self, offset: int) -> None:
        if (member := self.holders.pop(offset, None)) is not None:
            del member.holds[offset]


class Groups(Quiet):
    after = ("Readers",)

    def __init__(self, readers: Readers, homes: GroupHomes) -> None:
        self.readers = readers
        self.homes = homes
        self.streams, self.journal = readers.streams, readers.journal
        self.groups: dict[Place, Group] = {}
        self._to_tell: dict[Place, None] = {}
        readers.shared = self
        self.streams.on_end.append(self.forget)
        self.journal.riding(self._riding)

    def attach(self, core: Core) -> None:
        self.core = core

    # --- members --------------------------------------------------------------------------------------

    def seek(self, client: Client, message: StreamRequest, now: float) -> bool:
        if not message.group or message.end:
            return False
        self.homes.seek(client, message, lambda later: self.readers.open(client, message, later), now)
        return True

    def join(self, client: Client, message: StreamRequest, stream: Stream, now: float) -> None:
        place = (stream.body.number, message.cursor)
        self.homes.made.discard(message.cursor)
        self._part(place, client, now)  # if it was a member it has lost what was under way to it
        if client.link is not None:
            self.groups.setdefault(place, Group()).members[client] = Member(client, message)

    def has(self, place: Place) -> bool:
        return place in self.groups

    def leave(self, client: Client, place: Place, now: float) -> bool:
        self._part(place, client, now)
        return place in self.groups

    def _part(self, place: Place, client: Client, now: float) -> None:
        """What was under way to this member comes to the others."""
        group = self.groups.get(place)
        member = group.members.pop(client, None) if group is not None else None
        stream = self.journal.contents.streams.get(place[0])
        if group is None or member is None or stream is None:
            return
        cursor = self.streams.cursor(stream, place[1])
        for offset in list(member.holds):
            group.drop(offset)
            if cursor is not None:
                cursor.refuse(offset, now)
        if group.members:
            self._serve(place, group, stream, now)
        else:
            self._end(place)

    def link_down(self, session: Session, now: float) -> None:
        for place, group in list(self.groups.items()):
            if session in group.members:
                self._part(place, session, now)

    def forget(self, number: int) -> None:
        """The stream has ended."""
        for place, group in list(self.groups.items()):
            if place[0] == number:
                for member in group.members.values():
                    if member.waiting is not None:
                        self.core.tell(
                            Fetched(member.waiting.request, b"", (), outcome="gone"), member.client
                        )
                self._end(place)

    def _end(self, place: Place) -> None:
        group = self.groups.pop(place)
        self._to_tell.pop(place, None)
        if group.timer is not None:
            group.timer.cancel()

    # --- giving ---------------------------------------------------------------------------------------

    def on_fetch(self, client: Client, fetch: Fetch, stream: Stream, now: float) -> None:
        place = (stream.body.number, fetch.cursor)
        group = self.groups[place]
        member = group.members.get(client)
        if member is None:
            self.core.tell(Fetched(fetch.request, b"", (), outcome="taken"), client)
            return
        member.waiting, member.until = fetch, now + fetch.wait_s
        self.streams.used(stream, fetch.cursor, now)
        self._serve(place, group, stream, now)

    def serve(self, stream: Stream, now: float) -> None:
        for name in stream.cursors:
            place = (stream.body.number, name)
            if (group := self.groups.get(place)) is not None:
                self._serve(place, group, stream, now)

    def _serve(self, place: Place, group: Group, stream: Stream, now: float) -> None:
        cursor = self.streams.cursor(stream, place[1])
        if cursor is None:
            return
        self._expire(group, cursor, now)
        self._give(place, group, stream, cursor, now)
        self._wait(place, group, cursor, now)

    def _expire(self, group: Group, cursor: Cursor, now: float) -> None:
        for offset in [offset for offset, due in cursor.due.items() if due <= now]:
            group.drop(offset)
        limits = [m.request.max_deliver for m in group.members.values() if m.request.max_deliver]
        cursor.expire(now, None)
        if limits:
            cursor.park(max(limits))

    def _give(self, place: Place, group: Group, stream: Stream, cursor: Cursor, now: float) -> None:
        asking = [member for member in group.members.values() if member.room]
        if not asking:
            return
        end = self.streams.ends[place[0]]
        gaps = self.readers.past_limits(stream, cursor)
        # Who does not ask at this moment is about to: nobody takes more than its share of what there is.
        share = max(cursor.ready(end, now) // len(group.members), 1)
        rooms = [min(member.room, share) for member in asking]
        offsets = cursor.take(end, sum(rooms), now, 0.0, NO_LIMIT)
        dealt = deal([len(member.holds) for member in asking], rooms, len(offsets))
        for member, items in zip(asking, dealt):
            taken, offsets = offsets[:items], offsets[items:]
            if taken or gaps:
                self._give_to(member, group, stream, cursor, taken, gaps, now)
                gaps = []

    def _give_to(
        self,
        member: Member,
        group: Group,
        stream: Stream,
        cursor: Cursor,
        offsets: list[int],
        gaps: list[StreamGap],
        now: float,
    ) -> None:
        fetch, member.waiting = member.waiting, None
        assert fetch is not None
        again = tuple([offset for offset in offsets if cursor.redelivered(offset)])
        given = self.readers.read(stream, sorted(offsets), now)
        lost = [offset for gap in given.gaps for offset in range(gap.first, gap.last + 1)]
        for offset in lost:
            cursor.acknowledge(offset)
        for offset in set(offsets) - set(given.offsets) - set(lost):
            cursor.untake(offset, now)  # more than fits into one answer
        for offset in given.offsets:
            cursor.due[offset] = now + member.request.ack_wait_s
        group.hold(member, given.offsets)
        self.readers.send(
            member.client,
            fetch,
            stream,
            Given(given.publications, given.offsets, gaps + given.gaps),
            again,
        )
        self.streams.moved(stream, fetch.cursor, now)

    def _wait(self, place: Place, group: Group, cursor: Cursor, now: float) -> None:
        """One timer a group: until the next Fetch is over or something under way is due."""
        if group.timer is not None:
            group.timer.cancel()
            group.timer = None
        times = [member.until for member in group.members.values() if member.waiting is not None]
        if not times:
            return
        if (due := cursor.deadline()) is not None:
            times.append(max(due, now + LOOK_S))

        def over(later: float) -> None:
            group.timer = None
            stream = self.journal.contents.streams.get(place[0])
            if self.groups.get(place) is not group or stream is None:
                return
            for member in group.members.values():
                if member.waiting is not None and later >= member.until:
                    fetch, member.waiting = member.waiting, None
                    self.readers.send(member.client, fetch, stream, Given([], [], []), ())
            self._serve(place, group, stream, later)

        group.timer = self.core.timers.at(min(times), over)

    # --- what members say -----------------------------------------------------------------------------

    def on_acknowledge(
        self, client: Client, message: Acknowledge, stream: Stream, cursor: Cursor, now: float
    ) -> None:
        place = (stream.body.number, message.cursor)
        group = self.groups[place]
        member = group.members.get(client)
        if member is None:
            self.core.refuse("acknowledgement of another's")
            return
        up_to = [offset for offset in member.holds if offset <= message.up_to]
        for offset in (*up_to, *message.offsets):
            self._acknowledge(group, member, cursor, offset)
        delays = (*message.delays_s, *((0.0,) * len(message.refused)))
        for offset, delay_s in zip(message.refused, delays):
            if group.holders.get(offset) is member:
                group.drop(offset)
                cursor.refuse(offset, now + delay_s)
        for offset in message.working:
            if group.holders.get(offset) is member:
                cursor.working(offset, now + member.request.ack_wait_s)
        self._to_tell[place] = None
        self.streams.moved(stream, message.cursor, now)
        self.journal.ride(now, TELL_S)
        self._serve(place, group, stream, now)

    def _acknowledge(self, group: Group, member: Member, cursor: Cursor, offset: int) -> None:
        """It counts only from who has it."""
        if group.holders.get(offset) is not member:
            member.late.append(offset)
            return
        group.drop(offset)
        cursor.acknowledge(offset)
        member.acknowledged.append(offset)

    def _riding(self) -> tuple[Kept, ...]:
        """The cursors are being written: who acknowledged is told when that is on disk."""
        places, self._to_tell = self._to_tell, {}
        told = []
        for place in places:
            for member in self.groups[place].members.values():
                if member.acknowledged or member.late:
                    stream = self.journal.contents.streams[place[0]].body.name
                    said = (tuple(member.acknowledged), tuple(member.late))
                    member.acknowledged, member.late = [], []
                    told.append((member.client, Acknowledged(stream, place[1], *said)))
        if told:
            self._when_on_disk(told)
        return ()

    def _when_on_disk(self, told: list[tuple[Client, Acknowledged]]) -> None:
        self.journal.when_kept(self.journal.next - 1, lambda now: self._tell(told))

    def _tell(self, told: list[tuple[Client, Acknowledged]]) -> None:
        for client, message in told:
            self.core.tell(message, client)

    def validate(self) -> None:
        for (number, name), group in self.groups.items():
            stream = self.journal.contents.streams[number]
            cursor = self.streams.cursor(stream, name)
            assert cursor is not None
            assert group.holders.keys() == cursor.due.keys(), "under way to nobody, or to somebody unknown"
            assert sum(len(member.holds) for member in group.members.values()) == len(group.holders)
