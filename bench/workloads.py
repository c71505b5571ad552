"""What is measured: who publishes what, who wants it, and how much must arrive."""

from __future__ import annotations

from typing import NamedTuple

PAYLOAD = bytes(range(200))


class Topics(NamedTuple):
    """`publications` messages round robin over `topics`; each subscriber wants the topics listed for it."""

    name: str
    topics: int
    subscribers: tuple[tuple[int, ...], ...]
    publications: int
    batch: int = 100  # publications that leave the publisher together
    payload: bytes = PAYLOAD

    @property
    def expected(self) -> tuple[int, ...]:
        """Deliveries of each subscriber."""
        each, rest = divmod(self.publications, self.topics)
        return tuple(sum(each + (topic < rest) for topic in topics) for topics in self.subscribers)

    def topic(self, index: int) -> str:
        return f"t{index:03d}"


def topic_workloads(scale: float = 1.0, batch: int = 100) -> dict[str, Topics]:
    """T1 one to one, T2 a hundred topics over ten subscribers, T3 one to ten."""
    count = int(400_000 * scale) // batch * batch
    tens = tuple(tuple(range(first, first + 10)) for first in range(0, 100, 10))
    return {
        "T1": Topics("T1", 1, ((0,),), count, batch),
        "T2": Topics("T2", 100, tens, count, batch),
        "T3": Topics("T3", 1, ((0,),) * 10, count // 4, batch),
    }
