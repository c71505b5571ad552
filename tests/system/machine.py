"""A machine of its own: a real systemd, booted by systemd-nspawn over this file system.

Everything it writes goes to memory. The host's own services are not there, and it has no network, so that
what is installed in it comes from the wheels of this tree and from uv's cache. A machine that cannot be made
here skips the test and says why.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.overlay import ROOT, eventually

PYTHON = "/usr/bin/python3"  # the host's own: units do not see a home directory
HOME = "/opt/grapevine"
PATH = f"{HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SIGPOWEROFF = signal.SIGRTMIN + 4


def why_not() -> str:
    """What is missing for a machine; empty if nothing is."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("systemd-nspawn", "nsenter", PYTHON):
        if shutil.which(program) is None:
            return f"needs {program} (Debian: see .ci/packages)"
    wanted = f"Python {sys.version_info[0]}.{sys.version_info[1]}."
    if not call(PYTHON, "--version").startswith(wanted):
        return f"{PYTHON} is not {wanted}"
    return ""


def call(*words: str | Path, timeout_s: float = 60) -> str:
    ended = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s)
    assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
    return ended.stdout


class Machine:
    def __init__(self, directory: Path, name: str = "lab1") -> None:
        self.directory = directory
        self.name = name
        self.root = directory / "root"
        self.process: subprocess.Popen[bytes] | None = None
        self.leader = 0

    # --- life ---------------------------------------------------------------------------------------

    def mount(self) -> None:
        memory = self.directory
        call("mount", "-t", "tmpfs", "-o", "size=4g,mode=755", "tmpfs", memory)
        for name in ("upper", "work", "root"):
            (memory / name).mkdir()
        layers = f"lowerdir=/,upperdir={memory / 'upper'},workdir={memory / 'work'}"
        call("mount", "-t", "overlay", "overlay", "-o", layers, self.root)
        for path in sorted((self.root / "etc/systemd/system").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        (self.root / "etc/machine-id").write_text("")
        (self.root / "etc/hostname").write_text(f"{self.name}\n")
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n")

    def boot(self) -> None:
        words = ["systemd-nspawn", "--quiet", "--boot", f"--directory={self.root}", f"--machine={self.name}"]
        words += ["--register=no", "--keep-unit", "--private-network", "--console=pipe"]
        log = open(self.directory / "console", "wb")  # noqa: SIM115
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.leader = eventually(self._find_leader)
        eventually(
            lambda: self.run("systemctl", "is-system-running", code=None).stdout == "running\n", 30, 0.1
        )

    def _find_leader(self) -> int:
        """The machine's first process; before it there are others for a moment."""
        assert self.process is not None
        if self.process.poll() is not None:
            pytest.skip(f"no machine boots here: {(self.directory / 'console').read_text()[-300:]}")
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            try:
                if Path(os.readlink(f"/proc/{child}/exe")).name == "systemd":
                    return int(child)
            except OSError:
                continue  # it was one of those others
        return 0

    def off(self) -> None:
        if self.process is not None:
            try:
                os.kill(self.leader, SIGPOWEROFF) if self.leader else self.process.terminate()
                self.process.wait(20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait()
        for path in (self.root, self.directory):
            subprocess.run(["umount", "--lazy", path], capture_output=True)

    # --- in it --------------------------------------------------------------------------------------

    def words(self, *words: str) -> list[str]:
        clean = ["env", "-i", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8"]
        return ["nsenter", "-t", str(self.leader), "-a", *clean, *words]

    def run(
        self, *words: str, code: int | None = 0, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """A program in the machine; `code` is how it should end, None: in any way."""
        ended = subprocess.run(
            self.words(*words), capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL
        )
        assert code is None or ended.returncode == code, f"{words}: {ended.stdout}{ended.stderr}"
        return ended

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def shows(self, unit: str, key: str) -> str:
        return self.run("systemctl", "show", "--value", "-p", key, unit).stdout.strip()

    def journal(self, *words: str) -> str:
        return self.run("journalctl", "--no-pager", "-o", "cat", *words).stdout

    # --- what is installed --------------------------------------------------------------------------

    def install(self, *extras: str) -> None:
        """Both wheels of this tree and their locked dependencies, without a network."""
        uv = os.environ.get("UV") or shutil.which("uv") or pytest.skip("needs uv")
        cache = call(uv, "cache", "dir").strip()
        put = self.root / "srv"  # in the machine /tmp is another
        call(uv, "build", "--quiet", "--all-packages", "--wheel", "--out-dir", put, ROOT, timeout_s=180)
        locked = (uv, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-workspace", "--project", ROOT)
        call(*locked, *(f"--extra={extra}" for extra in extras), "-o", put / "requirements.txt")
        # `uv sync` leaves wheels in the cache, but not what `pip install` reads before it takes one.
        looked = (uv, "pip", "install", "--quiet", "--dry-run", "--python", PYTHON, "--target", put / "none")
        subprocess.run(
            [*looked, "-r", put / "requirements.txt"], check=False, capture_output=True, timeout=120
        )
        wheels = [f"/srv/{path.name}" for path in put.glob("*.whl")]
        shutil.copy(uv, put / "uv")  # a checkout under /tmp has it where the machine cannot see it
        here = ("env", f"UV_CACHE_DIR={cache}", "/srv/uv")
        self.run(*here, "venv", "--quiet", "--python", PYTHON, HOME)
        into = (*here, "pip", "install", "--quiet", "--offline", "--python", f"{HOME}/bin/python")
        ended = self.run(*into, "-r", "/srv/requirements.txt", code=None, timeout_s=120)
        if ended.returncode:
            pytest.skip(f"the locked wheels for {PYTHON} are not in uv's cache: {ended.stderr[-300:]}")
        self.run(*into, "--no-deps", *wheels)


@contextmanager
def machine(directory: Path, name: str = "lab1") -> Iterator[Machine]:
    if reason := why_not():
        pytest.skip(reason)
    directory.mkdir(parents=True, exist_ok=True)
    made = Machine(directory, name)
    try:
        try:
            made.mount()
        except AssertionError as error:
            pytest.skip(f"nothing can be mounted here: {error}")
        made.boot()
        yield made
    finally:
        made.off()
