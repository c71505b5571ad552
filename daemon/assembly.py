"""A daemon put together from its settings: state, keys, sockets, core, loop, in this order.

Whatever can go wrong goes wrong here, before anything is promised to anybody: a Failure leaves no socket
bound and no thread behind that matters.
"""

from __future__ import annotations

import os
import socket
import threading
from functools import partial
from pathlib import Path
from random import Random

from daemon.clock import Clock
from daemon.dataset_log import DiskDatasetLog
from daemon.delivery_log import DeliveryLog
from daemon.errors import Failure
from daemon.journal import JournalThread
from daemon.journal_files import DiskFiles
from daemon.keys import Keys, keys_directory, publish
from daemon.link_news import LinkNews
from daemon.logs import log, set_level
from daemon.loop import Loop
from daemon.receiving import Receiver
from daemon.records import Records, adopt_files
from daemon.results import DiskResults
from daemon.sending import Sender
from daemon.settings import Settings
from daemon.settings.checks import path_mistake
from daemon.sockets import Sockets, bound_address, new_context, told_address
from daemon.spool import DiskSpool
from daemon.state import State, directory
from daemon.upkeep import Upkeep
from daemon.watch import Watch
from daemon.wires import Door, Wires
from daemon.zap import Gate
from grapevine.filters import NOTHING, Filter
from overlay.channels.store import Disks
from overlay.core import Core
from overlay.journal.files import DiskFailed, DiskFull
from overlay.journal.journal import Opened
from overlay.journal.opening import open_journal
from overlay.journal.recovery import Unreadable
from overlay.outbox import Event
from overlay.profiles import Start, build


def broker_name(settings: Settings) -> str:
    return settings.broker.name or socket.gethostname()


