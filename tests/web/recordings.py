"""Recordings for stories that need no brokers: overlays of each kind, hostile names, a broker that dies.

They are written as `--record` writes them and read by the page as such. Counters grow evenly, so that the
rates are known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.web.pulses import beat, link, report, row

BEGAN = 1_794_900_000.0
HOSTILE = "<img src=x onerror=\"document.title='broken in'\">"
Change = Callable[[int, dict[str, Any]], None]


def line(at: float, what: str, **more: Any) -> str:
    return json.dumps({"at": at, "what": what, **more})


def write(
    path: Path, seconds: int, parents: dict[str, str | None], change: Change | None = None, **more: Any
) -> Path:
    """A tree in which each broker accepts ten a second and sends five to its parent."""
    reports = more.get("reports") or tree_reports(parents)
    lines = [line(BEGAN, "overlay", rows=reports)]
    for second in range(seconds):
        at = BEGAN + second
        beats = {name: tree_beat(name, parents, second) for name in parents}
        look: dict[str, Any] = {
            "asked": next(iter(parents)),
            "t_ms": round(at * 1000),
            "missing": [],
            "cut_off": [],
        }
        here = {"beats": beats, "look": look, "lines": []}
        if change is not None:
            change(second, here)
        look["pulses"] = list(beats.values())
        if not here.get("lost"):
            lines.append(line(at, "pulse", look=look))
        else:
            lines.append(line(at, "lost", reason=here["lost"]))
        if second == 0:
            lines.append(line(at, "overlay", rows=reports))
            lines.append(
                line(
                    at, "answer", verb="relocate.show", body={"publishers": [], "algorithms": {}, "moved": 0}
                )
            )
        lines += here["lines"]
    path.write_text("\n".join(lines) + "\n")
    return path


def tree_reports(parents: dict[str, str | None]) -> list[dict[str, Any]]:
    found = []
    for number, (name, parent) in enumerate(parents.items()):
        rows = [row(child) for child, above in parents.items() if above == name]
        rows += [row(parent, True)] if parent else []
        made = report(name, parent, *rows)
        made["addresses"] = [f"tcp://10.0.{number % 3}.1:7470"]
        found.append(made)
    return found


def tree_beat(name: str, parents: dict[str, str | None], second: int) -> list[Any]:
    children = [child for child, above in parents.items() if above == name]
    parent = parents[name]
    links = [link(child, 0, 5 * second) for child in children]
    links += [link(parent, 5 * second, 0)] if parent else []
    return beat(
        name,
        round((BEGAN + second) * 1000),
        *links,
        accepted=10 * second,
        forwarded=5 * second if parent else 0,
        delivered=20 * second,
        received=5 * second * len(children),
        busy=(hash_of(name) % 90) / 100,
    )


def hash_of(name: str) -> int:
    return sum((n + 1) * ord(letter) for n, letter in enumerate(name))


def happened(second: int, broker: str, kind: str, text: str, level: str = "info", **fields: Any) -> str:
    t_ms = round((BEGAN + second) * 1000)
    said = {"broker": broker, "n": 1, "t_ms": t_ms, "kind": kind, "level": level, "text": text, **fields}
    return line(BEGAN + second, "events", rows=[said])


def binary(count: int) -> dict[str, str | None]:
    return {f"b{n + 1}": None if n == 0 else f"b{(n - 1) // 2 + 1}" for n in range(count)}


def ring_reports(count: int) -> list[dict[str, Any]]:
    """As a ring tells of itself: an id, successors, fingers."""
    names = [f"r{n}" for n in range(count)]
    found = []
    for n, name in enumerate(names):
        rows = [{"name": names[(n + 1) % count], "kind": "successor", "state": "ready", "parent": False}]
        rows += [
            {"name": names[(n + 2**k) % count], "kind": "finger", "state": "ready", "parent": False}
            for k in range(1, int(math.log2(count)) + 1)
            if 2**k < count and 2**k != 1
        ]
        made = report(name, None, *rows)
        made["ring"] = {"position": ((n * 0.61803) % 1 if count > 40 else n / count), "topics": n % 4}
        made["overlay"] = "chord"
        found.append(made)
    return found


def segment_reports() -> list[dict[str, Any]]:
    """Dispatchers and matchers: each matcher has a segment of every dimension."""
    found = []
    for n in range(3):
        made = report(
            f"d{n + 1}",
            None,
            *[{"name": f"m{k + 1}", "kind": "dispatch", "state": "ready", "parent": False} for k in range(6)],
        )
        made |= {"roles": ["dispatcher"], "overlay": "onehop"}
        found.append(made)
    for k in range(6):
        made = report(f"m{k + 1}")
        cuts = [0, 80, 200, 420, 560, 800, 1000]
        even = [0, 150, 330, 500, 700, 860, 1000]
        made |= {"roles": ["matcher"], "overlay": "onehop"}
        made["segments"] = [
            {"dimension": "price", "low": cuts[k], "high": cuts[k + 1], "load": 0.15 * k},
            {"dimension": "volume", "low": even[5 - k], "high": even[6 - k], "load": 0.9 - 0.15 * k},
        ]
        found.append(made)
    return found


def channel_reports(parents: dict[str, str | None]) -> list[dict[str, Any]]:
    found = tree_reports(parents)
    for n, made in enumerate(found[1:5]):
        backs = [
            {"name": f"near({10 * b}, {20 + b})", "subscriptions": 3 + 5 * b, "next_s": 12 + b}
            for b in range(n % 3 + 1)
        ]
        made["channels"] = {"backend": backs, "frontend": 40 + 60 * n, "load": 1.7 * (n + 1), "moved": n}
    return found
