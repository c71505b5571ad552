"""Who may import whom (docs/architecture.md), kept by walking the imports of every file.

Rules: the longest prefix of a module's name in ALLOWED decides which of our own packages it may import; a
module under a prefix in PURE knows only what it is handed, so it may not reach a socket, a clock, a thread or
a seed; the client installs alone, so it may import only what its own wheel declares. A breach names file and
line.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOMES = {"grapevine": ROOT / "client"}
OURS = ("grapevine", "matching", "overlay", "daemon", "tools", "pipeline", "bench")

BELOW_MATCHING = ("grapevine.wire", "grapevine.filters", "grapevine.errors")
BELOW_OVERLAY = ("matching", *BELOW_MATCHING)

ALLOWED: dict[str, tuple[str, ...]] = {
    "grapevine.filters": ("grapevine.filters", "grapevine.errors"),
    "grapevine.wire": BELOW_MATCHING,
    "grapevine.client.session": ("grapevine.client.session", *BELOW_MATCHING),
    "grapevine": ("grapevine",),
    "matching": BELOW_OVERLAY,
    "overlay": ("overlay", *BELOW_OVERLAY),
    "daemon": ("daemon", "overlay", "grapevine.client.keys", *BELOW_OVERLAY),
    "tools.simulator": ("tools.simulator", "overlay", "matching", "grapevine"),
    "tools.reproduce": ("tools.reproduce", "tools.simulator", "overlay", "matching", "grapevine"),
    "tools.web.simulated": ("tools", "overlay", "grapevine"),
    "tools.pubctl": ("tools", "daemon.settings", "pipeline", "grapevine"),
    "tools.deploy": ("tools", "daemon.settings", "grapevine"),
    "tools": ("tools", "grapevine"),
    "pipeline": ("pipeline", "grapevine"),
    "bench": OURS,
}

PURE = (
    "overlay",
    "matching",
    "grapevine.wire",
    "grapevine.filters",
    "grapevine.errors",
    "grapevine.client.session",
)
IMPURE = {"zmq", "asyncio", "threading", "socket", "time", "os", "logging"} | {
    *("datetime", "select", "selectors", "signal", "ssl", "subprocess", "multiprocessing", "concurrent"),
    *("secrets", "uuid", "tempfile"),
}


@dataclass(frozen=True)
class Breach:
    where: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.where}:{self.line}: {self.why}"


def under(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def module_name(path: Path) -> str:
    home = ROOT / "client" if path.is_relative_to(ROOT / "client") else ROOT
    parts = path.relative_to(home).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    top = name.partition(".")[0]
    base = HOMES.get(top, ROOT).joinpath(*name.split("."))
    return base.is_dir() or base.with_suffix(".py").is_file()


def imported(module: str, is_package: bool, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Full dotted names, relative ones resolved; `from a import b` is `a.b` when that is a module of ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = module.split(".")
                parent = parent[: len(parent) - node.level + is_package]
                base = ".".join([*parent, base] if base else parent)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if base.partition(".")[0] in OURS and is_module(full) else base


def layer_breaches(module: str, where: str, imports: list[tuple[int, str]]) -> Iterator[Breach]:
    prefix = max((p for p in ALLOWED if under(module, p)), key=len, default=None)
    if prefix is None:
        yield Breach(where, 1, f"{module} is in no layer")
        return
    for line, name in imports:
        if name.partition(".")[0] in OURS and not any(under(name, ok) for ok in ALLOWED[prefix]):
            yield Breach(where, line, f"{prefix} may not import {name}")


def purity_breaches(
    module: str, where: str, tree: ast.AST, imports: list[tuple[int, str]]
) -> Iterator[Breach]:
    if not any(under(module, p) for p in PURE):
        return
    for line, name in imports:
        if name.partition(".")[0] in IMPURE:
            yield Breach(where, line, f"{module} is pure and may not import {name}")
    seeds = {"random"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            seeds |= {alias.asname for alias in node.names if alias.name == "random" and alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module == "random" and not node.level:
            for alias in node.names:
                if alias.name != "Random":
                    yield Breach(
                        where, node.lineno, f"{module} is pure and may not import random.{alias.name}"
                    )
    imports_random = any(name == "random" for _, name in imports)
    for node in ast.walk(tree):
        if imports_random and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in seeds and node.attr != "Random":
                yield Breach(where, node.lineno, f"{module} is pure and may not use random.{node.attr}")


def breaches(module: str, where: str, source: str, is_package: bool = False) -> list[Breach]:
    tree = ast.parse(source, where)
    imports = list(imported(module, is_package, tree))
    found = [*layer_breaches(module, where, imports), *purity_breaches(module, where, tree, imports)]
    return sorted(found, key=lambda breach: breach.line)


def our_files() -> Iterator[Path]:
    for package in OURS:
        yield from sorted((HOMES.get(package, ROOT) / package).rglob("*.py"))


def test_import_directions_hold() -> None:
    found: list[Breach] = []
    files = list(our_files())
    for path in files:
        where = str(path.relative_to(ROOT))
        found += breaches(module_name(path), where, path.read_text(), path.name == "__init__.py")
    assert len(files) > 5, "the walk found no packages"
    assert not found, "\n" + "\n".join(map(str, found))


# Shared by all overlays: these folders of `overlay` import no folder that knows one. A folder that is not
# named here is an overlay's own, or puts overlays together.
SHARED = {
    "links": set[str](),
    "data": {"links"},
    "clients": {"data", "links"},
    "journal": {"data", "links", "clients"},
    "feeding": {"clients", "data", "links", "journal"},
    "administration": {"clients", "data", "links", "journal"},
}


def overlay_folders() -> dict[str, dict[str, str]]:
    """Which folder of `overlay` imports which other, and where; a module beside the folders is in none."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted((ROOT / "overlay").rglob("*.py")):
        parts = path.relative_to(ROOT / "overlay").parts
        if len(parts) < 2:
            continue
        for line, name in imported(
            module_name(path), path.name == "__init__.py", ast.parse(path.read_text())
        ):
            names = name.split(".")
            other = names[1] if names[0] == "overlay" and len(names) > 1 else ""
            if other and other != parts[0] and (ROOT / "overlay" / other).is_dir():
                found.setdefault(parts[0], {})[other] = f"{path.relative_to(ROOT)}:{line}"
    return found


