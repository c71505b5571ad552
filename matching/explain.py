"""What one match did: which keys were looked up, how many rows each left, how many had to be checked."""

from __future__ import annotations

import msgspec

from matching.check import satisfied
from matching.interface import Attributes
from matching.keys import Keys
from matching.row import Key


class Step(msgspec.Struct, frozen=True):
    key: Key
    kind: str  # "list" | "columns" | "blocks"
    rows: int  # filed under the key
    candidates: int  # left after the columns or the bits
    checked: int  # asked one by one
    sids: list[int]


class Explanation(msgspec.Struct, frozen=True):
    steps: list[Step]

    @property
    def checked(self) -> int:
        return sum(step.checked for step in self.steps)

    @property
    def sids(self) -> list[int]:
        return sorted({sid for step in self.steps for sid in step.sids})


def explain(directories: tuple[Keys, ...], attributes: Attributes) -> Explanation:
    steps = []
    for group in (group for keys in directories for group in keys.asked(attributes)):
        if group.store is None:
            rows = group.rows or []
            sids = [row.sid for row in rows if satisfied(row.rest, attributes)]
            steps.append(Step(group.key, "list", len(rows), len(rows), len(rows), sids))
        else:
            kind = "columns" if group.store.narrow else "blocks"
            candidates, checked = group.store.explain(attributes)
            sids = sorted(group.store.sids(attributes))
            steps.append(Step(group.key, kind, len(group), candidates, checked, sids))
    return Explanation(steps)
