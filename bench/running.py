"""One measurement: a fresh broker, subscribers and a publisher in processes of their own, the clock; and many
measurements, interleaved, so that whatever else the machine does falls on everybody alike."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from bench.systems.base import Outcome, System, Workload
from bench.workloads import Topics

PATIENCE_S = 180.0
PLACED_S = 1_000  # filters: nobody measures how long placing them takes, and a machine has other work too
_fork = multiprocessing.get_context("fork")


class Figure(NamedTuple):
    """`broker_us_per_msg`: processor time of all brokers per publication."""

    deliveries_s: float
    publications_s: float
    broker_us_per_msg: float


class Wrong(AssertionError):
    """A subscriber did not get exactly what it must."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _subscriber(system: System, workload: Workload, pipe: Connection) -> None:
    pipe.send(system.subscribe(workload, lambda: pipe.send("ready")))


def _publisher(system: System, workload: Workload, pipe: Connection) -> None:
    def go() -> None:
        pipe.send("ready")
        pipe.recv()

    system.publish(workload, go)
    pipe.send("sent")


def measure(system: System, workload: Workload) -> Figure:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        try:
            system.start(Path(directory))
            return measure_started(system, workload)
        finally:
            system.stop()


def measure_started(system: System, workload: Workload) -> Figure:
    readers, reader = _role(_subscriber, system, workload)
    writers = None
    try:
        _expect(reader, readers, PATIENCE_S + filters(workload) / PLACED_S)
        writers, writer = _role(_publisher, system, workload)
        _expect(writer, writers)
        before = _cpu(system)
        began = time.monotonic()
        writer.send("go")
        outcome = _expect(reader, readers)
        assert isinstance(outcome, Outcome)
        spent = _cpu(system) - before
        if outcome.wrong:
            raise Wrong(f"{system.name} {workload.name}: {outcome.wrong}")
        _expect(writer, writers)
    finally:
        for process in (readers, writers):
            if process is not None:
                process.join(1.0)
                process.kill()
    took = outcome.ended - began
    count = publications(workload)
    return Figure(outcome.deliveries / took, count / took, spent / count * 1e6)


def publications(workload: Workload) -> int:
    return workload.publications if isinstance(workload, Topics) else len(workload.publications)


def filters(workload: Workload) -> int:
    return 0 if isinstance(workload, Topics) else len(workload.filters)


def _role(
    target: Callable[[System, Workload, Connection], None], system: System, workload: Workload
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    here, there = _fork.Pipe()
    process = _fork.Process(target=target, args=(system, workload, there), daemon=True)
    process.start()
    there.close()
    return process, here


def _expect(
    pipe: Connection, process: multiprocessing.process.BaseProcess, patience_s: float = PATIENCE_S
) -> object:
    if not pipe.poll(patience_s):
        raise TimeoutError("a role of the measurement does not answer")
    try:
        return pipe.recv()
    except EOFError:
        process.join(5)
        raise RuntimeError(f"a role of the measurement ended with {process.exitcode}") from None


def _cpu(system: System) -> float:
    """Seconds of all its processes."""
    parents = [psutil.Process(pid) for pid in system.pids()]
    families = [(parent, *parent.children(recursive=True)) for parent in parents]
    return sum(_spent(process.pid) for family in families for process in family)


def _spent(pid: int) -> float:
    """By the clock of clock_getcpuclockid(3), in nanoseconds: /proc has ticks of 10 ms."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:  # a child that has just ended
        return 0.0


def interleaved(pairs: Iterable[tuple[System, Workload]], rounds: int) -> dict[tuple[str, str], list[Figure]]:
    """Every pair once a round."""
    pairs = list(pairs)
    figures: dict[tuple[str, str], list[Figure]] = {(s.name, w.name): [] for s, w in pairs}
    for number in range(1, rounds + 1):
        for system, workload in pairs:
            figure = measure(system, workload)
            figures[system.name, workload.name].append(figure)
            say(f"{number}/{rounds} {workload.name:15} {system.name:16} {_words(figure)}")
    return figures


def _words(figure: Figure) -> str:
    return (
        f"{figure.deliveries_s:12,.0f} deliveries/s {figure.publications_s:12,.0f} publications/s "
        f"{figure.broker_us_per_msg:8.2f} us"
    )


def middle(figures: list[Figure]) -> Figure:
    return Figure(*[median(values) for values in zip(*figures, strict=True)])
