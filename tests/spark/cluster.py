"""A standalone cluster of one master and two workers, from nothing but the pip package."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyspark

from grapevine.spark.java import java_home
from tests.system.overlay import ROOT, eventually, free_port

START_S = 90.0
EXECUTOR = "CoarseGrainedExecutorBackend"


class Cluster:
    """A context; its end is everybody's."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.directory = directory
        self.url = f"spark://127.0.0.1:{free_port()}"
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        home = Path(pyspark.__file__).parent
        self.environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "client"), str(ROOT))),
        }
        self._program = home / "bin" / "spark-class"

    def __enter__(self) -> Cluster:
        self.directory.mkdir(parents=True)
        port = self.url.rpartition(":")[2]
        self._run("master", "127.0.0.1", "deploy.master.Master", "--port", port)
        for number in range(self._workers):
            place = str(self.directory / f"work{number}")
            size = ("--cores", "1", "--memory", "1g", "--work-dir", place)
            # Hosts of their own: a copy of a task is never started where the task runs.
            self._run(f"worker{number}", f"127.0.0.{number + 2}", "deploy.worker.Worker", self.url, *size)
        try:
            eventually(self._complete, START_S, 0.2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _run(self, name: str, host: str, program: str, *arguments: str) -> None:
        command = [self._program, f"org.apache.spark.{program}", "--host", host, "--webui-port", "0"]
        with open(self.directory / f"{name}.log", "ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments],
                    env={**self.environment, "SPARK_LOCAL_IP": host},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _complete(self) -> bool:
        said = (self.directory / "master.log").read_text()
        return len(re.findall("Registering worker", said)) == self._workers

    def executors(self) -> list[psutil.Process]:
        found = []
        for process in self._processes:
            for child in psutil.Process(process.pid).children(recursive=True):
                try:
                    if any(EXECUTOR in word for word in child.cmdline()):
                        found.append(child)
                except psutil.Error:
                    continue
        return found

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            end_tree(process.pid)
            process.wait()


def end_tree(pid: int) -> None:
    """kill -9 of a process and all that it has started."""
    try:
        tree = [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return
    for process in tree:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(tree, 10)


class Driver:
    """A Spark application in a process of its own (tests/spark/driver.py), to be killed."""

    def __init__(self, cluster: Cluster, log: Path, *arguments: str) -> None:
        self.log = log
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", "--master", cluster.url, *arguments],
                cwd=ROOT,
                env={**cluster.environment, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def wait(self, timeout_s: float = 180.0) -> None:
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver hangs: {self.log.read_text()[-3000:]}") from None
        assert code == 0, self.log.read_text()[-3000:]

    def kill(self) -> None:
        if self.process.poll() is None:
            end_tree(self.process.pid)
            self.process.wait()

    def died_by_itself(self) -> bool:
        time.sleep(0.05)
        return self.process.poll() is not None
