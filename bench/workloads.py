"""What is measured: who publishes what, who wants it, and how much must arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import NamedTuple

PAYLOAD = b"x" * 200  # no byte that ends a frame of any peer's protocol


class Topics(NamedTuple):
    """`publications` messages round robin over `topics`; each subscriber wants the topics listed for it."""

    name: str
    topics: int
    subscribers: tuple[tuple[int, ...], ...]
    publications: int
    batch: int = 100  # publications that leave the publisher together
    payload: bytes = PAYLOAD
    fresh: bool = False  # an attribute that no other publication has; only where there are attributes

    @property
    def expected(self) -> tuple[int, ...]:
        """Deliveries of each subscriber."""
        each, rest = divmod(self.publications, self.topics)
        return tuple(sum(each + (topic < rest) for topic in topics) for topics in self.subscribers)

    def topic(self, index: int) -> str:
        return f"t{index:03d}"

    def bursts(self, message: Callable[[str], bytes]) -> Iterator[bytes]:
        """All publications as the bytes of batches, each distinct batch built once."""
        messages = [message(self.topic(index)) for index in range(self.topics)]
        period = max(self.batch, self.topics)
        distinct = [
            b"".join(messages[(first + i) % self.topics] for i in range(self.batch))
            for first in range(0, period, self.batch)
        ]
        return islice(cycle(distinct), self.publications // self.batch)


def topic_workloads(scale: float = 1.0, batch: int = 100) -> dict[str, Topics]:
    """T1 one to one, T2 a hundred topics over ten subscribers, T3 one to ten; T1 once with attributes that
    never repeat, and once with every publication sent by itself."""
    count = max(1, int(4_000 * scale) // batch) * batch * 100
    tens = tuple(tuple(range(first, first + 10)) for first in range(0, 100, 10))
    one = ((0,),)
    return {
        "T1": Topics("T1", 1, one, count, batch),
        "T2": Topics("T2", 100, tens, count, batch),
        "T3": Topics("T3", 1, one * 10, max(count // 4 // batch, 1) * batch, batch),
        "T1-fresh": Topics("T1-fresh", 1, one, max(count // 2 // batch, 1) * batch, batch, fresh=True),
        "T1-unbatched": Topics("T1-unbatched", 1, one, max(count // 8, 1), 1),
    }
