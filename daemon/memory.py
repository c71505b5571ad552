"""Memory and garbage of a process that moves large frames all day (bench/figures.md has the figures).

Frames over 128 kB would be mapped and unmapped each time; the allocator is told to keep them. Messages are
trees, never cycles, so the collector runs rarely and not over what was there at the start.
"""

from __future__ import annotations

import ctypes
import gc

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
LARGE_BYTES = 64 * 1024 * 1024
KEPT_BYTES = 16 * 1024 * 1024
PAD_BYTES = 1024 * 1024


def keep_large_blocks() -> bool:
    """False where the C library has no mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    pairs = ((M_MMAP_THRESHOLD, LARGE_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES), (M_TOP_PAD, PAD_BYTES))
    taken = [mallopt(option, value) == 1 for option, value in pairs]
    return all(taken)


def give_back() -> None:
    """Call when what stays has been imported: that took some megabytes beside it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass  # another C library


def calm_collector() -> None:
    """Call when everything that stays is there."""
    gc.collect()
    give_back()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
