"""A broker in the middle dies and is never started again: the tree goes round it, on real daemons.

`up` has two children, `middle` and `beside`; below `middle` are `left` and `right`. There are publishers and
subscribers on both sides of `middle`; it is killed (the process is gone, its host answers) or stopped (a
silent host).
*Whole again*: what is published on one side after it died has reached the other. *Apart* counts what did not
reach somebody and was settled when its publisher knew by `client.partial` that a broker was missing.

`python -m tests.system.healed [RUNS] [killed|silent]` prints one line of JSON a run.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from pathlib import Path

import grapevine
from tests.system.overlay import Overlay
from tests.system.promise import PATIENCE_S, Stream, connect

BARS_S = {"killed": 5.0, "silent": 15.0}


def tree(directory: Path) -> Overlay:
    """With the intervals that links have by default, and healing."""
    links = {"ping_s": 2.0, "redial_s": 0.5, "greet_s": 2.0}
    overlay = Overlay(directory, links=links, healing={"after_s": 2.0})
    overlay.start("up")
    for name, parent in (("middle", "up"), ("beside", "up"), ("left", "middle"), ("right", "middle")):
        overlay.start(name, parent)
    return overlay


def whole_after_s(probes: list[grapevine.Subscription], publisher: grapevine.Client, limit_s: float) -> float:
    """Seconds until each of the subscriptions has got something published from now on."""
    began, waiting, number = time.monotonic(), dict.fromkeys(range(len(probes))), 0
    while waiting and time.monotonic() < began + limit_s:
        number += 1
        publisher.publish({"probe": number})
        for place in list(waiting):
            if probes[place].next(0.02) is not None:
                del waiting[place]
    return time.monotonic() - began if not waiting else float("inf")


def run(directory: Path, how: str) -> dict[str, object]:
    with tree(directory) as overlay:
        readers = {name: connect(overlay, f"reader-{name}", name) for name in ("beside", "left", "right")}
        wanted = {name: reader.subscribe("n >= 0", timeout=PATIENCE_S) for name, reader in readers.items()}
        probes = [reader.subscribe("probe > 0", timeout=PATIENCE_S) for reader in readers.values()]
        prober = connect(overlay, "prober", "left")
        prober.advertise("exists probe", timeout=PATIENCE_S)
        streams = {name: Stream(connect(overlay, f"writer-{name}", name)) for name in ("up", "right")}
        time.sleep(1.0)
        middle = overlay["middle"]
        middle.signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        seconds = whole_after_s(probes, prober, 60.0)
        time.sleep(1.0)
        verdicts = {name: stream.end() for name, stream in streams.items()}
        got: dict[str, dict[int, list[int]]] = {name: {} for name in wanted}
        for name, subscription in wanted.items():
            while message := subscription.next(2.0):
                got[name].setdefault(message.publisher, []).append(message.sequence)  # type: ignore[arg-type]
        wrong, apart = [], 0
        for writer, verdict in verdicts.items():
            for reader, by_publisher in got.items():
                found = by_publisher.get(f"writer-{writer}", [])  # type: ignore[call-overload]
                missing = set(verdict.settled) - set(found) - verdict.cut
                apart += len(missing & verdict.parted)
                missing -= verdict.parted
                wrong += [f"{len(missing)} of {writer} settled and lost at {reader}"] if missing else []
                wrong += [] if found == sorted(set(found)) else [f"{writer} twice or late at {reader}"]
        for client in (*readers.values(), prober, *(stream.client for stream in streams.values())):
            client.close()
        settled = sum(len(verdict.settled) for verdict in verdicts.values())
        cut = sum(len(verdict.cut) for verdict in verdicts.values())
        return {
            "how": how,
            "whole_s": round(seconds, 2),
            "settled": settled,
            "cut": cut,
            "apart": apart,
            "wrong": wrong,
        }


def main(words: list[str]) -> int:
    runs = int(words[0]) if words else 3
    bad = 0
    for how in words[1:] or BARS_S:
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as directory:
                line = run(Path(directory), how)
            bad += bool(line["wrong"]) or line["whole_s"] > BARS_S[how]  # type: ignore[operator]
            print(json.dumps(line), flush=True)
    print(f"{bad} bad")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
