"""What a client's frames cost in memory that the system has to find again and again."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys

import pytest

FRAMES = """
import resource, zmq
from grapevine.client import link
context = link.context()
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
PAGES = 50 * 20 * 65_000 // resource.getpagesize()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_the_memory_of_frames_stays_with_the_process() -> None:
    """Against the pages that went through, not against a process that asks for nothing: what such a one
    gets depends on what its imports happened to free."""
    command = [sys.executable, "-c", FRAMES]
    faults = int(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    assert faults < PAGES / 8
