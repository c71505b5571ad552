"""Members of groups in the simulator: they take, work for a while, acknowledge, refuse, and are sometimes too
late. What must hold is judged here:

* a group has one home;
* an acknowledgement counts for one member: nobody else is ever told that the same message counted;
* what was told to count is never given again, to nobody, whoever crashed;
* when the world is at rest everything in the log was given to somebody and is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from grapevine.client.session import Session
from grapevine.client.session.durable import DurableMessage, DurableReader, Gap, Wanted
from grapevine.filters.normal import Filter
from overlay.core import Core

if TYPE_CHECKING:
    from tools.simulator.clients import ClientHost
    from tools.simulator.oracle import Oracle

ACK_WAIT_S = 2.0
IN_FLIGHT = 8
REFUSED, LATE = 0.1, 0.1  # shares of what a member is given
Place = tuple[str, str, int]  # broker, group, version of the stream
Life = tuple[int, int]


class GroupWatch:
    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.calm = False  # the faults are over: everybody works
        self.given: dict[Place, set[int]] = {}
        self.base: dict[Place, int] = {}  # offsets up to here were before the group
        self.counted: dict[Place, dict[int, tuple[Life, float]]] = {}

    def opened(self, place: Place, acknowledged: int) -> None:
        self.base[place] = min(acknowledged, self.base.get(place, acknowledged))

    def take(self, place: Place, life: Life, since: float, offsets: Iterable[int]) -> None:
        """A member that is attached since then is given these."""
        counted = self.counted.setdefault(place, {})
        for offset in offsets:
            self.given.setdefault(place, set()).add(offset)
            if offset in counted and counted[offset][1] < since:
                self.oracle.violation(f"offset {offset} of {place} is given to {life} although it counts")

    def count(self, place: Place, life: Life, offset: int) -> None:
        before = self.counted.setdefault(place, {}).setdefault(offset, (life, self.oracle.world.now))
        if before[0] != life:
            self.oracle.violation(f"offset {offset} of {place} counts for {before[0]} and for {life}")

    # --- at rest --------------------------------------------------------------------------------------

    def unrest(self, broker: str, core: Core) -> list[str]:
        return [
            f"the group {name} at {broker} has {left} to do"
            for name, _, end, acknowledged in _groups(core)
            if (left := end - 1 - acknowledged) > 0
        ]

    def judge(self, cores: Iterable[tuple[str, Core]]) -> None:
        homes: dict[str, str] = {}
        for broker, core in cores:
            for name, version, end, _ in _groups(core):
                if homes.setdefault(name, broker) != broker:
                    self.oracle.violation(f"the group {name} is at {homes[name]} and at {broker}")
                place = (broker, name, version)
                first = self.base.get(place, end) + 1
                missed = set(range(first, end)) - self.given.get(place, set())
                if missed:
                    some = f"{sorted(missed)[:5]} of {len(missed)}"
                    self.oracle.violation(f"{broker} has given nobody {some} for the group {name}")


def _groups(core: Core) -> Iterable[tuple[str, int, int, int]]:
    """(name, version, end, acknowledged)"""
    for stream in core.journal.contents.streams.values() if core.journal is not None else ():
        for name, (body, cursor) in stream.cursors.items():
            if body.group:
                yield name, stream.body.version, stream.log.next, cursor.acknowledged


class Membership:
    """Of one client's host; it outlives its processes."""

    def __init__(self, watch: GroupWatch, group: str, filter: Filter, random: Random) -> None:
        self.watch = watch
        self.wanted = Wanted(
            group, filter, ack="explicit", ack_wait_s=ACK_WAIT_S, in_flight=IN_FLIGHT, group=True
        )
        self.random = random
        self._state: object = None
        self._since = 0.0  # of this attachment

    def open(self, session: Session) -> DurableReader:
        self._state = None
        return session.durables.open(self.wanted)

    def read(self, host: ClientHost, reader: DurableReader) -> None:
        if reader.state is None:
            return
        place = (reader.home, self.wanted.name, reader.version)
        if reader.state is not self._state:
            self._state, self._since = reader.state, host.world.now
            self.watch.opened(place, reader.state.acknowledged)
        host.record.stream_opened(host, reader)
        life = (host.index, host.life)
        while reader.counted:
            self.watch.count(place, life, reader.counted.popleft())
        items = [reader.queue.popleft() for _ in range(len(reader.queue))]
        if items:
            host.record.stream_given(host, reader, items)
            messages = [item for item in items if not isinstance(item, Gap)]
            self.watch.take(place, life, self._since, [message.offset for message in messages])
            for message in messages:
                self._work(host, message)

    def _work(self, host: ClientHost, message: DurableMessage) -> None:
        chance = 1.0 if self.watch.calm else self.random.random()
        if chance < REFUSED:
            message.nak(self.random.random())
        else:
            late = chance < REFUSED + LATE
            seconds = ACK_WAIT_S * 1.5 if late else self.random.uniform(0.0, 0.6)
            host.world.after(seconds, self._done, (host, host.life, message))

    def _done(self, work: tuple[ClientHost, int, DurableMessage]) -> None:
        host, life, message = work
        if life == host.life and host.session is not None:
            message.ack()
            host.pump()
