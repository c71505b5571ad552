"""Daemons of one topology on this machine: started, recorded, watched and ended.

Everything lies in one directory: a configuration, a log and a state directory per broker, and `crew.json`
with the process ids. A process is known by its id and the moment it was started, so that `down` ends
exactly what `up` started and never somebody who got the same id later.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from daemon.settings.reference import toml_value
from grapevine.client.keys import Entry, KeyFileError, default_directory, entry_path, load, rival
from tools.pubctl.channel import Channel
from tools.pubctl.failure import FAILED, TIMEOUT, Failure
from tools.pubctl.interrupts import in_one_piece
from tools.pubctl.topology import BrokerPlan, Sections, Topology

FILE = "crew.json"
CONFIG = "grapevined.toml"  # of a broker, in its directory
KEY_FILE = "key.secret"  # of a broker, in its state directory
START_S = 30.0  # of one broker
STOP_S = 15.0
LOOK_S = 0.03
STARTED = 18  # where /proc/PID/stat has the start, counted from behind the state
SOCKET_PATH_BYTES = 107  # the operating system's limit for an ipc path
Progress = Callable[[str], None]


class Member(msgspec.Struct):
    name: str
    pid: int
    started: float  # see started_at
    address: str
    directory: str
    kind: str = "broker"
    keys: str = ""  # the directory where a broker wrote its address and key
    command: list[str] = []  # by which it was started

    @property
    def control(self) -> str:
        return f"ipc://{self.directory}/state/control"

    @property
    def log(self) -> Path:
        return Path(self.directory) / "log"

    @property
    def alive(self) -> bool:
        return self.started > 0 and started_at(self.pid) == self.started

    def signal(self, number: int) -> None:
        if self.alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass


def started_at(pid: int) -> float:
    """When the process was started, in ticks since the machine was; 0 if there is none, or only its remains.
    A time of day would not do: it moves when the clock is set, and a living process would not be known."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    state, *numbers = status.rpartition(")")[2].split()  # after the name, which may hold anything
    return 0.0 if state in "ZX" else float(numbers[STARTED])


