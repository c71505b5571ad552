"""The judgement of overlays that leave nothing where a side was lost, as the tree's tombstones do.

Three more excuses hold there, each a loss that nobody is told of: what lay behind a link that was given up
between acceptance and settling, what was confirmed while a link was suspended, and what was accepted a second
time somewhere else. They are counted with the others. The tree is judged without them, and so is everybody
under `--strict`.
"""

from __future__ import annotations

from tools.simulator.oracle import Oracle
from tools.simulator.owed import Counted, Published
from tools.simulator.reach import Edge


class ExcusingOracle(Oracle):
    strict = False

    def confirmed_reach(self, home: int) -> int:
        return super().confirmed_reach(home) if self.strict else self.reach.connected_to(home)

    def accepted_again(self, broker: int, record: Published) -> None:
        """Both paths count: what was lost on the first one was told to nobody."""
        if self.strict:
            return
        before = dict(record.owed)
        owed = self.owed_from(broker, record)
        record.owed = [(counted, path + before[counted]) for counted, path in owed if counted in before]

    def nobody_to_tell(self, counted: Counted) -> bool:
        return not self.strict or super().nobody_to_tell(counted)

    def excuse(
        self, record: Published, settled_at: float, counted: Counted, path: tuple[Edge, ...], over: bool
    ) -> str:
        reason = super().excuse(record, settled_at, counted, path, over)
        if reason or self.strict:
            return reason
        assert record.accepted_at is not None
        return "link lost" if self.reach.lost_between(path, record.accepted_at, settled_at) else ""