def test_what_all_overlays_share_knows_none_of_them() -> None:
    imports = overlay_folders()
    for folder, allowed in SHARED.items():
        strange = {other: at for other, at in imports.get(folder, {}).items() if other not in allowed}
        assert not strange, f"overlay.{folder} is shared by all overlays, but imports {strange}"


def test_no_two_folders_of_the_overlay_import_each_other() -> None:
    imports = overlay_folders()
    assert imports["tree"].keys() >= {"links", "data", "clients"}, "the walk found nothing"
    mutual = [
        (imports[one][other], imports[other][one])
        for one in imports
        for other in imports[one]
        if one < other and one in imports.get(other, {})
    ]
    assert not mutual


def declared_by_client() -> set[str]:
    project = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~\[; ]", text)[0] for text in project["dependencies"]}
    return {{"pyzmq": "zmq"}.get(name, name) for name in names}


def test_client_imports_only_what_its_wheel_declares() -> None:
    known = declared_by_client() | set(sys.stdlib_module_names) | {"grapevine"}
    strangers = []
    for path in (ROOT / "client" / "grapevine").rglob("*.py"):
        module = module_name(path)
        if under(module, "grapevine.spark"):
            continue  # an extra of the wheel
        for line, name in imported(module, path.name == "__init__.py", ast.parse(path.read_text())):
            if name.partition(".")[0] not in known:
                strangers.append(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert not strangers, "\n" + "\n".join(strangers)


@pytest.mark.parametrize(
    ("module", "source", "why"),
    [
        ("overlay.core", "import zmq\n", "overlay.core is pure and may not import zmq"),
        ("overlay.core", "def f():\n    import os.path\n", "overlay.core is pure and may not import os.path"),
        ("overlay.core", "from tools.simulator import world\n", "overlay may not import tools.simulator"),
        ("overlay.tree.join", "from daemon import main\n", "overlay may not import daemon"),
        ("matching.scan", "import overlay\n", "matching may not import overlay"),
        ("matching.scan", "import random\nx = random.random()\n", "may not use random.random"),
        ("matching.scan", "import random as dice\nx = dice.choice([1])\n", "may not use random.choice"),
        ("matching.scan", "from random import shuffle\n", "may not import random.shuffle"),
        (
            "grapevine.filters.normal",
            "from grapevine.wire import codec\n",
            "grapevine.filters may not import",
        ),
        (
            "grapevine.wire.codec",
            "from ..client import session\n",
            "grapevine.wire may not import grapevine.client",
        ),
        ("grapevine.client.session", "from time import monotonic\n", "is pure and may not import time"),
        ("grapevine.client.sync", "import matching\n", "grapevine may not import matching"),
        ("daemon.main", "from tools import pubctl\n", "daemon may not import tools.pubctl"),
        ("tools.simulator.world", "from daemon import settings\n", "tools.simulator may not import daemon"),
        ("tools.pubctl.status", "import daemon.driver\n", "tools.pubctl may not import daemon.driver"),
        ("tools.web.page", "import overlay.core\n", "tools may not import overlay.core"),
        ("pipeline.ingest", "import tools\n", "pipeline may not import tools"),
        ("stray.module", "x = 1\n", "stray.module is in no layer"),
    ],
)
def test_walker_sees_a_breach(module: str, source: str, why: str) -> None:
    found = breaches(module, "bad.py", source)
    assert len(found) == 1, found
    assert why in str(found[0])
    assert str(found[0]).startswith("bad.py:")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("overlay.core", "from random import Random\nfrom matching.interface import Matcher\n"),
        (
            "overlay.core",
            "import random\ndef f(chance: random.Random) -> float:\n    return chance.random()\n",
        ),
        ("overlay.core", "from grapevine.wire import messages\nfrom . import links\n"),
        ("tools.simulator.world", "import overlay\nfrom grapevine.client import session\n"),
        ("tools.pubctl.settings", "import daemon.settings\nimport time\n"),
        ("bench.match", "import matching, overlay, daemon, tools, os\n"),
    ],
)
def test_walker_lets_the_allowed_pass(module: str, source: str) -> None:
    assert breaches(module, "good.py", source) == []
