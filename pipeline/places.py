"""Where delivery logs lie: under directories that were named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.collect import Log
from pipeline.segments import NAME, deliveries
from pipeline.trouble import NOT_FOUND, USAGE, Trouble


def under(roots: Iterable[Path]) -> list[Log]:
    """One log a broker, whose name the segments carry; a broker may have segments in several places."""
    found: dict[str, list[Path]] = {}
    roots = list(roots)
    if not roots:
        raise Trouble("which logs? name a topology, or directories with --logs", USAGE)
    for root in roots:
        if not root.is_dir():
            raise Trouble(f"{root}: no such directory", NOT_FOUND)
        for directory in deliveries(root):
            for broker in sorted({m["broker"] for p in directory.iterdir() if (m := NAME.fullmatch(p.stem))}):
                found.setdefault(broker, []).append(directory)
    if not found:
        raise Trouble(f"no delivery log under {', '.join(map(str, roots))}", NOT_FOUND)
    return [Log(broker, directories) for broker, directories in sorted(found.items())]