class Assembly:
    """The parts of a running daemon, and their end."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = broker_name(settings)
        self.clock = Clock()
        self.state = State(directory(settings, self.name))
        self.keys = self._make_keys() if settings.security.curve else None
        self.context = new_context(settings.security.curve)
        self.delivery_log: DeliveryLog | None = None
        self.journal: JournalThread | None = None
        self.doors: list[Door] = []
        try:
            self._connect()
        except Failure:
            for door in self.doors:
                door.close(0)
            self.context.term()
            raise

    def _connect(self) -> None:
        settings = self.settings
        self.gate = Gate(self.context, self.keys)
        self.gate.start()
        self.sockets = Sockets(self.context, settings.transport, self.keys)
        for address in settings.broker.listen:
            self._listen(address)
        told = tuple(told_address(door.address) for door in self.doors)
        self.addresses = settings.broker.addresses or told
        self.control = settings.broker.control or f"ipc://{self.state.path}/control"
        if mistake := path_mistake(self.control):
            raise Failure(f"control socket: {mistake} (broker.control)")
        self._listen(self.control)
        public = self.keys.public if self.keys is not None else ""
        publish(keys_directory(settings.security.keys), self.name, public, self.addresses)
        self.upkeep = Upkeep()
        self.core = self._make_core()
        self.watch = Watch()
        self.wires = Wires(self.watch, settings.transport.connections)
        if self.keys is not None:
            self.core.granted = self._granted
            self.core.may_connect = lambda key: self.keys is not None and self.keys.grant(key) is not None
        self.loop = self._make_loop()
        self.loop.at_intervals(self.upkeep)
        if settings.delivery_log.mode != "off":
            self.delivery_log = self._make_delivery_log()

    # --- parts -----------------------------------------------------------------------------------

    def _make_keys(self) -> Keys:
        directory = keys_directory(self.settings.security.keys)
        return Keys(directory, self._further(), self.state.path / "key.secret")

    def _further(self) -> Path:
        said = self.settings.security.authorised
        return Path(said).expanduser() if said else self.state.path / "authorised"

    def _listen(self, address: str) -> None:
        router = self.sockets.listen(address)
        secured = self.keys is not None and address.startswith("tcp://")
        self.doors.append(Door(router, bound_address(router), secured))

    def _make_core(self) -> Core:
        now = self.clock()
        incarnation = self.state.incarnation(now)
        self.records = Records(self.state.path)
        adopt_files(self.records)
        self.spool = DiskSpool(self.state.path / "staged")
        opened = self._open_journal(incarnation) if self.settings.journal.enabled else None
        core = build(
            Start(
                self.name,
                incarnation,
                self.settings.core(),
                Random(os.urandom(16)),
                self.addresses,
                self.upkeep.index,
                self.records.tables,
                frozenset(self.settings.broker.roles),
                self.spool,
                opened,
                self._make_disks(),
                self.settings.broker.backend,
                self.settings.broker.location,
                self.settings.broker.coordinator,
            )
        )
        core.add(LinkNews())
        return core

    def _open_journal(self, incarnation: int) -> Opened:
        """What is on disk is read, and what may be gone after the next power cut is written anew."""
        said = self.settings.journal
        path = Path(said.dir).expanduser() if said.dir else self.state.path / "journal"
        files = DiskFiles(path)
        try:
            writer, opened = open_journal(files, incarnation)
        except (Unreadable, DiskFailed) as error:
            raise Failure(f"journal {path}: {error}") from None
        except DiskFull:
            raise Failure(f"journal {path}: no room to write its last segment anew: free some") from None
        if opened.holes:
            log.error("the journal has lost %d positions to a damaged disk", opened.holes)
            if said.on_rot == "stop":
                raise Failure(f'journal {path} is damaged, and journal.on_rot is "stop": restore a copy')
        if opened.torn:
            log.warning("the journal's last %d bytes were not finished and do not count", opened.torn)
        self.journal = JournalThread(files, writer)
        self.journal.start()
        return opened

    def _make_disks(self) -> Disks | None:
        """What a back end keeps."""
        if "backend" not in self.settings.broker.roles:
            return None
        path = self.state.path / "channels"
        return Disks(DiskDatasetLog(path / "datasets"), DiskResults(path / "results"))

    def _make_loop(self) -> Loop:
        core, wires, transport = self.core, self.wires, self.settings.transport
        self.sender = Sender(core, wires, self.settings.links.batch_bytes)
        self.receiver = receiver = Receiver(core, wires, self.keys, transport.drain_frames)
        for door in self.doors:  # endings are heard of before what came after them
            self.watch.add(door.monitor, partial(receiver.hear_endings, door))
            self.watch.add(door.socket, partial(receiver.drain_door, door))
        loop = Loop(
            core,
            self.clock,
            self.watch,
            self.sockets,
            wires,
            self.sender,
            receiver,
            self.records,
            self.log_events,
            self.journal,
        )
        loop.stuck_s = self.settings.journal.stuck_s
        return loop

    def _granted(self, link: int) -> tuple[Filter, Filter]:
        """What the key of a link may publish and ask."""
        wire = self.wires.by_number.get(link)
        return (wire.grant.publish, wire.grant.ask) if wire is not None else (NOTHING, NOTHING)

    def _make_delivery_log(self) -> DeliveryLog:
        wanted = self.settings.delivery_log
        path = Path(wanted.dir).expanduser() if wanted.dir else self.state.path / "deliveries"
        writer = DeliveryLog(path, self.name, wanted.segment_bytes)
        writer.start()
        return writer

    def log_events(self, events: list[Event]) -> None:
        """Notes are for people, the rest is the delivery log's."""
        for event in events:
            if event.event == "note":
                log.info("%s", event.reason)
        if self.delivery_log is not None:
            self.delivery_log.put([event for event in events if event.event != "note"])

    # --- other settings --------------------------------------------------------------------------

    def take(self, settings: Settings) -> None:
        """The keys marked reload have other values now (daemon.settings.sections)."""
        self.settings = settings
        now, transport = self.clock(), settings.transport
        set_level(settings.log.level)
        if self.keys is not None:
            self.keys.further = self._further()
            self.keys.read_again()
        self.sender.limit = settings.links.batch_bytes
        self.loop.stuck_s = settings.journal.stuck_s
        self.receiver.frames_max, self.wires.limit = transport.drain_frames, transport.connections
        if settings.delivery_log.mode != "off" and self.delivery_log is None:
            self.delivery_log = self._make_delivery_log()
        self.core.reconfigure(settings.core(), now)
        self.receiver.review(now)

    # --- the end ---------------------------------------------------------------------------------

    def _end_context(self) -> None:
        """Wait for the frames that sockets hold, but not for a socket that a mistake of ours left open."""
        ending = threading.Thread(target=self.context.term, daemon=True)
        ending.start()
        ending.join(self.settings.transport.linger_s + 1)

    def close(self) -> None:
        """Send what the sockets hold, for a limited time, and let go of everything."""
        for wire in list(self.wires):
            self.wires.drop(wire)
        for door in self.doors:
            door.close(int(self.settings.transport.linger_s * 1000))
        if self.delivery_log is not None:
            self.delivery_log.close()
        self._end_context()
        if self.journal is not None:
            self.journal.close()
        self.spool.close()
        if self.control.startswith("ipc:///"):
            Path(self.control.removeprefix("ipc://")).unlink(missing_ok=True)
        self.records.close()
        self.state.close()
