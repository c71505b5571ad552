"""Daemons of an older version beside those of this tree, under churn and a crash, judged by the same oracle.

`python -m tests.system.proof_versions --commit 3755a55 --seed 1` builds the wheels of that commit, gives two
thirds of nine daemons to them, plays, then kills one of the older ones, starts it anew with this tree's code
and plays on. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from grapevine.wire.messages import PROTOCOL
from tests.system.exactness import Scene, Verdict
from tests.system.overlay import ROOT

LAST = "3755a55"  # the last commit that speaks protocol 2


def uv() -> str:
    found = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    if not Path(found).exists():
        raise SystemExit("no uv: `make setup` first")
    return found


def build(commit: str, place: Path) -> Path:
    """The wheels of a commit; their directory."""
    tree, wheels = place / "tree", place / "wheels"
    tree.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    command = [uv(), "--quiet", "build", "--all-packages", "--wheel", "--out-dir", str(wheels)]
    subprocess.run(command, cwd=tree, check=True)
    return wheels


def install(commit: str, place: Path) -> Path:
    """The wheels of a commit in an environment of their own; its interpreter."""
    wheels, home = build(commit, place), place / "environment"
    quiet = [uv(), "--quiet"]
    subprocess.run([*quiet, "venv", "--python", sys.executable, str(home)], check=True)
    python = home / "bin" / "python"
    files = [str(wheel) for wheel in wheels.glob("*.whl")]
    subprocess.run([*quiet, "pip", "install", "--python", str(python), *files], check=True)
    return python


def protocol(python: Path) -> int:
    code = "from grapevine.wire.messages import PROTOCOL; print(PROTOCOL)"
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    ran = subprocess.run(
        [str(python), "-c", code], cwd=python.parent, env=clean, check=True, capture_output=True, text=True
    )
    return int(ran.stdout)


def play(directory: Path, python: Path, seed: int) -> Verdict:
    scene = Scene(directory, seed, brokers=9, publishers=4, subscribers=8)
    daemons = list(scene.overlay.daemons.values())
    older = scene.random.sample(daemons, round(len(daemons) * 2 / 3))
    for daemon in older:
        daemon.python, daemon.cwd = str(python), directory
    with scene:
        scene.publish(60, seed)
        scene.change(30)
        scene.at_once(lambda: scene.publish(100, seed + 1), lambda: scene.change(30))
        scene.at_once(lambda: scene.publish(200, seed + 2), lambda: scene.kill_and_restart(0.1, 0.5))
        upgraded = older[0]
        upgraded.python, upgraded.cwd = sys.executable, ROOT
        scene.at_once(
            lambda: scene.publish(200, seed + 3),
            lambda: scene.kill_and_restart(0.1, 0.5, upgraded.name),
        )
        scene.publish(60, seed + 4)
        return scene.judge()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--commit", default=LAST)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        python = install(arguments.commit, Path(place) / "older")
        spoken = protocol(python)
        verdict = play(Path(place) / "overlay", python, arguments.seed)
    found = {
        "commit": arguments.commit,
        "protocols": [spoken, PROTOCOL],
        "owed": verdict.owed,
        "came": verdict.came,
        "wrong": verdict.wrong[:20],
    }
    print(json.dumps(found))
    sys.exit(1 if verdict.wrong else 0)


if __name__ == "__main__":
    main()
