"""Durable publications and a durable subscription in a one-hop cluster of real daemons: the publisher's
dispatcher and the subscriber's are killed in turn, under load, and come back with their disks.

`python -m tests.system.onehop_durable` prints what the stream lacks, has twice or has out of order.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import grapevine
from tests.system.onehop import Cluster

RATE_S = 300.0
BEFORE_S, DOWN_S, BETWEEN_S = 2.0, 1.0, 3.0
LOST_AFTER_S = 8.0
ARRIVED_S = 60.0


class Writer:
    """Publishes as fast as told; whatever happens to its dispatcher."""

    def __init__(self, cluster: Cluster) -> None:
        keys = cluster.directory / "keys"
        self.client = grapevine.connect(cluster["d1"].address, name="writer", keys=keys)
        self.published = 0
        self._going = True
        self._thread = threading.Thread(target=self._publish, daemon=True)
        self._thread.start()

    def _publish(self) -> None:
        began = time.monotonic()
        while self._going:
            number = self.published + 1
            self.client.publish({"price": number % 100, "volume": 1, "n": number}, durable=True)
            self.published = number
            pause_s = began + self.published / RATE_S - time.monotonic()
            if pause_s > 0:
                time.sleep(pause_s)

    def finish(self) -> bool:
        """Whether all of it is settled."""
        self._going = False
        self._thread.join(30)
        try:
            self.client.flush(timeout=60)
        except grapevine.Error:
            return False
        return True


def read(subscription: Any, wanted: int) -> tuple[list[int], int]:
    """What the stream has, in the order of its offsets, and the gaps that were told. What was on its way to
    the reader when its dispatcher was killed comes again, at the same offset."""
    numbers: dict[int, int] = {}
    gaps, deadline = 0, time.monotonic() + ARRIVED_S
    while time.monotonic() < deadline and len(set(numbers.values())) < wanted:
        for message in subscription.next_batch(10_000, 0.2):
            if isinstance(message, grapevine.Gap):
                gaps += 1
                continue
            number = int(message.attributes["n"])
            assert numbers.setdefault(message.offset, number) == number, "an offset means one publication"
            message.ack()
    return [numbers[offset] for offset in sorted(numbers)], gaps


def play(directory: Path) -> dict[str, Any]:
    with Cluster(directory, LOST_AFTER_S) as cluster:
        cluster.up(2, 2)
        keys = cluster.directory / "keys"
        reader = grapevine.connect(cluster["d2"].address, name="reader", keys=keys)
        kept = reader.subscribe("n > 0", durable="all", ack="cumulative", in_flight=50_000, ack_wait_s=600)
        writer = Writer(cluster)
        for name in ("d2", "d1"):
            time.sleep(BEFORE_S)
            cluster[name].kill()
            time.sleep(DOWN_S)
            cluster[name].start().ready()
            time.sleep(BETWEEN_S)
        settled = writer.finish()
        numbers, gaps = read(kept, writer.published)
        reader.close(0)
        writer.client.close(0)
    return {
        "published": writer.published,
        "settled": settled,
        "lost": writer.published - len(set(numbers)),
        "doubled": len(numbers) - len(set(numbers)),
        "out_of_order": sum(one > two for one, two in itertools.pairwise(numbers)),
        "gaps": gaps,
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as where:
        print(json.dumps(play(Path(where))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
