"""What a client's frames cost in memory that the system has to find again and again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FRAMES = """
import resource, sys, zmq
from grapevine.client import link
context = link.context() if sys.argv[1] == "client" else zmq.Context()
left, right = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
port = left.bind_to_random_port("tcp://127.0.0.1")
right.connect(f"tcp://127.0.0.1:{port}")
for round in range(60):
    if round == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        right.send(bytearray(65_000))
    for _ in range(20):
        left.recv(copy=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
context.destroy(0)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_the_memory_of_frames_stays_with_the_process() -> None:
    faults = {}
    for who in ("nobody", "client"):
        command = [sys.executable, "-c", FRAMES, who]
        faults[who] = int(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    assert faults["client"] * 4 < faults["nobody"]
