"""The state directory: what must survive a restart, and the lock that keeps it to one daemon.

A record is replaced as a whole: written beside, synced, renamed, directory synced. What was read back is
therefore always one of the values written. The incarnation rises with every start, also when the clock
was set back or the directory was restored from a copy an hour old.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import msgspec

from daemon.errors import Failure, next_step
from daemon.settings import Settings


def directory(settings: Settings, name: str) -> Path:
    """Where this broker keeps its state."""
    if settings.broker.state_dir:
        return Path(settings.broker.state_dir).expanduser().absolute()
    if given := os.environ.get("STATE_DIRECTORY"):
        return Path(given.partition(":")[0])
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "grapevine" / name


class State:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Failure(f"state directory {path} cannot be used: {next_step(error)}") from None
        self._take_lock()

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
            raise Failure(
                f"state directory {self.path} is used by the daemon with pid {pid or 'unknown'}: "
                "stop it, or give this one another broker.name or broker.state_dir"
            ) from None
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise Failure(f"state directory {self.path} cannot be written: {next_step(error)}") from None

    def close(self) -> None:
        os.close(self._lock)

    def incarnation(self, wall_s: float) -> int:
        """This start's number, on disk before anybody hears it."""
        number = max(int(self.read("incarnation", int, 0)) + 1, int(wall_s))
        self.write("incarnation", number)
        return number

    def read(self, key: str, kind: Any, default: Any) -> Any:
        path = self._place(key)
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return default
        except OSError as error:
            raise Failure(f"{path} cannot be read: {next_step(error)}") from None
        except (msgspec.MsgspecError, ValueError):
            raise Failure(f"{path} is damaged: restore it from a copy, or remove it to start anew") from None

    def write(self, key: str, value: object) -> None:
        path = self._place(key)
        try:
            replace_file(path, msgspec.json.encode(value) + b"\n")
        except OSError as error:
            raise Failure(f"{path} cannot be written: {next_step(error)}") from None

    def _place(self, key: str) -> Path:
        assert key.isidentifier(), key
        return self.path / f"{key}.json"


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write beside, sync, rename, sync the directory: a reader sees the old content or the new."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(place)
    finally:
        os.close(place)
