"""`python -m tests.system.proof_wheels`: both wheels, built and installed where there is no compiler, into an
environment with nothing else in it. Broker, client and pubctl run from there, and the broker says that its
compiled loops are missing. Prints what it saw as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.system.overlay import ROOT, free_port
from tests.system.proof_versions import uv

CLIENT = """
import sys, grapevine
with grapevine.connect(sys.argv[1], name="both", keys=sys.argv[2]) as client:
    subscription = client.subscribe("n > 1")
    for n in range(4):
        client.publish({"n": n})
    client.flush(10)
    print([subscription.next(5).attributes["n"] for _ in range(2)], grapevine.__file__)
"""


def without_compiler(place: Path) -> dict[str, str]:
    """An environment in which nothing can be compiled and nothing of this tree is seen."""
    tools = place / "bin"
    tools.mkdir()
    strange = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CFLAGS", "GRAPEVINE_KERNEL")
    kept = {key: value for key, value in os.environ.items() if key not in strange}
    return {**kept, "PATH": str(tools), "CC": "/nowhere/cc"}


def install(place: Path, environment: dict[str, str]) -> Path:
    tree, wheels, home = place / "tree", place / "wheels", place / "environment"
    tree.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    quiet = [uv(), "--quiet"]
    build = [
        *quiet,
        "build",
        "--python",
        sys.executable,
        "--all-packages",
        "--wheel",
        "--out-dir",
        str(wheels),
    ]
    subprocess.run(build, cwd=tree, check=True, env=environment)
    subprocess.run([*quiet, "venv", "--python", sys.executable, str(home)], check=True, env=environment)
    files = [str(wheel) for wheel in sorted(wheels.glob("*.whl"))]
    assert len(files) == 2, files
    into = [*quiet, "pip", "install", "--python", str(home / "bin" / "python"), *files]
    subprocess.run(into, check=True, env=environment)
    return home / "bin"


def play(place: Path) -> dict[str, object]:
    environment = without_compiler(place)
    programs = install(place, environment)
    address, keys, log = f"tcp://127.0.0.1:{free_port()}", place / "keys", place / "log"
    config = place / "b1.toml"
    config.write_text(
        f'[broker]\nname = "b1"\nlisten = ["{address}"]\nstate_dir = "{place}/state"\n'
        f'[security]\nkeys = "{keys}"\n'
    )
    environment |= {"GRAPEVINE_KEYS": str(keys)}
    with open(log, "wb") as out:
        words = [str(programs / "grapevined"), "--config", str(config)]
        broker = subprocess.Popen(words, cwd=place, env=environment, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while "ready after" not in log.read_text():
            assert broker.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        run = [str(programs / "python"), "-c", CLIENT, address, str(keys)]
        client = subprocess.run(run, cwd=place, env=environment, check=True, capture_output=True, text=True)
        asked = [str(programs / "pubctl"), "-b", "b1", "status", "-o", "json"]
        status = subprocess.run(asked, cwd=place, env=environment, check=True, capture_output=True, text=True)
    finally:
        broker.kill()
        broker.wait()
    said = [line for line in log.read_text().splitlines() if "compiled" in line]
    return {
        "delivered": client.stdout.startswith("[2, 3] " + str(place)),
        "brokers": len(json.loads(status.stdout)["rows"]),
        "says_missing": len(said),
        "said": said[:1],
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(play(Path(place).resolve())))


if __name__ == "__main__":
    main()
