"""The guide's first page, typed by somebody who pastes whole blocks: three brokers by hand."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.system.overlay import eventually

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
# The guide's ports belong to whoever uses this machine: the walk has a network of its own, and processes
# that end with it.
ALONE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
ALONE += ["bash", "-c", "ip link set lo up && exec bash --noprofile --norc"]


def blocks() -> list[list[str]]:
    """The lines to type under "Three brokers by hand", a list for each terminal."""
    part = (ROOT / "docs" / "howto" / "three-brokers.md").read_text()
    consoles = re.findall(r"```console\n(.*?)```", part.partition("\n## ")[0], re.DOTALL)
    return [re.findall(r"^\$ (.*)$", console, re.MULTILINE) for console in consoles]


@pytest.fixture
def shell(tmp_path: Path) -> subprocess.Popen[str]:
    if subprocess.run(ALONE, input="", capture_output=True, text=True).returncode:
        pytest.skip("needs a network namespace (root, and ip from iproute2)")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    home = {"HOME": str(tmp_path), "PATH": path, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        ALONE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=home,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def test_three_brokers_by_hand(shell: subprocess.Popen[str], tmp_path: Path) -> None:
    first, second = blocks()[:2]
    assert first[-1].startswith("pubctl sub") and len(first) == 5
    assert shell.stdin is not None and shell.stdout is not None
    heard = tmp_path / "first terminal"
    typed = "\n".join(["set -m", *first[:-1], f"{first[-1]} > '{heard}' 2>&1 &"])
    shell.stdin.write(typed + "\n")
    shell.stdin.flush()
    try:
        eventually(lambda: heard.exists() and "subscribed as" in heard.read_text(), timeout_s=30)
        shell.stdin.write("\n".join([*second, "echo typed > typed"]) + "\n")
        shell.stdin.flush()
        eventually((tmp_path / "typed").exists, timeout_s=30)
        eventually(lambda: "class=STOCK volume=6200  hello" in heard.read_text())
        shell.stdin.write("kill -INT %4; wait %4; kill %1 %2 %3; wait; exit\n")
        said = shell.communicate(timeout=60)[0]
    finally:
        shell.kill()
    for line in (r"^b3 +ready +b2 +1 +1 ", r"└── client .*: b3/1 \(class = 'STOCK' and volume > 1000\)"):
        assert re.search(line, said, re.MULTILINE), said
    assert said.count(": stopped") == 3, said
    assert "<svg" in (tmp_path / "overlay.svg").read_text()
