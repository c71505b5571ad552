"""Connections between hosts: FIFO and reliable until they break, then an unknown suffix is lost both ways.

A connection has two ends, each with the number by which its host knows it. What is on its way to an end
lies in that end's `flight` with its time of arrival. A clog or a wall delays frames and never loses one;
`cut` loses, in one direction if one end alone has it; a host that is `stranded` reaches nobody; `close` is
what a host does on purpose: everything sent before arrives first. A host may never hear that its connection
is gone: its own pings have to find out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random

from grapevine.wire.codec import decode, encode
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import Batch, ExcludingBatch, HomeBatch, LaneBatch, Message, Publication, Publish
from grapevine.wire.relocation import RoundTrip, RoundTripsRequest
from tools.simulator.latency import Latency
from tools.simulator.world import WALL_START_S, World

_copy: Callable[[Publication], Publication] = Publication.__copy__  # type: ignore[attr-defined]

DOWN = None  # in a flight: the connection ends here


class Host:
    """Something with an address: a broker or a client."""

    def __init__(self, world: World, network: Network, name: str) -> None:
        self.world = world
        self.network = network
        self.name = name
        self.address = f"sim://{name}"
        self.ends: dict[int, End] = {}
        self.skew_s = 0.0
        self.up = False
        self._numbers = 0
        self.index = network.register(self)

    def clock(self) -> float:
        return WALL_START_S + self.world.now + self.skew_s

    def new_end(self) -> End:
        self._numbers += 1
        end = self.ends[self._numbers] = End(self, self._numbers)
        return end

    def arrive(self, end: End, message: Message | None) -> None:
        raise AssertionError("a host is a broker or a client")


class End:
    __slots__ = (
        "arrived_at",
        "blocked",
        "clogged_until",
        "cut",
        "delay_s",
        "flight",
        "host",
        "known",
        "number",
        "open",
        "other",
        "queued",
    )

    def __init__(self, host: Host, number: int) -> None:
        self.host = host
        self.number = number
        self.other: End | None = None
        self.flight: deque[tuple[float, Message | None]] = deque()
        self.arrived_at = 0.0  # when the last frame of the flight arrives
        self.clogged_until = 0.0
        self.delay_s = 0.0
        self.open = True  # the host still reads and writes it
        self.cut = False  # what is written is lost
        self.known = False  # the host has taken a frame from it
        self.queued = 0  # publications on their way to this end or waiting there
        self.blocked = False  # the sender was told that no more is taken

    def arrive(self, _: object) -> None:
        world = self.host.world
        now = world.now
        if now < self.clogged_until:
            world.at(self.clogged_until, self.arrive)
            return
        flight = self.flight
        host = self.host
        while flight and flight[0][0] <= now:
            message = flight.popleft()[1]
            if self.open:
                host.arrive(self, message)


class Wall:
    """Until its end nothing passes between hosts inside and hosts outside."""

    def __init__(self, inside: frozenset[int], until: float) -> None:
        self.inside = inside
        self.until = until

    def between(self, one: int, other: int) -> bool:
        return (one in self.inside) != (other in self.inside)


class Network:
    def __init__(
        self, world: World, latency: Latency, random: Random, *, jitter_s: float = 0.0, codec: bool = False
    ) -> None:
        self.world = world
        self.latency = latency
        self.random = random
        self.jitter_s = jitter_s
        self.codec = codec
        self.hosts: list[Host] = []
        self.walls: list[Wall] = []
        self.stranded: set[int] = set()  # hosts that reach nobody and are reached by nobody
        self.frames = 0
        self._by_address: dict[str, Host] = {}

    def register(self, host: Host) -> int:
        self.hosts.append(host)
        self._by_address[host.address] = host
        return len(self.hosts) - 1

    def find(self, addresses: tuple[str, ...]) -> Host | None:
        return next((self._by_address[a] for a in addresses if a in self._by_address), None)

    # --- what hosts do ----------------------------------------------------------------------------

    def dial(self, host: Host, addresses: tuple[str, ...]) -> End:
        """The dialler's end of a new connection. Nobody may be there: then nothing ever answers."""
        end = host.new_end()
        target = self.find(addresses)
        if target is None or not target.up or not self.stranded.isdisjoint((host.index, target.index)):
            end.cut = True
            if self.random.random() < 0.5:
                self._announce(end, self.random.uniform(0.0, 1.0))
            return end
        other = target.new_end()
        end.other, other.other = other, end
        end.delay_s = other.delay_s = self.latency.one_way_s(host.index, target.index)
        return end

    def send(self, end: End, message: Message, publications: int = 0) -> None:
        self.frames += 1
        other = end.other
        if end.cut or other is None or not end.open:
            return
        if self.codec:
            message = decode(encode(message))
        elif publications:
            message = copied(message)
        other.queued += publications
        self._fly(other, self.world.now + end.delay_s, message)

    def send_from(self, end: End, message: Message, publications: int, at: float) -> None:
        """As `send`, but it leaves the host's uplink at `at`."""
        end.delay_s += at - self.world.now
        try:
            self.send(end, message, publications)
        finally:
            end.delay_s -= at - self.world.now

    def _fly(self, target: End, at: float, message: Message | None) -> None:
        if self.jitter_s:
            at += self.random.random() * self.jitter_s
        if self.walls:
            at = max(at, self._walled_until(target))
        if at < target.arrived_at:
            at = target.arrived_at
        target.arrived_at = at
        target.flight.append((at, message))
        self.world.at(at, target.arrive)

    def _walled_until(self, target: End) -> float:
        now = self.world.now
        self.walls = [wall for wall in self.walls if wall.until > now]
        assert target.other is not None
        one, other = target.host.index, target.other.host.index
        return max((wall.until for wall in self.walls if wall.between(one, other)), default=0.0)

    def close(self, end: End) -> None:
        """The host gives the connection up; the other side hears of it after all that was sent."""
        if end.open:
            end.open = False
            end.host.ends.pop(end.number, None)
            if end.other is not None and not end.cut:
                self._fly(end.other, self.world.now + end.delay_s, DOWN)
            end.cut = True

    # --- what faults do ---------------------------------------------------------------------------

    def break_connection(self, end: End, *, told: bool, other_told: bool) -> None:
        """An unknown suffix of both flights is lost; each side hears of it at its own time, or never."""
        for one, hears in ((end, told), (end.other, other_told)):
            if one is None:
                continue
            one.cut = True
            self._lose_suffix(one)
            if hears and one.open:
                self._announce(one, self.random.uniform(0.0, 0.5))

    def _lose_suffix(self, end: End) -> None:
        keep = self.random.randint(0, len(end.flight))
        while len(end.flight) > keep:
            end.flight.pop()

    def _announce(self, end: End, seconds: float) -> None:
        end.arrived_at = max(end.arrived_at, self.world.now + seconds)
        end.flight.append((end.arrived_at, DOWN))
        self.world.at(end.arrived_at, end.arrive)

    def break_one_way(self, end: End) -> None:
        """What this end says is lost from some frame on; neither side is told."""
        end.cut = True
        if end.other is not None:
            self._lose_suffix(end.other)

    def strand(self, host: Host) -> None:
        """For good: its connections end in silence."""
        self.stranded.add(host.index)
        for end in list(host.ends.values()):
            self.break_connection(end, told=False, other_told=False)

    def host_gone(self, host: Host) -> None:
        """A process died: all its connections break, what was on its way to it is lost."""
        for end in list(host.ends.values()):
            end.open = False
            end.flight.clear()
            self.break_connection(end, told=False, other_told=self.random.random() < 0.7)
        host.ends.clear()

    def clog(self, end: End, until: float) -> None:
        for one in (end, end.other):
            if one is not None:
                one.clogged_until = max(one.clogged_until, until)

    def wall_off(self, inside: frozenset[int], until: float) -> None:
        wall = Wall(inside, until)
        self.walls.append(wall)
        for end in self.connections():
            assert end.other is not None
            if wall.between(end.host.index, end.other.host.index):
                self.clog(end, until)

    def round_trips(self, host: Host, request: RoundTripsRequest) -> tuple[RoundTrip, ...]:
        """What a client there would measure."""
        hosts = {host.address: host.index for host in self.hosts}
        return tuple(
            RoundTrip(row.broker, 2 * self.latency.one_way_s(host.index, hosts[row.addresses[0]]))
            for row in request.brokers
            if row.addresses and row.addresses[0] in hosts
        )

    def connections(self) -> Iterator[End]:
        """One end of every connection that both hosts still hold."""
        for host in self.hosts:
            for end in host.ends.values():
                other = end.other
                if other is not None and other.open and not end.cut and host.index < other.host.index:
                    yield end


def copied(message: Message) -> Message:
    """A broker changes what it was given, and without the codec the sender must not see that."""
    if isinstance(message, Batch):
        copies = list(map(_copy, message.publications))
        head = (message.epoch, message.first, message.received, message.settled, message.credit)
        if isinstance(message, ExcludingBatch):
            return ExcludingBatch(*head, copies, list(message.exclusions))
        if isinstance(message, LaneBatch):
            return LaneBatch(*head, copies, message.lane, list(message.exclusions))
        if isinstance(message, HomeBatch):
            return HomeBatch(*head, copies, list(message.clients), message.lane)
        return Batch(*head, copies)
    if isinstance(message, Publish):
        return Publish(message.epoch, message.first, [_received(draft) for draft in message.publications])
    return message


def _received(draft: Draft) -> Publication:
    """As the codec reads what a client sent."""
    return Publication(draft.attributes, draft.payload, draft.sequence, draft.flags)
