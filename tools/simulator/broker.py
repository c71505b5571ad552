"""A broker's host: the daemon's loop without sockets.

Frames wait in the inbox; a wake takes some of them, flushes the core once and acts on its outbox in the order
journal, opens, sends, batches, logs, closes. When the journal has something to sync, everything after it
waits for the disk and the loop stands still meanwhile, as a daemon that calls fsync would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from grapevine.wire import encode_publications
from grapevine.wire.messages import (
    Attach,
    Batch,
    Command,
    Deliver,
    ExcludingBatch,
    HomeBatch,
    LaneBatch,
    Message,
    Publish,
)
from overlay.core import Core
from overlay.links.session import Kind
from overlay.outbox import Kept, Outbox
from tools.simulator.capacity import UNLIMITED, Capacity
from tools.simulator.digest import Digest
from tools.simulator.disk import Disk
from tools.simulator.journal import SimulatedJournal
from tools.simulator.network import End, Host, Network
from tools.simulator.world import World

PUBLICATIONS = frozenset((Batch.kind, ExcludingBatch.kind, LaneBatch.kind, HomeBatch.kind, Publish.kind))
_KINDS = {Attach.kind: Kind.CLIENT, Command.kind: Kind.ADMIN}
DISK_FAILED = "the journal's disk has failed"
WORK_S = 0.001  # between two pieces of deferred work


class Watch(Protocol):
    """Who looks over a broker's shoulder: faults aimed at protocol steps, oracles."""

    def before(self, broker: BrokerHost, end: End, message: Message) -> bool:
        """A frame is about to be taken; False if the broker has just crashed instead."""

    def sending(self, broker: BrokerHost, message: Message) -> bool:
        """A control message is about to leave; False if the broker has just crashed instead."""

    def after(self, broker: BrokerHost) -> None:
        """A burst has been taken and the core has flushed."""

    def stopped(self, broker: BrokerHost, reason: str) -> None:
        """The core said that it cannot go on."""

    def left(self, broker: BrokerHost) -> None:
        """The broker has left the overlay in good order."""


