"""`make bench-guard`: has the data path more to do than when its figure was committed?

Counted, not timed: executed bytecodes and calls into C per publication, through decode, core, encode, the
sender's frames and the readers' acknowledgements, with a real core and real sockets in this process. The
count is the same on a busy machine and on an idle one, so the guard may fail at 3 %. `--commit` writes this
tree's figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import zmq

from bench.compiled import compiled
from bench.content import c1, form
from bench.workloads import topic_workloads
from daemon.receiving import Receiver
from daemon.sending import Sender
from daemon.watch import Watch
from daemon.wires import Wires
from grapevine.filters import EVERYTHING, Filter, parse
from grapevine.wire import encode, encode_attributes, encode_publications, encode_publish, identify
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import PROTOCOL, Attach, ClientAdvertise, ClientSubscribe, Marks
from matching.index import Index
from overlay.links.session import Kind
from overlay.profiles import tree_broker
from overlay.settings import CoreSettings

COMMITTED = Path(__file__).with_name("guard.json")
TOLERANCE = 0.03
FRAMES_A_TURN, BATCH, WARM_TURNS, TURNS = 4, 100, 4, 4
WINDOW = 1 << 40
NOW = 1_000.0


class Bench:
    """A core between the daemon's own receiver and sender; its wires end in sockets that are read at once."""

    def __init__(self) -> None:
        self.core = tree_broker("guard", 1, CoreSettings(), Random(1), matcher=Index)
        self.core.start(NOW)
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.end = self.context.socket(zmq.DEALER)
        self.end.set_hwm(0)
        self.end.bind("inproc://guard")
        self.watch = Watch()
        self.wires = Wires(self.watch, 1000)
        self.sender = Sender(self.core, self.wires, CoreSettings().links.batch_bytes)
        self.receiver = Receiver(self.core, self.wires, None, 64)
        self.clients: dict[int, int] = {}  # link -> publications sent to it

    def attach(self, name: str) -> Any:
        dealer = self.context.socket(zmq.DEALER)
        dealer.set_hwm(0)
        dealer.connect("inproc://guard")
        wire = self.wires._add(dealer, Kind.CLIENT, "inproc://guard", NOW)
        self.core.link_up(wire.number, "", Kind.CLIENT, NOW)
        self.take(wire, Attach(PROTOCOL, PROTOCOL, name, identify(name), 7, 1, WINDOW, 0))
        return wire

    def take(self, wire: Any, *messages: Any) -> None:
        for message in messages:
            self.receiver.take(wire, memoryview(encode(message)), NOW)

    def turn(self, wire: Any, frames: list[bytes]) -> None:
        for frame in frames:
            self.receiver.take(wire, memoryview(frame), NOW)
        self.receiver.hand_over(NOW)
        self.core.tick(NOW)
        out = self.core.flush(NOW)
        self.sender.send_all(out.sends)
        self.sender.send_batches(out.batches, out.chunks)
        for number, batch in out.batches:
            self.clients[number] = batch.first + len(batch.publications) - 1
        out.clear()

    def acknowledgements(self) -> list[tuple[Any, memoryview]]:
        """What the readers answer to the turn."""
        while self.end.poll(0):
            self.end.recv()
        return [
            (self.wires.by_number[number], memoryview(encode(Marks(1, position, position, WINDOW))))
            for number, position in self.clients.items()
        ]

    def acknowledge(self, acknowledgements: list[tuple[Any, memoryview]]) -> None:
        for wire, marks in acknowledgements:
            self.receiver.take(wire, marks, NOW)
        self.core.flush(NOW).clear()

    def close(self) -> None:
        self.context.destroy(0)


def topics(name: str) -> tuple[list[list[Filter]], list[bytes]]:
    workload = topic_workloads(1.0)[name]
    filters = [[parse(f"topic = '{workload.topic(t)}'") for t in each] for each in workload.subscribers]
    count = BATCH * FRAMES_A_TURN * (WARM_TURNS + TURNS)
    attributes: list[dict[str, Any]] = [{"topic": workload.topic(i % workload.topics)} for i in range(count)]
    if workload.fresh:
        attributes = [{**each, "n": number} for number, each in enumerate(attributes)]
    return filters, [encode_attributes(each) for each in attributes]


