"""Hosts for `pubctl deploy`: a real sshd, keys of its own, and pubctl as an operator calls it.

`Lab` takes loopback addresses for hosts: one sshd answers for all. `NamespaceLab` gives each host a network
namespace with an address, a link and an sshd; a host whose link is down is reached by nobody. The file system
is one in both, so every host has a directory of its own in it.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import SystemRandom
from typing import Any

from tests.system.overlay import eventually, free_port

NAMED = 100_000  # numbers of namespaces that end up in interface names


def why_no_sshd() -> str:
    if not Path(sshd_path()).exists() or shutil.which("ssh-keygen") is None:
        return "needs sshd (Debian: openssh-server)"
    return ""


def why_no_namespaces() -> str:
    """What is missing for hosts in namespaces; empty if nothing is."""
    if missing := why_no_sshd():
        return missing
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("ip") is None:
        return "needs ip (Debian: iproute2)"
    name = f"gv{SystemRandom().randrange(NAMED)}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return "no network namespace can be made here"
    _ip("netns", "del", name)
    return ""


def sshd_path() -> str:
    return shutil.which("sshd") or "/usr/sbin/sshd"


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Lab:
    """As a context it ends the sshd, and takes down what is still up."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.base = free_port(), free_port()
        self.at = f"/tmp/grapevine-lab-{self.port}"
        self.topology = directory / "lab.toml"
        self.sshds: list[subprocess.Popen[bytes]] = []
        self.environment = os.environ | {
            "GRAPEVINE_KEYS": str(directory / "keys"),
            "XDG_STATE_HOME": str(directory / "state"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        self.keys = directory / "keys"

    def __enter__(self) -> Lab:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self._make_keys()
        self._serve()
        return self

    def __exit__(self, *error: object) -> None:
        if Path(self.at).exists() and self.topology.exists():
            self("down", "--yes", code=None)
        for sshd in self.sshds:
            sshd.terminate()
            sshd.wait()

    def _make_keys(self) -> None:
        directory = self.directory
        for name in ("host", "user"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
            subprocess.run(make, check=True)
        public = (directory / "host.pub").read_text().split()[:2]
        (directory / "known").write_text(f"* {' '.join(public)}\n")
        (directory / "authorised").write_text((directory / "user.pub").read_text())
        (directory / "authorised").chmod(0o600)

    def _serve(self) -> None:
        self._sshd("all")

    def _sshd(self, name: str, *inside: str) -> None:
        directory = self.directory
        options = {
            "Port": self.port, "ListenAddress": "0.0.0.0", "HostKey": directory / "host",
            "AuthorizedKeysFile": directory / "authorised", "StrictModes": "no", "UsePAM": "no",
            "PidFile": directory / f"pid-{name}", "PermitRootLogin": "yes", "MaxStartups": "200",
        }  # fmt: skip
        config = directory / f"sshd-{name}"
        config.write_text("".join(f"{key} {value}\n" for key, value in options.items()))
        words = [*inside, sshd_path(), "-D", "-e", "-f", str(config)]
        self.sshds.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
        eventually(lambda: (directory / f"pid-{name}").exists())

    # --- the topology -------------------------------------------------------------------------------

    def host(self, number: int) -> str:
        return f"127.0.1.{number}"

    def address(self, broker: int) -> str:
        return f"tcp://{self.host(broker)}:{self.base}"

    def write(self, brokers: int, absent: bool = False, links: dict[str, float] | None = None) -> None:
        """A binary tree, one broker a host; `links` are settings for all of them."""
        lines = [f"port = {self.base}", "[defaults.links]"]
        lines += [f"{key} = {value}" for key, value in (links or {}).items()]
        for number in range(1, brokers + 1):
            lines += ["[[broker]]", f'name = "b{number}"', f'host = "{self.host(number)}"']
            lines += [f'neighbours = ["b{number // 2}"]'] if number > 1 else []
        if absent:
            lines += ["[[broker]]", 'name = "gone"', 'host = "192.0.2.1"', 'neighbours = ["b1"]']
        self.topology.write_text("\n".join(lines) + "\n")

    def place(self, broker: int) -> Path:
        """Of its log and pid, at its host."""
        return Path(self.at) / self.host(broker) / f"b{broker}"

    # --- pubctl ---------------------------------------------------------------------------------------

    def command(self, verb: str, *words: str) -> list[str]:
        said = [sys.executable, "-m", "tools.pubctl.main", "deploy", verb, str(self.topology)]
        said += ["--port", str(self.port), "--identity", str(self.directory / "user"), "--at", self.at]
        said += ["--known-hosts", str(self.directory / "known"), "--user", getpass.getuser()]
        return [*said, *words]

    def __call__(self, verb: str, *words: str, code: int | None = 0, timeout_s: float = 280) -> Any:
        """What it printed as JSON; `code` is how it should end, None: in any way."""
        command = self.command(verb, *words, "-o", "json")
        ended = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, timeout=timeout_s
        )
        assert code is None or ended.returncode == code, ended.stdout + ended.stderr
        return json.loads(ended.stdout) if ended.stdout.startswith("{") else ended.stdout

    def states(self, verb: str, *words: str) -> set[str]:
        return {row["state"] for row in self(verb, *words)["rows"]}

    def pids(self) -> dict[Path, str]:
        return {path: path.read_text() for path in Path(self.at).glob("*/b*/pid")}


class NamespaceLab(Lab):
    """Hosts on a bridge; this machine is at it too."""

    def __init__(self, directory: Path, hosts: int) -> None:
        super().__init__(directory)
        self.hosts = hosts
        self.tag = f"gv{SystemRandom().randrange(NAMED)}"
        self.net = _free_net()

    def host(self, number: int) -> str:
        """Brokers go round the hosts."""
        return f"{self.net}.{(number - 1) % self.hosts + 2}"

    def address(self, broker: int) -> str:
        return f"tcp://{self.host(broker)}:{self.base + (broker - 1) // self.hosts}"

    def _serve(self) -> None:
        _ip("link", "add", self.tag, "type", "bridge")
        _ip("address", "add", f"{self.net}.1/24", "dev", self.tag)
        _ip("link", "set", self.tag, "up")
        for number in range(1, self.hosts + 1):
            self._join(f"{self.tag}-{number}", f"{self.tag}v{number}", self.host(number))

    def _join(self, name: str, port: str, address: str) -> None:
        _ip("netns", "add", name)
        _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", port, "master", self.tag, "up")
        _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "set", "eth0", "up")
        self._sshd(name, "ip", "netns", "exec", name)

    def link(self, host: int, state: str) -> None:
        """ "down" cuts a host off, "up" brings it back."""
        _ip("link", "set", f"{self.tag}v{host}", state)

    def processes(self) -> list[str]:
        """What runs at the hosts and is not their sshd."""
        found = []
        for number in range(1, self.hosts + 1):
            for pid in _ip("netns", "pids", f"{self.tag}-{number}").split():
                words = _words(pid)
                if words and "sshd" not in words:
                    found.append(words)
        return found

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for number in range(1, self.hosts + 1):
            subprocess.run(["ip", "netns", "del", f"{self.tag}-{number}"], capture_output=True)
        subprocess.run(["ip", "link", "del", self.tag], capture_output=True)


def _free_net() -> str:
    """One that no other lab has, nor the rest of one that was killed."""
    taken = _ip("-4", "-brief", "address")
    nets = [f"10.213.{number}" for number in range(1, 255)]
    return SystemRandom().choice([net for net in nets if f" {net}." not in taken])


def _words(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""  # it has ended