class BrokerHost(Host):
    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        build: Callable[[BrokerHost, int, Kept], Core],  # incarnation, what the disk has
        *,
        random: Random,
        digest: Digest,
        capacity: Capacity = UNLIMITED,
        drain_s: float = 0.0001,
        sync_s: float = 0.001,
    ) -> None:
        super().__init__(world, network, name)
        self.random = random
        self.digest = digest
        self.capacity = capacity
        self.drain_s = drain_s
        self.disk = Disk(random, sync_s)
        self.journal: SimulatedJournal | None = None
        self.core: Core | None = None
        self.watch: Watch | None = None
        self.inbox: deque[tuple[End, Message | None]] = deque()
        self.paused_until = 0.0
        self.left = False  # for good
        self.jump_s = 0.0  # of the clock: a running daemon's time is steady, the next start sees it
        self.on_disk_error: Callable[[BrokerHost], None] = lambda broker: broker.crash()
        self._asked: Core | None = None  # to leave
        self.life = 0  # events of an earlier life are ignored
        self.forwarded = self.delivered = 0  # publications sent to neighbours, to clients
        self.last_kind = 0
        self._build = build
        self._waking = False
        self._tick_at: float | None = None
        self._busy_until = 0.0
        self._effort_s = 0.0  # of the core, when this burst began
        self._uplink_free_at = 0.0
        self._blocked: dict[int, End] = {}

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        self.up = True
        self.life += 1
        self.skew_s, self.jump_s = self.skew_s + self.jump_s, 0.0
        core = self.core = self._build(self, self.disk.start(self.clock()), self.disk.kept)
        self._waking = False
        self._busy_until = self._uplink_free_at = self.world.now
        self._tick_at = None
        core.start(self.clock())
        self._wake_at(self.world.now)

    def leave(self) -> None:
        """An administrator's word; the broker is gone when it has handed everything on."""
        if self.core is not None:
            self._asked = self.core
            self.core.leave(self.clock())
            if not self._waking:
                self._wake_at(self.world.now)

    @property
    def leaving(self) -> bool:
        """Asked to, and not gone; a crash has it forgotten."""
        return self.core is not None and self.core is self._asked

    def wake(self) -> None:
        """Somebody has spoken to the core behind the loop's back."""
        if self.core is not None and not self._waking:
            self._wake_at(self.world.now)

    def crash(self) -> None:
        if not self.up:
            return
        self.up = False
        self.life += 1
        self.core = None
        self.inbox.clear()
        self._blocked.clear()
        self.disk.crash()
        if self.journal is not None:
            self.journal.crash()
        self.network.host_gone(self)

    def pause(self, seconds: float) -> None:
        """The process is stopped: it reads nothing and its timers do not fire."""
        self.paused_until = max(self.paused_until, self.world.now + seconds)

    # --- the loop -----------------------------------------------------------------------------------

    def arrive(self, end: End, message: Message | None) -> None:
        self.inbox.append((end, message))
        if not self._waking:
            self._wake_at(self.world.now + self.drain_s)

    def _wake_at(self, at: float) -> None:
        self._waking = True
        self.world.at(max(at, self._busy_until, self.paused_until), self._wake, self.life)

    def _wake(self, life: int) -> None:
        if life != self.life:
            return
        world = self.world
        if world.now < self.paused_until or world.now < self._busy_until:
            self._wake_at(world.now)
            return
        self._waking = False
        core = self.core
        assert core is not None
        now = self.clock()
        frames = publications = 0
        self._effort_s = core.effort_s
        inbox = self.inbox
        while inbox and frames < self.capacity.drain_frames:
            end, message = inbox.popleft()
            frames += 1
            publications += self._take(core, end, message, now)
            if core is not self.core:
                return
        self._end_burst(core, now, frames, publications)

    def _take(self, core: Core, end: End, message: Message | None, now: float) -> int:
        number = end.number
        if message is None:
            self._down(core, end, now)
            return 0
        if not end.open:
            return 0
        kind = self.last_kind = message.kind
        if self.watch is not None and not self.watch.before(self, end, message):
            return 0
        if not end.known:
            end.known = True
            if number not in core.links:
                core.link_up(number, "", _KINDS.get(kind, Kind.PEER), now)
        if kind in PUBLICATIONS:
            count = len(message.publications)  # type: ignore[union-attr]
            self.digest.frame(now, self.index, kind, count)
            core.publications(number, message, now)  # type: ignore[arg-type]
            took(end, count)
            return count
        self.digest.frame(now, self.index, kind, 0)
        core.receive(number, message, now)
        return 0

    def _down(self, core: Core, end: End, now: float) -> None:
        if end.open:
            end.open = False
            end.cut = True
            self.ends.pop(end.number, None)
            core.link_down(end.number, now)

    def _end_burst(self, core: Core, now: float, frames: int, publications: int) -> None:
        deadline = core.next_deadline()
        if deadline is not None and deadline <= now:
            core.tick(now)
        more = core.work(now)
        out = core.flush(now)
        if out.fatal:
            self._stop(out.fatal)
            return
        copies = sum(len(batch.publications) for _, batch in out.batches)
        effort_s = self.capacity.effort_s(core, self._effort_s)
        if self.capacity.limited or effort_s:
            service_s = self.capacity.service_s(frames, publications, copies)
            self._busy_until = self.world.now + service_s + effort_s
        if self.watch is not None:
            self.watch.after(self)
            if core is not self.core:
                return
        if out.appends and self.journal is not None:
            self.journal.put(out.appends)
            out.appends.clear()
            self._write_journal()
        if out.journal:
            self._sync(core, out)
        elif out and effort_s:
            self._act_after(out, self._busy_until)
        elif out:
            self._act(out)
        if core is not self.core:
            return
        if core.finished:
            self._leave()
        else:
            self._plan(core, more)

    def _leave(self) -> None:
        self.up = False
        self.left = True
        self.life += 1
        self.core = None
        self.inbox.clear()
        for end in list(self.ends.values()):
            self.network.close(end)
        if self.watch is not None:
            self.watch.left(self)

    def _plan(self, core: Core, more: bool) -> None:
        """Wake again for what is left, and when the next timer is due."""
        if not self._waking and (self.inbox or more):
            self._wake_at(self.world.now + (WORK_S if more and not self.inbox else self.drain_s))
        deadline = core.next_deadline()
        if deadline is None:
            return
        # The virtual clock is finer than the wall clock's float: never wake before the deadline.
        at = max(self.world.now, self.world.now + (deadline - self.clock())) + 1e-6
        if self._tick_at is None or at < self._tick_at or self._tick_at < self.world.now:
            self._tick_at = at
            self.world.at(at, self._tick, (self.life, at))

    def _tick(self, planned: tuple[int, float]) -> None:
        life, at = planned
        if life == self.life and at == self._tick_at:
            self._tick_at = None
            if not self._waking:
                self._wake_at(self.world.now)

    def _stop(self, reason: str) -> None:
        watch = self.watch
        self.crash()
        if watch is not None:
            watch.stopped(self, reason)

    # --- the outbox ---------------------------------------------------------------------------------

    def _sync(self, core: Core, out: Outbox) -> None:
        """Set the outbox aside until the disk has the journal."""
        for record in out.journal:
            self.disk.append(record)
        aside = _set_aside(out)
        done_at = max(self.world.now, self._busy_until) + self.disk.sync_time_s()
        self._busy_until = done_at
        self.world.at(done_at, self._synced, (self.life, aside))

    def _act_after(self, out: Outbox, at: float) -> None:
        """What the core says is known when its work is done."""
        self.world.at(at, self._worked, (self.life, _set_aside(out)))

    def _worked(self, waiting: tuple[int, Outbox]) -> None:
        life, aside = waiting
        if life == self.life:
            self._act(aside)

    def _write_journal(self) -> None:
        """The log's own thread: nobody waits for it here."""
        if self.journal is not None and self.journal.begin():
            self.world.after(self.disk.sync_time_s(), self._journal_written, self.life)

    def make_room(self) -> None:
        """The journal's disk has room again, and its thread sees it although nothing is to be written."""
        if self.journal is not None:
            self.journal.disk.capacity = 1 << 40
            if self.core is not None and self.journal.writer is not None:
                self.core.persisted(self.journal.writer.synced, [], True, self.clock())

    def _journal_written(self, life: int) -> None:
        journal, core = self.journal, self.core
        if life != self.life or journal is None or core is None:
            return
        written = journal.finish()
        if written is None:
            self._stop(DISK_FAILED)
            return
        core.persisted(*written, self.clock())
        self.wake()
        self._write_journal()

    def _synced(self, waiting: tuple[int, Outbox]) -> None:
        life, aside = waiting
        if life != self.life:
            return
        if self.disk.fails:
            self.disk.fails = False
            self.on_disk_error(self)
            return
        self.disk.synced()
        self._act(aside)

    def _act(self, out: Outbox) -> None:
        for dial, addresses in out.opens:
            self._dial(dial, addresses)
        network, ends, watch = self.network, self.ends, self.watch
        for message, numbers in out.sends:
            if watch is not None and not watch.sending(self, message):
                return
            for number in numbers:
                if (end := ends.get(number)) is not None:
                    network.send(end, message)
        if out.batches:
            self._send_batches(out.batches)
            if network.codec:
                for (_, batch), chunk in zip(out.batches, out.chunks):
                    chunk.pack(encode_publications(batch.publications))
            if watch is not None and not watch.sending(self, out.batches[-1][1]):
                return
        for number in out.closes:
            if (end := ends.get(number)) is not None:
                network.close(end)
        out.clear()

    def _dial(self, dial: int, addresses: tuple[str, ...]) -> None:
        core = self.core
        assert core is not None
        end = self.network.dial(self, addresses)
        end.known = True
        core.link_up(end.number, addresses[0], Kind.PEER, self.clock(), dial=dial)
        # What the core says on the new link leaves with the next burst.
        if not self._waking:
            self._wake_at(self.world.now)

    def _send_batches(self, batches: list[tuple[int, Batch | Deliver]]) -> None:
        network, ends = self.network, self.ends
        rate = self.capacity.uplink_publications_s
        for number, batch in batches:
            count = len(batch.publications)
            if isinstance(batch, Batch):
                self.forwarded += count
            else:
                self.delivered += count
            if (end := ends.get(number)) is None:
                continue
            if rate:
                self._uplink_free_at = max(self.world.now, self._uplink_free_at) + count / rate
                network.send_from(end, batch, count, self._uplink_free_at)
            else:
                network.send(end, batch, count)
            if self.capacity.queue_publications:
                self._check_queue(number, end)

    # --- finite queues --------------------------------------------------------------------------------

    def _check_queue(self, number: int, end: End) -> None:
        other = end.other
        if other is not None and not other.blocked and other.queued > self.capacity.queue_publications:
            assert self.core is not None
            other.blocked = True
            self.core.blocked(number)

    def unblock(self, end: End) -> None:
        if self.core is not None:
            self.core.writable(end.number, self.clock())
            if not self._waking:
                self._wake_at(self.world.now + self.drain_s)


def _set_aside(out: Outbox) -> Outbox:
    aside = Outbox()
    aside.opens, aside.sends, aside.batches = out.opens[:], out.sends[:], out.batches[:]
    aside.chunks, aside.closes = out.chunks[:], out.closes[:]
    out.clear()
    return aside


def took(end: End, count: int) -> None:
    """Publications were taken from this end of a connection: its sender may be waiting."""
    end.queued -= count
    sender = end.other
    if end.blocked and sender is not None and isinstance(sender.host, BrokerHost):
        if end.queued * 2 <= sender.host.capacity.queue_publications:
            end.blocked = False
            if sender.open:
                sender.host.unblock(sender)
