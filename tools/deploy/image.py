"""What a host needs to run brokers, as one archive: our packages and their dependencies as they are installed
here, so that a host needs Python and no network. Its name is the digest of what is in it.

Compiled parts fit only the same Python and the same kind of machine: `check` compares `stamp()` with that of
the host.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import platform
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

OURS = ("grapevine", "daemon", "overlay", "matching", "tools", "pipeline")
DISTRIBUTION = "grapevine-broker"
STAMP_CODE = (
    "import platform,sys;print('%d.%d'%sys.version_info[:2],platform.machine(),sys.implementation.name)"
)


class Image(NamedTuple):
    digest: str
    archive: bytes


def stamp() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]} {platform.machine()} {sys.implementation.name}"


def build() -> Image:
    content = io.BytesIO()
    digest = hashlib.blake2b(digest_size=6)
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        for name, path in sorted(dict(_files()).items()):
            data = path.read_bytes()
            digest.update(name.encode() + b"\0" + data)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755 if path.suffix == ".so" else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return Image(digest.hexdigest(), content.getvalue())


def _files() -> Iterator[tuple[str, Path]]:
    for name in OURS:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None, name
        home = Path(spec.origin).parent
        for path in home.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(home.parent)), path
    for distribution in _dependencies():
        for file in distribution.files or ():
            path = Path(str(file.locate()))
            inside = not str(file).startswith("..") and "__pycache__" not in file.parts
            if inside and "tests" not in file.parts and path.is_file():
                yield str(file), path


def _dependencies() -> Iterator[metadata.Distribution]:
    """Of the broker, without extras, each once."""
    seen: set[str] = set()
    waiting = [DISTRIBUTION]
    while waiting:
        found = metadata.distribution(waiting.pop())
        for line in found.requires or ():
            name = line.replace("(", " ").replace(";", " ").split()[0]
            name = name.split("[")[0].split("=")[0].split(">")[0].split("<")[0].split("!")[0].split("~")[0]
            if "extra ==" not in line and "implementation_name" not in line and name not in seen:
                seen.add(name)
                waiting.append(name)
                if not name.startswith("grapevine"):
                    yield metadata.distribution(name)