def content() -> tuple[list[list[Filter]], list[bytes]]:
    workload = c1(1_000, BATCH * FRAMES_A_TURN * (WARM_TURNS + TURNS), connections=20)
    places = range(workload.connections)
    filters = [[form(workload.filters[f]) for f in workload.of(place)] for place in places]
    return filters, [encode_attributes(each) for each in workload.publications]


WORKLOADS: dict[str, Callable[[], tuple[list[list[Filter]], list[bytes]]]] = {
    "T1": lambda: topics("T1"),
    "T2": lambda: topics("T2"),
    "T3": lambda: topics("T3"),
    "T1-fresh": lambda: topics("T1-fresh"),
    "C1-1000": content,
}


class Counter:
    """Bytecodes by a trace function, calls into C by a profile function."""

    def __init__(self) -> None:
        self.bytecodes = self.calls = 0

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            self.bytecodes += 1
        return self._trace

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call":
            self.calls += 1

    def __enter__(self) -> Counter:
        sys.setprofile(self._profile)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
        sys.setprofile(None)


def count(name: str) -> dict[str, float]:
    filters, attributes = WORKLOADS[name]()
    bench = Bench()
    publisher = bench.attach("publisher")
    bench.take(publisher, ClientAdvertise(1, 1, EVERYTHING))
    for place, several in enumerate(filters):
        reader = bench.attach(f"reader{place}")
        bench.take(reader, *[ClientSubscribe(n, n, filter) for n, filter in enumerate(several, 1)])
    bench.turn(publisher, [])
    while bench.core.work(NOW):
        pass
    frames = []
    for first in range(0, len(attributes), BATCH):
        some = [Draft(attributes[i], b"x" * 200, i + 1) for i in range(first, first + BATCH)]
        frames.append(encode_publish(1, first + 1, encode_publications(some)))
    counter = Counter()
    for number in range(WARM_TURNS + TURNS):
        due = frames[number * FRAMES_A_TURN : (number + 1) * FRAMES_A_TURN]
        counting = counter if number >= WARM_TURNS else nullcontext()
        with counting:
            bench.turn(publisher, due)
        answers = bench.acknowledgements()
        with counting:
            bench.acknowledge(answers)
    bench.close()
    measured = BATCH * FRAMES_A_TURN * TURNS
    return {"bytecodes": round(counter.bytecodes / measured, 2), "calls": round(counter.calls / measured, 2)}


def variant() -> str:
    """Which figures this tree is held against: Python's version, and whether the inner loops are compiled."""
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{python} compiled" if compiled() else python


def compare(found: dict[str, dict[str, float]], committed: dict[str, dict[str, float]]) -> list[str]:
    """What has grown beyond the tolerance."""
    grown = []
    for name, figures in found.items():
        for kind, value in figures.items():
            before = committed.get(name, {}).get(kind)
            if before is None:
                grown.append(f"{name}: no committed figure")
            elif value > before * (1 + TOLERANCE):
                grown.append(f"{name}: {value} {kind} a publication, {before} were committed")
    return grown


def main() -> int:
    parser = argparse.ArgumentParser("bench.guard", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--commit", action="store_true", help="write the figures of this tree")
    options = parser.parse_args()
    python = variant()
    found = {name: count(name) for name in WORKLOADS}
    everything = json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    if options.commit:
        everything[python] = found
        COMMITTED.write_text(json.dumps(everything, indent=2) + "\n")
    grown = compare(found, everything.get(python, {}))
    for name, figures in found.items():
        before = everything.get(python, {}).get(name, {})
        words = [f"{value} {kind} ({before.get(kind, '-')})" for kind, value in figures.items()]
        print(f"{name:10} per publication: {', '.join(words)}")
    for text_ in grown:
        print(f"grown: {text_}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
