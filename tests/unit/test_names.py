"""Our top-level names are generic because the folders are: nothing installed beside us may bring the same.

Checked are the files of every installed distribution (`make setup` installs the extras too), and which file
Python would really import. A distribution that does not list its files is asked for its top_level.txt.
"""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("daemon", "overlay", "matching", "tools", "pipeline", "grapevine")
OUR_DISTRIBUTIONS = frozenset({"grapevine-broker", "grapevine-pubsub"})


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def top_level_names(distribution: Distribution) -> set[str]:
    names = {path.parts[0].removesuffix(".py") for path in distribution.files or ()}
    return names | set((distribution.read_text("top_level.txt") or "").split())


def clashes(installed: Iterable[Distribution]) -> list[str]:
    found = []
    for distribution in installed:
        name = normal(distribution.metadata["Name"])
        if name not in OUR_DISTRIBUTIONS:
            found += [f"{name} provides {ours}" for ours in NAMES if ours in top_level_names(distribution)]
    return sorted(found)


def test_no_installed_distribution_provides_our_names() -> None:
    installed = list(distributions())
    assert len(installed) > 10
    assert clashes(installed) == []


def test_the_lock_has_no_distribution_called_like_us() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    locked = {normal(package["name"]) for package in packages}
    assert locked >= OUR_DISTRIBUTIONS
    assert locked.isdisjoint(NAMES)
    assert "python-daemon" not in locked, "python-daemon installs the module daemon"


def test_the_lock_names_only_the_public_index() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text()))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}


@pytest.mark.parametrize("name", NAMES)
def test_our_names_import_from_this_tree(name: str) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    homes = {Path(place) for place in spec.submodule_search_locations or ()}
    assert homes == {(ROOT / "client" if name == "grapevine" else ROOT) / name}


def test_a_clash_is_seen(tmp_path: Path) -> None:
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Stranger\nVersion: 1.0\n")
    (info / "RECORD").write_text("tools/__init__.py,,\nstranger/__init__.py,,\ndaemon.py,,\n")
    assert clashes(distributions(path=[str(tmp_path)])) == [
        "stranger provides daemon",
        "stranger provides tools",
    ]
