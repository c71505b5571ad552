"""A subscriber that stops reading is its own loss: the broker keeps its limit and names it, others keep their
rate. SIGTERM under load loses nothing that was settled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

import grapevine
from grapevine.client.session.outgoing import WINDOW_BYTES
from tests.system.overlay import ROOT, Daemon, Overlay, eventually


def connect(daemon: Daemon, name: str, **options: object) -> grapevine.Client:
    return grapevine.connect(daemon.address, name, keys=daemon.keys, **options)  # type: ignore[arg-type]


def pump(daemon: Daemon, reader: grapevine.Subscription, publisher: grapevine.Client, count: int) -> float:
    """What the broker computes for each publication from `publisher` to `reader`, in seconds."""
    got = 0
    done = threading.Event()

    def read() -> None:
        nonlocal got
        while got < count and (batch := reader.next_batch(10_000, timeout=60)):
            got += len(batch)
        done.set()

    threading.Thread(target=read).start()
    began = daemon.cpu_s()
    for _ in range(count):
        publisher.publish({"topic": "t"}, b"x" * 500)
    publisher.flush(timeout=60)
    assert done.wait(60) and got == count
    return (daemon.cpu_s() - began) / count


@pytest.mark.slow
@pytest.mark.parametrize("stalled", [1, 30])
def test_stalled_readers_stop_nobody(overlay: Overlay, stalled: int) -> None:
    queue = 2_000
    daemon = overlay.start("b1", clients={"queue": queue, "stall_s": 0.3})
    with connect(daemon, "reader") as honest, connect(daemon, "publisher") as publisher:
        reader = honest.subscribe("topic = 't'")
        publisher.advertise("topic = 't'")
        pump(daemon, reader, publisher, 5_000)
        before = pump(daemon, reader, publisher, 20_000)
        asleep = [connect(daemon, f"asleep{n}", receive_window=500) for n in range(stalled)]
        for client in asleep:
            client.subscribe("topic = 't'")  # and never reads
        pump(daemon, reader, publisher, 5_000)
        memory = daemon.memory_mb()
        during = pump(daemon, reader, publisher, 20_000)
        grown = daemon.memory_mb() - memory
        eventually(lambda: all(client.dropped > 0 for client in asleep))
        for client in asleep:
            client.close(0)
    assert during < before / 0.3, (before, during)  # a guard; the claim of 0.8 is measured alone
    window_mb = 65_536 * 700 / 1e6  # what a publisher may have unsettled
    assert grown < window_mb + stalled * (queue * 700 / 1e6), f"{grown} MB more"


def test_sigterm_under_load_loses_nothing_settled(overlay: Overlay) -> None:
    """The publisher fails over to the neighbour; everything settled was delivered, once and in order."""
    first = overlay.start("b1")
    second = overlay.start("b2", "b1")
    with (
        connect(second, "reader") as honest,
        grapevine.connect([first.address, second.address], "publisher", keys=first.keys) as publisher,
    ):
        reader = honest.subscribe("topic = 't'")
        publisher.advertise("topic = 't'")
        got: list[int] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                got.extend(message.sequence for message in reader.next_batch(10_000, timeout=0.1))

        thread = threading.Thread(target=read)
        thread.start()
        sent = 0
        for number in range(30_000):
            sent = publisher.publish({"topic": "t"}, b"x" * 200)
            if number == 10_000:
                os.kill(first.pid, signal.SIGTERM)
        publisher.flush(timeout=60)
        assert first.wait() == 0
        eventually(lambda: len(got) >= sent)
        stop.set()
        thread.join()
    assert got == list(range(1, sent + 1))


STOPPED = """
import sys, time, grapevine
client = grapevine.connect(sys.argv[1], "stopped", keys=sys.argv[2], on_slow=sys.argv[3])
client.subscribe("topic = 't'")
print("subscribed", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("on_slow", ["drop_oldest", "drop_newest"])
def test_a_stopped_reader_and_large_payloads_keep_to_the_bytes(overlay: Overlay, on_slow: str) -> None:
    """What is configured: its queue at the broker, and what the publisher may have unsettled."""
    payload, configured_mb = bytes(1024 * 1024), 192 + WINDOW_BYTES / 2**20
    daemon = overlay.start("b1", clients={"queue_bytes": 192 * 1024 * 1024, "stall_s": 0.5})
    idle = highest = daemon.memory_mb()
    words = [sys.executable, "-c", STOPPED, daemon.address, str(daemon.keys), on_slow]
    stopped = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert stopped.stdout is not None and stopped.stdout.readline() == "subscribed\n"
        stopped.send_signal(signal.SIGSTOP)
        with connect(daemon, "publisher") as publisher:
            for number in range(800):
                publisher.publish({"topic": "t"}, payload)
                if number % 10 == 0:
                    highest = max(highest, daemon.memory_mb())
            publisher.flush(timeout=120)
            highest = max(highest, daemon.memory_mb())
    finally:
        stopped.kill()
        stopped.communicate()
    assert highest - idle < 1.1 * configured_mb, (idle, highest)
    assert highest - idle > 0.6 * configured_mb, "up to the limit it is kept"
