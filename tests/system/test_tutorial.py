"""docs/tutorial.md, typed command by command in a network of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
ALONE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
ALONE += ["bash", "-c", "ip link set lo up && exec bash --noprofile --norc"]


FIRST_S = 120  # until something moves


def commands(page: str) -> list[str]:
    consoles = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    typed = [line for console in consoles for line in re.findall(r"^\$ (.*)$", console, re.MULTILINE)]
    return [line for line in typed if not line.startswith(". .venv/")]  # it is on the PATH already


@pytest.fixture
def home() -> Iterator[Path]:
    with TemporaryDirectory() as short:  # a control socket's path has room for little
        yield Path(short)


def test_every_command_of_the_tutorial(home: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    if subprocess.run(ALONE, input="", capture_output=True, text=True).returncode:
        pytest.skip("needs a network namespace (root, and ip from iproute2)")
    (topology,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (home / "seven.toml").write_text(topology)
    typed = commands(page)
    assert len(typed) >= 10
    script = (
        "set -e\n"
        + "\n".join(f"echo --- {n} after $SECONDS s\n{line}" for n, line in enumerate(typed))
        + "\n"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ALONE, input=script, capture_output=True, text=True, cwd=home, timeout=280,
        env={"HOME": str(home), "PATH": path},
    )  # fmt: skip
    said = dict(zip(typed, ended.stdout.split("--- ")[1:], strict=False))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("by a soft link past") == 1
    first = next(
        line for line in typed if line.startswith("pubctl trace")
    )  # publications have passed by then
    assert int(said[first].split()[2]) < FIRST_S, said[first]
    # It is at b7, or is to go there: a publisher moves at most twice a minute, however fast one types.
    shown = said["pubctl relocate show"]
    assert re.search(r"quotes +(b7 |.* b7 )", shown), shown
    assert "<svg" in (home / "overlay.svg").read_text()
