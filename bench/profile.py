"""`python -m bench.profile`: where a publication's time goes inside one process: decode, core, encode.

    python -m bench.profile [--workloads T1,T2,T3,T1-fresh,C1-1000] [--functions]

The least of several turns is printed, so that a busy machine disturbs little; `--functions` adds cProfile's view of
the core.
"""  # noqa: E501

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
from time import process_time

from bench.guard import BATCH, FRAMES_A_TURN, NOW, WORKLOADS, Bench
from daemon.packing import pack, unpack
from grapevine.filters import EVERYTHING
from grapevine.wire import encode_publications, encode_publish
from grapevine.wire.codec import write_deliver
from grapevine.wire.drafts import Draft
from grapevine.wire.messages import ClientAdvertise, ClientSubscribe, Deliver, Marks

WINDOW = 1 << 40


def frames_of(attributes: list[bytes]) -> list[bytes]:
    frames = []
    for first in range(0, len(attributes), BATCH):
        some = [Draft(attributes[i], b"x" * 200, i + 1) for i in range(first, first + BATCH)]
        frames.append(encode_publish(1, first + 1, encode_publications(some)))
    return frames


def parts(name: str, profiler: cProfile.Profile | None) -> tuple[float, float, float]:
    """The least nanoseconds a publication of decode, core and encode."""
    filters, attributes = WORKLOADS[name]()
    bench = Bench()
    core = bench.core
    publisher = bench.attach("publisher")
    bench.take(publisher, ClientAdvertise(1, 1, EVERYTHING))
    for place, several in enumerate(filters):
        reader = bench.attach(f"reader{place}")
        bench.take(reader, *[ClientSubscribe(n, n, filter) for n, filter in enumerate(several, 1)])
    core.flush(NOW).clear()
    while core.work(NOW):
        pass
    frames, buffer = frames_of(attributes), bytearray()
    gc.freeze()
    turns = []
    for first in range(0, len(frames), FRAMES_A_TURN):
        began = process_time()
        messages = [unpack(memoryview(frame)) for frame in frames[first : first + FRAMES_A_TURN]]
        decoded = process_time()
        if profiler is not None:
            profiler.enable()
        for message in messages:
            core.publications(publisher.number, message, NOW)  # type: ignore[arg-type]
        out = core.flush(NOW)
        if profiler is not None:
            profiler.disable()
        routed = process_time()
        known: dict[int, object] = {}
        marks = []
        for number, batch in out.batches:
            assert isinstance(batch, Deliver)
            raw = known.setdefault(id(batch.publications[0]), None) or pack(batch.publications)
            known[id(batch.publications[0])] = raw
            write_deliver(buffer, batch.epoch, batch.first, 0, 0, 0, raw, batch.subscriptions)  # type: ignore[arg-type]
            marks.append((number, batch.first + len(batch.publications) - 1))
        encoded = process_time()
        out.clear()
        for number, position in marks:
            core.receive(number, Marks(1, position, position, WINDOW), NOW)
        core.flush(NOW).clear()
        turns.append((decoded - began, routed - decoded, encoded - routed))
    bench.close()
    scale = 1e9 / (FRAMES_A_TURN * BATCH)
    decode_s, core_s, encode_s = (min(values) * scale for values in zip(*turns[1:], strict=True))
    return decode_s, core_s, encode_s


def main() -> int:
    parser = argparse.ArgumentParser("bench.profile", description="where a publication's time goes")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--functions", action="store_true")
    options = parser.parse_args()
    for name in options.workloads.split(","):
        profiler = cProfile.Profile() if options.functions else None
        decode_ns, core_ns, encode_ns = parts(name, profiler)
        print(f"{name:10} decode {decode_ns:6.0f}  core {core_ns:6.0f}  encode {encode_ns:6.0f} ns")
        if profiler is not None:
            pstats.Stats(profiler, stream=sys.stdout).sort_stats("tottime").print_stats(12)
    return 0


if __name__ == "__main__":
    sys.exit(main())
