"""Real daemons in a temporary directory, on free ports of the loopback, stopped by their pids."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Any

from daemon.settings.reference import toml_value

ROOT = Path(__file__).resolve().parents[2]
READY_S = 60.0
SOON_S = 30.0  # until what must happen has happened, on a busy machine too
TICKS_S = os.sysconf("SC_CLK_TCK")


given: set[int] = set()  # a port that was given is free until its daemon listens: it must not be given twice


def free_port() -> int:
    """Below the ports that the system gives to outgoing connections, so that none of them takes it first."""
    while True:
        port = SystemRandom().randrange(15_000, 32_000)
        if port in given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        given.add(port)
        return port


def eventually(condition: Callable[[], Any], timeout_s: float = SOON_S, every_s: float = 0.02) -> Any:
    """What `condition` returns once it is true; fails the test when it never is."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {condition}"
        time.sleep(every_s)
    return value


def _with_bytecode() -> dict[str, str]:
    """The environment, in which Python keeps what it has compiled, as for an installed daemon: one that
    compiles everything at each start has megabytes more."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"PYTHONPYCACHEPREFIX": str(ROOT / ".cache" / "bytecode"), **kept}


class Daemon:
    """One broker: its configuration file, its log, and its process while it runs."""

    def __init__(self, directory: Path, name: str, sections: dict[str, dict[str, Any]]) -> None:
        self.name = name
        self.directory = directory / name
        self.directory.mkdir(parents=True)
        self.config = self.directory / f"{name}.toml"
        self.log_file = self.directory / "log"
        self.keys = directory / "keys"
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.process: subprocess.Popen[bytes] | None = None
        self.python, self.cwd = sys.executable, ROOT  # another version has others
        base = {
            "broker": {"name": name, "listen": [self.address], "state_dir": str(self.directory / "state")},
            "security": {"keys": str(self.keys)},
            "links": {"ping_s": 0.5, "redial_s": 0.1, "greet_s": 1.0},
        }
        for section, values in sections.items():
            base.setdefault(section, {}).update(values)
        self.configure(base)

    def configure(self, sections: dict[str, dict[str, Any]]) -> None:
        self.sections = sections
        lines = []
        for section, values in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {toml_value(value)}" for key, value in values.items()]
        self.config.write_text("\n".join(lines) + "\n")

    @property
    def control(self) -> Path:
        return self.directory / "state" / "control"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self, **environment: str) -> Daemon:
        with open(self.log_file, "ab") as log:
            self._log_from = log.tell()
            self.process = subprocess.Popen(
                [self.python, "-m", "daemon.main", "--config", str(self.config)],
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_with_bytecode(), **environment},
            )
        return self

    def ready(self, timeout_s: float = READY_S) -> Daemon:
        def said() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} ended: {self.log()}"
            return "ready after" in (log := self.log()) or "up after" in log

        eventually(said, timeout_s)
        return self

    def log(self) -> str:
        """What it has said since its last start."""
        return self.log_file.read_bytes()[self._log_from :].decode()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 60.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def stop(self, timeout_s: float = 60.0) -> int:
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def cpu_s(self) -> float:
        """Spent so far, whatever else the machine does."""
        numbers = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / TICKS_S

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Overlay:
    """Daemons that share a keys directory. As a context it ends them all."""

    def __init__(self, directory: Path, **defaults: dict[str, Any]) -> None:
        self.directory = directory
        self.defaults = defaults
        self.daemons: dict[str, Daemon] = {}

    def __enter__(self) -> Overlay:
        return self

    def __exit__(self, *error: object) -> None:
        running = [d for d in self.daemons.values() if d.process is not None and d.process.poll() is None]
        for daemon in running:
            daemon.signal(signal.SIGKILL)
        for daemon in running:
            daemon.wait()

    def __getitem__(self, name: str) -> Daemon:
        return self.daemons[name]

    def add(self, name: str, parent: str = "", **sections: dict[str, Any]) -> Daemon:
        """A configured broker, not started."""
        merged = {section: dict(values) for section, values in self.defaults.items()}
        for section, values in sections.items():
            merged.setdefault(section, {}).update(values)
        if parent:
            merged.setdefault("tree", {})["neighbours"] = [self.daemons[parent].address]
        daemon = self.daemons[name] = Daemon(self.directory, name, merged)
        return daemon

    def start(self, name: str, parent: str = "", **sections: dict[str, Any]) -> Daemon:
        return self.add(name, parent, **sections).start().ready()
