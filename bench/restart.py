"""`python -m bench.restart`: how soon a broker with a large journal takes clients.

python -m bench.restart [--gigabytes 10] [--rounds 3] [--dir DIR] [-o json|table]

The journal is one stream of 256-byte publications, in records of 64 and segments of 64 MiB, as a broker writes
them; it is deleted at the end. Measured from the start of the process until a client is attached, and what
the process has in memory then. A round ends by SIGKILL, so each start has a tail to write anew.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import zmq

from bench.broker import machine
from bench.durable import BATCH, attach, rows_of
from bench.options import at_least, end_tidily
from bench.running import say
from daemon.journal_files import DiskFiles
from grapevine.filters import EVERYTHING
from grapevine.wire import encode_publications
from overlay.journal.bodies import PubsHead, Run, StreamBody, Wanted, encode_body, encode_pubs
from overlay.journal.contents import Contents
from overlay.journal.record import PUBS, STREAM
from overlay.journal.recovery import recover
from overlay.journal.writing import SEAL, Append, Writer

SCHEMA = "bench.restart/1"
SEGMENT_BYTES = 64 << 20
GROUP = 256  # records in one write
BARS = {"ready_s": 10.0}


class Generator:
    """Writes what a broker with one stream would have written."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.next = 1
        self.contents = Contents()
        self.publications = encode_publications(rows_of(0))
        keeps_all = StreamBody(1, "all", 1, EVERYTHING, "", "limits", 30 * 86_400.0, 1 << 40)
        self.writer.commit([self._small(STREAM, encode_body(keeps_all))])

    def _small(self, kind: int, body: bytes) -> Append:
        self.contents.take(kind, self.next, 1, body)
        return self._at(kind, 1, body)

    def _at(self, kind: int, items: int, body: bytes) -> Append:
        append = Append(kind, self.next, items, body)
        self.next += items
        return append

    def _record(self) -> Append:
        offset = self.contents.streams[1].log.next
        head = PubsHead([Run(7, 8, offset, offset + BATCH - 1, 0, BATCH, False)], [Wanted(1, offset)])
        self.contents.take_pubs(self.next, BATCH, head)
        return self._at(PUBS, BATCH, encode_pubs(head, self.publications))

    def group(self) -> int:
        """Some records, and the next segment where it is due."""
        records = [self._record() for _ in range(GROUP)]
        self.writer.commit(records)
        if self.writer.size > SEGMENT_BYTES:
            checkpoint = [Append(SEAL, self.next, 0)]
            checkpoint += [self._at(kind, 1, body) for kind, body in self.contents.checkpoint()]
            self.writer.commit(checkpoint)
        return sum(len(record.body) for record in records)


def generate(directory: Path, size: int) -> int:
    """Returns how many publications are in it."""
    files = DiskFiles(directory)
    generator = Generator(recover(files, 1).writer)
    written = 0
    while written < size:
        written += generator.group()
    files.close()
    return generator.contents.streams[1].log.next - 1


def once(directory: Path) -> dict[str, float]:
    address = f"ipc://{directory}/broker"
    config = directory / "broker.toml"
    config.write_text(
        f'[broker]\nname = "bench"\nlisten = ["{address}"]\nstate_dir = "{directory}/state"\n'
        "[security]\ncurve = false\n[log]\nlevel = 'error'\n"
    )
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "daemon.main", "--config", str(config)])
    try:
        socket = zmq.Context.instance().socket(zmq.DEALER)
        socket.connect(address)
        attach(socket)
        ready = time.monotonic() - began
        used = psutil.Process(process.pid)
        spent = used.cpu_times()
        memory = used.memory_info().rss
        socket.close(0)
    finally:
        process.kill()
        process.wait(30)
    cpu = spent.user + spent.system
    return {"ready_s": round(ready, 2), "cpu_s": round(cpu, 2), "memory_mb": round(memory / 1e6)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.restart", description="a large journal, from start to ready")
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--dir", help="where the journal is written: which disk is measured")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    end_tidily()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as name:
        directory = Path(name)
        (directory / "state").mkdir()
        publications = generate(directory / "state" / "journal", int(options.gigabytes * 1e9))
        say(f"{publications} publications are written")
        rounds = [once(directory) for _ in range(options.rounds)]
    row: dict[str, Any] = {key: median(one[key] for one in rounds) for key in rounds[0]}
    row |= {"gigabytes": options.gigabytes, "publications": publications, "bars": BARS}
    row["slowest_s"] = max(one["ready_s"] for one in rounds)
    if options.output == "json":
        print(json.dumps({"schema": SCHEMA, "machine": machine(), "rows": [row]}))
    else:
        for key, value in row.items():
            print(f"{key:12} {value}")


if __name__ == "__main__":
    main()