class Crew:
    def __init__(self, directory: Path, keys: Path | None = None) -> None:
        self.directory = directory.absolute()
        self.keys = keys
        self.members: list[Member] = self._read()
        self.started: list[Member] = []  # by this object
        self._children: list[subprocess.Popen[bytes]] = []

    def _read(self) -> list[Member]:
        try:
            return msgspec.json.decode((self.directory / FILE).read_bytes(), type=list[Member])
        except FileNotFoundError:
            return []
        except msgspec.MsgspecError:
            raise Failure(f"{self.directory / FILE} is damaged: remove it when nothing runs there") from None

    def _write(self) -> None:
        beside = self.directory / f".{FILE}"
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(self.members), indent=1) + b"\n")
        beside.replace(self.directory / FILE)

    @property
    def alive(self) -> list[Member]:
        self.reap()
        return [member for member in self.members if member.alive]

    def reap(self) -> None:
        """Collect those of our own children that have ended."""
        self._children = [child for child in self._children if child.poll() is None]

    def __getitem__(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    # --- up ---------------------------------------------------------------------------------------

    def up(self, topology: Topology, progress: Progress = lambda text: None) -> None:
        """Start every broker that does not run, parents first, and wait until all are ready.

        A level is started when the one above answers, so that its keys are known. That it is ready comes
        later: a broker that ran before waits for the neighbours it had.
        """
        self.check_free(topology)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.members = running = self.alive
        names = {member.name for member in running}
        began = time.monotonic()
        for level in topology.levels():
            members = []
            missing = [broker for broker in level if broker.name not in names]
            for broker in sorted(missing, key=lambda broker: broker.start_s):
                time.sleep(max(0.0, began + broker.start_s - time.monotonic()))
                members.append(self._start(broker, topology.settings(broker)))
            for member in members:
                self._await(member, self._answers, "does not answer")
        for member in self.started:
            self._await(member, self._is_ready, "is not ready")
            progress(member.name)

    def check_free(self, topology: Topology) -> None:
        """Somebody is to be started, and nobody else is cut off by it."""
        running = {member.name for member in self.alive}
        if self.is_whole(topology):
            raise Failure(f"all {len(running)} of these run already: `pubctl local down` ends them")
        for broker in topology.brokers:
            if broker.name not in running:
                self._check_name(broker, topology.settings(broker))

    def is_whole(self, topology: Topology) -> bool:
        """Everybody of it runs."""
        wanted = {broker.name for broker in topology.brokers} | {client.name for client in topology.clients}
        return wanted <= {member.name for member in self.alive}

    def _check_name(self, broker: BrokerPlan, sections: Sections) -> None:
        keys = self._keys_of(sections)
        try:
            public = load(self.directory / broker.name / "state" / KEY_FILE).public
        except (FileNotFoundError, KeyFileError):
            public = ""
        if where := rival(keys, broker.name, public, broker.listen):
            raise Failure(
                f"another broker named {broker.name} runs at {where} and has its key in {keys}: name these "
                'otherwise (generate = { prefix = "x", ... }), or give them keys of their own '
                '([defaults.security] keys = "DIR", and GRAPEVINE_KEYS=DIR for pubctl)'
            )

    def _keys_of(self, sections: Sections) -> Path:
        configured = sections.get("security", {}).get("keys")
        if self.keys is not None:
            return self.keys
        return Path(configured).expanduser() if configured else default_directory()

    def _start(self, broker: BrokerPlan, sections: Sections) -> Member:
        directory = self.directory / broker.name
        directory.mkdir(exist_ok=True)
        config = directory / CONFIG
        config.write_text(toml(self._placed(broker, sections)))
        command = [sys.executable, "-P", "-m", "daemon.main", "--config", str(config)]
        member = self.launch(broker.name, broker.address, directory, command)
        member.keys = str(self._keys_of(sections))
        self._write()
        if len(member.control.encode()) - len("ipc://") > SOCKET_PATH_BYTES:
            raise Failure(f"{member.control} is too long for a socket: use a shorter --dir")
        return member

    def _placed(self, broker: BrokerPlan, sections: Sections) -> Sections:
        """With what depends on where it runs."""
        sections.setdefault("broker", {})["state_dir"] = str(self.directory / broker.name / "state")
        if self.keys is not None:
            sections.setdefault("security", {})["keys"] = str(self.keys)
        return sections

    def outdated(self, topology: Topology) -> list[str]:
        """Brokers that were started before with another configuration than the file has for them now."""
        running = {member.name for member in self.alive} - {member.name for member in self.started}
        return [b.name for b in topology.brokers if b.name in running and self._differs(topology, b)]

    def _differs(self, topology: Topology, broker: BrokerPlan) -> bool:
        try:
            has = tomllib.loads((self.directory / broker.name / CONFIG).read_text())
        except (OSError, ValueError):
            return False  # nobody knows
        return has != tomllib.loads(toml(self._placed(broker, topology.settings(broker))))

    def launch(
        self, name: str, address: str, directory: Path, command: list[str], kind: str = "broker"
    ) -> Member:
        """A process of its own session: an interrupt of the terminal is not meant for it."""
        directory.mkdir(exist_ok=True)
        with open(directory / "log", "ab") as log, in_one_piece():
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
                start_new_session=True,
                env=os.environ | ({} if self.keys is None else {"GRAPEVINE_KEYS": str(self.keys)}),
            )
            self._children.append(child)
            member = Member(
                name, child.pid, started_at(child.pid), address, str(directory), kind, command=command
            )
            self.members = [*(other for other in self.members if other.name != name), member]
            self.started.append(member)
            self._write()
        return member

    def _await(self, member: Member, goal: Callable[[Member], bool], complaint: str) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            self.reap()
            if not member.alive:
                raise Failure(f"{member.name} did not start: {last_line(member.log)}", FAILED)
            if goal(member):
                return
            time.sleep(LOOK_S)
        raise Failure(f"{member.name} {complaint} after {START_S:g} s; its log is {member.log}", TIMEOUT)

    def _answers(self, member: Member) -> bool:
        return self._state(member) is not None

    def _is_ready(self, member: Member) -> bool:
        return self._state(member) == "ready"

    def _state(self, member: Member) -> str | None:
        if not Path(member.control.removeprefix("ipc://")).exists():
            return None
        try:
            with Channel(member.control, 2.0) as channel:
                found = channel.ask("broker.info", broker=member.name).body["brokers"]
        except Failure:
            return None
        return str(found[0]["state"])

    # --- again ------------------------------------------------------------------------------------

    def restart(self, name: str, plan: Topology | None = None, timeout_s: float = STOP_S) -> Member:
        """End one, if it runs, and start it again; it keeps its state and its key. A broker of `plan` gets
        the configuration that it has there, anybody else the one that it was started with."""
        old = self[name]
        if not old.command:
            raise Failure(f"{name} was started by an older pubctl: `pubctl local down` and `up` instead")
        self._end([old], timeout_s, lambda text: None)
        planned = [broker for broker in plan.brokers if broker.name == name] if plan is not None else []
        if plan is not None and planned:
            member = self._start(planned[0], plan.settings(planned[0]))
        else:
            member = self.launch(name, old.address, Path(old.directory), old.command, old.kind)
            member.keys = old.keys
            self._write()
        if member.kind == "broker":
            self._await(member, self._is_ready, "is not ready")
        return member

    # --- down -------------------------------------------------------------------------------------

    def down(
        self,
        timeout_s: float = STOP_S,
        progress: Progress = lambda text: None,
        only: list[Member] | None = None,
    ) -> list[str]:
        """End what runs, clients before brokers; the names of those that had to be killed."""
        leaving = self.members if only is None else only
        killed = self._end(leaving, timeout_s, progress)
        for member in leaving:
            forget_key(member)
        self.members = [member for member in self.members if member not in leaving]
        if self.members:
            self._write()
        else:
            (self.directory / FILE).unlink(missing_ok=True)
        return killed

    def _end(self, leaving: list[Member], timeout_s: float, progress: Progress) -> list[str]:
        for member in reversed(self._living(leaving)):
            member.signal(signal.SIGTERM)
        ended = self._ended(leaving, timeout_s, progress)
        killed = [] if ended else [member.name for member in self._living(leaving)]
        for member in self._living(leaving):
            member.signal(signal.SIGKILL)
        self._ended(leaving, timeout_s, progress)
        return killed

    def _living(self, members: list[Member]) -> list[Member]:
        self.reap()
        return [member for member in members if member.alive]

    def _ended(self, leaving: list[Member], timeout_s: float, progress: Progress) -> bool:
        deadline = time.monotonic() + timeout_s
        running = {member.name for member in self._living(leaving)}
        while running and time.monotonic() < deadline:
            time.sleep(LOOK_S)
            still = {member.name for member in self._living(leaving)}
            for name in sorted(running - still):
                progress(name)
            running = still
        return not running


def forget_key(member: Member) -> None:
    """Who listens at this address next has another key: nobody should find the old one."""
    if not member.keys:
        return
    path = entry_path(Path(member.keys), Entry(member.name, ""))
    try:
        if member.address in path.read_text():
            path.unlink()
    except OSError:
        pass  # gone, or not ours


def toml(sections: Sections) -> str:
    return "\n".join(_lines(sections)) + "\n"


def _lines(sections: Sections) -> Iterator[str]:
    for section, values in sections.items():
        yield f"[{section}]"
        yield from (f"{key} = {toml_value(value)}" for key, value in values.items())


def last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it said nothing"
