"""One measurement: a fresh broker, subscribers and a publisher in processes of their own, the clock."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.systems.base import System
from bench.workloads import Topics

PATIENCE_S = 120.0
_fork = multiprocessing.get_context("fork")


class Figure(NamedTuple):
    deliveries_s: float
    publications_s: float
    broker_us_per_msg: float


def _subscriber(system: System, workload: Topics, pipe: Connection) -> None:
    pipe.send(system.subscribe(workload, lambda: pipe.send("ready")))


def _publisher(system: System, workload: Topics, pipe: Connection) -> None:
    def go() -> None:
        pipe.send("ready")
        pipe.recv()

    system.publish(workload, go)
    pipe.send("sent")


def measure(system: System, workload: Topics) -> Figure:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        system.start(Path(directory))
        try:
            return _measure(system, workload)
        finally:
            system.stop()


def _measure(system: System, workload: Topics) -> Figure:
    readers, reader = _role(_subscriber, system, workload)
    _expect(reader)
    writers, writer = _role(_publisher, system, workload)
    _expect(writer)
    broker = psutil.Process(system.pid())
    before = _cpu(broker)
    began = time.monotonic()
    writer.send("go")
    ended = _expect(reader)
    assert isinstance(ended, float)
    spent = _cpu(broker) - before
    _expect(writer)
    for process in (readers, writers):
        process.join(PATIENCE_S)
    deliveries = sum(workload.expected)
    took = ended - began
    return Figure(deliveries / took, workload.publications / took, spent / deliveries * 1e6)


def _role(
    target: Callable[[System, Topics, Connection], None], system: System, workload: Topics
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    here, there = _fork.Pipe()
    process = _fork.Process(target=target, args=(system, workload, there), daemon=True)
    process.start()
    there.close()
    return process, here


def _expect(pipe: Connection) -> object:
    if not pipe.poll(PATIENCE_S):
        raise TimeoutError("a role of the measurement does not answer")
    return pipe.recv()


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    children = sum(sum(child.cpu_times()[:2]) for child in process.children(recursive=True))
    return times.user + times.system + children
