"""The life of the process: signals, readiness, watchdog, reload, the end and its exit code."""

from __future__ import annotations

import faulthandler
import resource
import signal
import socket
from collections.abc import Callable
from types import FrameType

from daemon.assembly import Assembly
from daemon.compiled import missing
from daemon.control import Control
from daemon.errors import EXIT_FAILED, EXIT_OK, Failure
from daemon.event_log import EventLog
from daemon.logs import log
from daemon.loop import Fatal
from daemon.measure import Measures
from daemon.memory import calm_collector, keep_large_blocks
from daemon.notify import Notify
from daemon.settings import ConfigError, Settings
from daemon.settings.reloading import taken
from daemon.stopping import Stopping
from overlay.tree.sync import TABLE as TREE

SERVES_S = 0.25  # between two looks whether a late broker serves clients
STATUS_S = 10.0


class Process:
    def __init__(self, settings: Settings, reread: Callable[[], Settings]) -> None:
        self.settings = settings
        self._reread = reread
        self._signals: list[int] = []
        self.ready = False  # and systemd knows
        self.serves = False  # clients, and the log says so
        faulthandler.enable()  # a watchdog's SIGABRT leaves the stacks of all threads in the log
        raise_descriptor_limit()
        keep_large_blocks()
        self.parts = Assembly(settings)
        self.loop, self.core = self.parts.loop, self.parts.core
        self.notify = Notify()
        self.stopping = Stopping(self.core)
        self.control = Control(self.core, settings, self.reload)
        self._listen_to_signals()
        self.started_at = self.parts.clock()
        self.loop.at_intervals(self._report_ready)
        self.loop.at_intervals(Measures(self.loop))
        self.loop.at_intervals(EventLog(self.core))
        self.loop.at_intervals(self._report_status)
        self.loop.at_intervals(self.stopping)
        if self.notify.watchdog_s:
            self.loop.at_intervals(self._feed_watchdog)
        if settings.http.listen:
            self._serve_http(settings.http.listen, settings.http.hosts)

    def _serve_http(self, listen: str, hosts: tuple[str, ...]) -> None:
        """Loaded only where it is wanted."""
        from daemon.metrics import Metrics
        from daemon.web import Web

        try:
            web = Web(listen, Metrics(self.parts), self.parts.control, self._why_not_ready, hosts)
        except Failure:
            self.parts.close()
            raise
        self.loop.at_intervals(web.listen_to(self.parts.clock))
        web.start()
        log.info("metrics and health on http://%s", web.address)

    def _why_not_ready(self) -> str:
        if self.stopping.asked:
            return "stopping"
        if self.core.ready:
            return ""
        away = ", ".join(sorted(peer.name for peer in self.core.peers.values() if peer.link is None))
        return f"waiting for {away or 'neighbours'}"

    def run(self) -> int:
        log.info("listening on %s, control %s", ", ".join(self.parts.addresses), self.parts.control)
        if not self.settings.security.curve:
            log.warning(
                "security.curve is false: nothing on tcp is encrypted, and whoever reaches it may publish, "
                "subscribe, join as a broker and administer (drain, reload, move)"
            )
        if slower := missing():
            log.warning(
                "no compiled loops for %s: slower; install again with a compiler", " and ".join(slower)
            )
        self.core.start(self.parts.clock())
        calm_collector()
        try:
            while not self.stopping.over and not self.core.finished:
                self.loop.turn()
                if self._signals:
                    self._act_on_signals()
        except (Fatal, Failure) as error:
            log.error("%s", error)
            return self._end(EXIT_FAILED)
        except Exception:
            recent = " ".join(f"{link}:{kind}:{size}" for link, kind, size in self.parts.receiver.recent)
            log.exception("a mistake of our own; the last frames (link:kind:bytes) were %s", recent)
            return self._end(EXIT_FAILED)
        return self._end(EXIT_OK)

    def _end(self, code: int) -> int:
        self.notify.stopping()
        if code == EXIT_OK:
            self.loop.turn()
            if self.core.finished:
                self.parts.records.end(TREE)
        self.parts.close()
        log.info("stopped")
        return code

    # --- signals ---------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        """A handler only notes the signal; a pipe wakes the loop."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self._wakeup = (reader, writer)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self.parts.watch.add(reader.fileno(), self._woken)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _woken(self, now: float) -> bool:
        try:
            self._wakeup[0].recv(4096)
        except BlockingIOError:
            pass
        return False

    def _act_on_signals(self) -> None:
        signals, self._signals = self._signals, []
        for number in signals:
            if number == signal.SIGHUP:
                self._reload_and_say()
            else:
                self.notify.stopping()
                self.stopping.ask(self.parts.clock(), self.settings.transport.drain_s)
                self.loop.call_all_soon()

    # --- reload ----------------------------------------------------------------------------------

    def _reload_and_say(self) -> None:
        self.notify.send(reloading="1")
        try:
            self.reload()
        except ConfigError as error:
            for problem in error.problems:
                log.error("not reloaded: %s", problem)
        self.notify.ready(self._status())

    def reload(self) -> list[str]:
        """Take the keys that can be taken; returns those that need a restart. Raises ConfigError, and then
        nothing has changed."""
        change = taken(self.settings, self._reread())
        self.settings = self.control.settings = change.settings
        self.parts.take(change.settings)
        log.info("reloaded: %s", ", ".join(change.now) or "nothing changed")
        if change.restart:
            log.warning("these need a restart: %s", ", ".join(change.restart))
        return change.restart

    # --- readiness -------------------------------------------------------------------------------

    def _report_ready(self, now: float) -> float:
        late = now >= self.started_at + self.settings.transport.ready_s
        if not self.ready and (self.core.ready or late):
            self.ready = True
            self.notify.ready(self._status())
            if not self.core.ready:
                after_s, why = now - self.started_at, self._why_not_ready()
                log.warning("up after %.3f s, and serves no clients yet: %s", after_s, why)
        if self.core.ready and not self.serves:
            self.serves = True
            log.info("ready after %.3f s", now - self.started_at)
        if self.serves:
            return now + 3600
        return now + (SERVES_S if self.ready else 0.01)

    def _status(self) -> str:
        clients, peers = len(self.core.clients), sum(p.link is not None for p in self.core.peers.values())
        return f"{peers} of {len(self.core.peers)} neighbours, {clients} clients"

    def _report_status(self, now: float) -> float:
        if self.ready and not self.stopping.asked:
            self.notify.status(self._status())
        return now + STATUS_S

    def _feed_watchdog(self, now: float) -> float:
        self.notify.watchdog()
        return now + self.notify.watchdog_s / 3


def raise_descriptor_limit() -> None:
    """As many connections as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65_536) if hard != resource.RLIM_INFINITY else 65_536
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
