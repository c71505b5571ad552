"""Who of a group gets how many of what has come: a decision without core, link or clock."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace


def deal(held: Sequence[int], rooms: Sequence[int], items: int) -> list[int]:
    """How many of `items` each member gets: one after the other to who has least under way and room left;
    among equals to who stands first."""
    dealt = [0] * len(held)
    queue = [(load, member) for member, load in enumerate(held) if rooms[member] > 0]
    heapify(queue)
    while queue and items > 0:
        load, member = queue[0]
        dealt[member] += 1
        items -= 1
        if dealt[member] < rooms[member]:
            heapreplace(queue, (load + 1, member))
        else:
            queue[0] = queue[-1]
            queue.pop()
            heapify(queue)
    return dealt
