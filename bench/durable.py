"""`python -m bench.durable`: durable publications a second, beside the bare journal and a bare group-commit ROUTER.

python -m bench.durable [--windows 64,1024] [--seconds 3] [--rounds 3] [--dir DIR] [-o json|table]
python -m bench.durable --subscriptions 10000 [--publications 2000]: see `bench.durable_readers`

One publisher, 256-byte payloads in batches of 64, acknowledged when they are on disk; interleaved rounds, so that
the ratios hold on a busy machine. `journal`: the thread alone, in this process. `router`: a socket before it, and
nothing else of a broker. DIR says which disk is measured.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import zmq

from bench.broker import machine
from bench.durable_readers import FILTERS, measure
from bench.options import at_least, end_tidily
from bench.running import say
from daemon.journal import JournalThread
from daemon.journal_files import DiskFiles
from grapevine.filters import EVERYTHING
from grapevine.wire import decode, encode, encode_attributes, encode_publications, encode_publish, identify
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import DURABLE, PROTOCOL, Attach, Attached, ClientAdvertise, Done, Marks, Publish
from overlay.journal.bodies import PubsHead, encode_pubs
from overlay.journal.record import PUBS
from overlay.journal.recovery import recover
from overlay.journal.writing import Append

SCHEMA = "bench.durable/1"
BATCH, PAYLOAD = 64, b"x" * 256
ATTRIBUTES = encode_attributes({"class": "STOCK", "symbol": "YHOO"})
SYSTEMS = ("journal", "router", "grapevine")


def rows_of(sequence: int) -> list[Draft]:
    return [Draft(ATTRIBUTES, PAYLOAD, sequence + number, DURABLE) for number in range(1, BATCH + 1)]


# --- the journal alone ---------------------------------------------------------------------------------


def bare_journal(directory: Path, window: int, seconds: float) -> float:
    files = DiskFiles(directory)
    thread = JournalThread(files, recover(files, 1).writer)
    thread.start()
    body = encode_pubs(PubsHead([]), encode_publications(rows_of(0)))
    given = done = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        while given - done + BATCH <= window:
            thread.put([Append(PUBS, given + 1, BATCH, body)])
            given += BATCH
        select.select([thread.eventfd], [], [], 1.0)
        for written in thread.take():
            done = written.done
    spent = time.perf_counter() - began
    thread.close()
    files.close()
    return done / spent


# --- a socket before it --------------------------------------------------------------------------------


def serve(address: str, directory: Path) -> None:
    """Takes Publish frames, keeps them as they come, and says how far they are on disk."""
    files = DiskFiles(directory)
    journal = JournalThread(files, recover(files, 1).writer)
    journal.start()
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(address)
    poller = zmq.Poller()
    poller.register(router, zmq.POLLIN)
    poller.register(journal.eventfd, select.POLLIN)
    given = 0
    peer = b""
    print("up", flush=True)
    while True:
        poller.poll(1000)
        appends = []
        for _ in range(256):
            try:
                peer = router.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            frame = router.recv(zmq.NOBLOCK)
            message = decode(frame)
            assert isinstance(message, Publish)
            items = len(message.publications)
            appends.append(Append(PUBS, given + 1, items, encode_pubs(PubsHead([]), frame)))
            given += items
        if appends:
            journal.put(appends)
        if done := journal.take():
            router.send_multipart([peer, encode(Marks(1, given, 0, given + 65_536, done[-1].done))])


@contextmanager
def bare_router(directory: Path) -> Iterator[str]:
    address = f"ipc://{directory}/router"
    command = [sys.executable, "-m", "bench.durable", "--serve", address, "--dir", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline()
        yield address
    finally:
        process.kill()
        process.wait()


@contextmanager
def grapevine_broker(directory: Path) -> Iterator[tuple[str, int]]:
    config = directory / "broker.toml"
    address = f"ipc://{directory}/broker"
    config.write_text(
        f'[broker]\nname = "bench"\nlisten = ["{address}"]\nstate_dir = "{directory}/state"\n'
        "[security]\ncurve = false\n[log]\nlevel = 'error'\n"
    )
    process = subprocess.Popen([sys.executable, "-m", "daemon.main", "--config", str(config)])
    try:
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(30)


# --- the publisher -------------------------------------------------------------------------------------


def attach(socket: zmq.Socket[bytes]) -> None:
    socket.send(encode(Attach(1, PROTOCOL, "load", identify("load"), time.time_ns(), 1, 1, 0)))
    while not isinstance(decode(socket.recv()), Attached):
        pass
    socket.send(encode(ClientAdvertise(1, 1, EVERYTHING)))
    while True:
        answer = decode(socket.recv())
        if isinstance(answer, Done) and answer.outcome == "confirmed":
            return


def load(address: str, window: int, seconds: float, attached: bool) -> dict[str, float]:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.connect(address)
    if attached:
        attach(socket)
    sent = persisted = 0
    at: list[tuple[int, float]] = []
    delays: list[float] = []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        while sent - persisted + BATCH <= window:
            socket.send(encode_publish(1, sent + 1, encode_publications(rows_of(sent))))
            sent += BATCH
            at.append((sent, time.perf_counter()))
        if not socket.poll(1000):
            continue
        while socket.poll(0):
            marks = decode(socket.recv())
            if isinstance(marks, Marks):
                persisted = max(persisted, marks.persisted)
        now = time.perf_counter()
        while at and at[0][0] <= persisted:
            delays.append(now - at.pop(0)[1])
    spent = time.perf_counter() - began
    socket.close(0)
    context.term()
    delays.sort()
    p50, p99 = (delays[int(len(delays) * share)] * 1e3 if delays else 0.0 for share in (0.5, 0.99))
    return {"persisted_s": persisted / spent, "p50_ms": p50, "p99_ms": p99}


def once(system: str, directory: Path, window: int, seconds: float) -> dict[str, float]:
    if system == "journal":
        return {"persisted_s": bare_journal(directory / "journal", window, seconds)}
    if system == "router":
        with bare_router(directory) as address:
            return load(address, window, seconds, False)
    with grapevine_broker(directory) as (address, _):
        return load(address, window, seconds, True)


def subscriptions(count: int, publications: int, place: str | None) -> dict[str, Any]:
    rows = []
    for case in FILTERS:
        with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as name:
            directory = Path(name)
            with grapevine_broker(directory) as (address, broker):
                rows.append(measure(case, address, broker, directory, count, publications))
    return {"schema": "bench.durable-readers/1", "rows": rows, "machine": machine()}


def run(windows: list[int], seconds: float, rounds: int, place: str | None) -> dict[str, Any]:
    rows = []
    for window in windows:
        found: dict[str, list[dict[str, float]]] = {system: [] for system in SYSTEMS}
        for number in range(1, rounds + 1):
            for system in SYSTEMS:
                with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as directory:
                    got = once(system, Path(directory), window, seconds)
                found[system].append(got)
                say(f"{number}/{rounds} window {window:,} {system:10} {got['persisted_s']:,.0f}/s")
        router = median(got["persisted_s"] for got in found["router"])
        for system in SYSTEMS:
            row: dict[str, Any] = {"system": system, "window": window}
            for key in found[system][0]:
                row[key] = round(median(got[key] for got in found[system]), 2)
            rows.append({**row, "of_router": round(row["persisted_s"] / router, 2)})
    return {"schema": SCHEMA, "rows": rows, "rounds": rounds, "machine": machine()}


def main() -> None:
    parser = argparse.ArgumentParser("bench.durable", description="durable publications a second")
    parser.add_argument("--windows", default="64,1024")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--dir", default=None, help="a directory on the disk to measure")
    parser.add_argument("--subscriptions", type=at_least(1), help="durable ones at one broker, instead")
    parser.add_argument("--publications", type=at_least(1), default=2_000, help="to measure these with")
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", choices=("json", "table"), default="table")
    options = parser.parse_args()
    end_tidily()
    if options.serve:
        serve(options.serve, Path(options.dir) / "journal")
        return
    if options.subscriptions:
        result = subscriptions(options.subscriptions, options.publications, options.dir)
    else:
        windows = [int(word) for word in options.windows.split(",")]
        result = run(windows, options.seconds, options.rounds, options.dir)
    if options.output == "json":
        print(json.dumps(result))
    else:
        for row in result["rows"]:
            print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
