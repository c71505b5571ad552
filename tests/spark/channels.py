"""A back end, brokers and a driver with real Spark, for tests that kill them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import grapevine
from tests.system.overlay import ROOT, Overlay, eventually

STEPPING = ["tests.spark.stepping"]
SHELTERS = "name,lat,lon\n" + "".join(f"s{n},{60 + n / 50},{24 + n / 40}\n" for n in range(10))
FILE = '''
[dataset.Reports]
filter = "class = 'report'"
columns = "id bigint, type string, lat double, lon double"
keep = "1h"
[dataset.Users]
filter = "class = 'location'"
columns = "user string, lat double, lon double"
key = ["user"]
[dataset.Shelters]
file = "shelters.csv"

[channel.Near]
period = "1s"
new = "Reports"
parameters.type = "string"
parameters.lat = { type = "double", snap = 0.01 }
parameters.lon = { type = "double", snap = 0.01 }
parameters.km = { type = "double", default = 20, min = 0, max = 500 }
sql = """SELECT r.id, r.type, nearest(Shelters, r.lat, r.lon, 2) AS shelters
         FROM Reports r WHERE r.type = :type AND near(r.lat, r.lon, :lat, :lon, :km)"""

[channel.NearMe]
period = "1s"
new = "Reports"
parameters.user = "string"
sql = "SELECT r.id FROM Reports r JOIN Users u ON near(r.lat, r.lon, u.lat, u.lon, 30) WHERE u.user = :user"

[channel.AroundMe]
period = "1s"
parameters.user = "string"
sql = "SELECT r.id FROM Reports r JOIN Users u ON near(r.lat, r.lon, u.lat, u.lon, 1) WHERE u.user = :user"

[channel.Live]
period = "continuous"
new = "Reports"
parameters.low = "bigint"
sql = "SELECT r.id, upper(r.type) AS type FROM Reports r WHERE r.id > :low"  # more than a filter

[channel.Direct]
period = "continuous"
new = "Reports"
parameters.low = "bigint"
sql = "SELECT r.id, r.type FROM Reports r WHERE r.id > :low"
'''


class Cluster(Overlay):
    """`back` holds the channels; others know it."""

    def __init__(self, directory: Path, *brokers: str) -> None:
        super().__init__(directory, links={"ping_s": 5.0, "redial_s": 0.2, "greet_s": 10.0})
        self.directory = directory
        self.names = brokers
        self.driver: subprocess.Popen[bytes] | None = None
        self.stepping: Path | None = None  # where the driver says at which step it is

    def __enter__(self) -> Cluster:
        self.start("back", broker={"roles": ["broker", "backend"]})
        for name in self.names:
            self.start(name, parent="back", broker={"backend": self["back"].address})
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop_driver()
        super().__exit__(*error)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "GRAPEVINE_KEYS": str(self["back"].keys), "PYTHONPATH": str(ROOT)}

    def pubctl(self, *words: str, code: int = 0, at: str = "back") -> Any:
        """What it prints as JSON; with another exit code, what it says."""
        command = [
            sys.executable,
            "-m",
            "tools.pubctl.main",
            *words,
            "-b",
            self[at].address,
            "-o",
            "json",
            "-t",
            "30s",
        ]
        done = subprocess.run(
            command, env=self.environment, cwd=ROOT, capture_output=True, timeout=400, check=False
        )
        assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return msgspec.json.decode(done.stdout) if done.stdout else {}

    def create(self, text: str = FILE, checked: bool = False) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "shelters.csv").write_text(SHELTERS)
        path = self.directory / "channels.toml"
        path.write_text(text)
        self.pubctl("channel", "create", str(path), *(() if checked else ("--unchecked",)))

    def start_driver(self, master: str = "local[2]") -> None:
        log = open(self.directory / "driver.log", "ab")  # noqa: SIM115 (the process keeps it)
        program = ["tools.pubctl.main"] if self.stepping is None else [*STEPPING, str(self.stepping)]
        command = [sys.executable, "-m", *program, "channel", "serve", "--master", master]
        command += ["-b", self["back"].address]
        self.driver = subprocess.Popen(
            command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        )

    def stop_driver(self, number: int = signal.SIGKILL) -> None:
        """With all its processes: Java is its child."""
        if self.driver is not None and self.driver.poll() is None:
            os.killpg(self.driver.pid, number)
            self.driver.wait(60)
        self.driver = None

    def executed(self, channel: str) -> int:
        rows = self.pubctl("channel", "ls")["rows"]
        return next(int(row["executed"]) for row in rows if row["name"] == channel)

    @contextmanager
    def client(self, at: str, name: str | None = None) -> Iterator[grapevine.Client]:
        with grapevine.connect(
            self[at].address, name=name, keys=str(self["back"].keys), timeout=60
        ) as client:
            yield client


def collect(results: grapevine.ChannelSubscription, wanted: int, timeout_s: float = 120.0) -> list[Any]:
    """Results until there are so many."""
    found: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < wanted:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(found)} of {wanted} results in {timeout_s} s"
        found += results.next_batch(1000, timeout=min(left, 1.0))
    return found


__all__ = ["FILE", "Cluster", "collect", "eventually"]
