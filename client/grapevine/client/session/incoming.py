"""The receiving half of a session: positions, duplicates, who of the application's readers gets what.

A delivery is taken when it lies in its reader's queue; taken is settled. The credit that goes back to
the broker stops growing while the application does not read: at most `window` entries lie in queues,
and what came before a new epoch counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import repeat
from struct import unpack
from typing import NamedTuple

from grapevine.client.session.duplicates import Duplicates
from grapevine.client.session.message import Message, Names
from grapevine.client.session.requests import Request
from grapevine.filters.normal import Filter
from grapevine.wire.messages import Deliver, Marks, Publication

TARGETS = 4_096  # lists of subscriptions whose readers are remembered
NAMES = 65_536  # publishers whose names are remembered
MARKS_S = 0.002  # that marks wait for more, at most
PRESSING = 8  # or until this part of the window has come


class AttachmentGap(NamedTuple):
    """What a subscription may have missed: its session with `left` ended there, and it was made anew at
    `joined`. What was settled before it was confirmed again may be missing; nothing else is."""

    left: str
    joined: str


class Queue(deque[Message]):
    """What waits for a reader, of one subscription or of several together."""

    subscriptions = 0  # that are not withdrawn


class SubscriptionState:
    """A subscription and what waits for its reader; a queue may be shared, and has each message once."""

    __slots__ = ("confirmed", "filter", "gaps", "number", "on_gap", "queue", "request", "withdrawn")

    def __init__(self, number: int, filter: Filter, request: Request, queue: Queue | None = None) -> None:
        self.number = number
        self.filter = filter
        self.request = request  # the one that the application waits for
        self.confirmed = False  # in this epoch
        self.withdrawn = False
        self.gaps: list[AttachmentGap] = []  # told since it was made
        self.on_gap: Callable[[AttachmentGap], object] | None = None
        self.queue = Queue() if queue is None else queue

    def tell_gap(self) -> None:
        if self.on_gap is not None:
            self.on_gap(self.gaps[-1])


class Incoming:
    __slots__ = (
        "_deliver",
        "_targets",
        "consumed",
        "credit",
        "credit_granted",
        "duplicates",
        "names",
        "queued",
        "repeated",
        "subscriptions",
        "taken",
        "acknowledged",
        "marks_at",
        "touched",
        "window",
    )

    def __init__(self, window: int, deliver: Callable[[list[Message]], None] | None) -> None:
        self.window = window
        self.taken = self.acknowledged = 0
        self.marks_at: float | None = None  # they wait until then
        self.credit = self.credit_granted = 0
        self.queued = self.consumed = 0  # entries put into queues, entries read from them, ever
        self.repeated = 0  # duplicates dropped here
        self.duplicates = Duplicates()
        self.names = Names()
        self.subscriptions: dict[int, SubscriptionState] = {}
        self.touched: set[SubscriptionState] = set()  # queues that grew or ended; the driver clears it
        self._targets: dict[bytes, tuple[SubscriptionState, ...]] = {}
        self._deliver = deliver

    @property
    def free(self) -> int:
        return max(self.window - (self.queued - self.consumed), 0)

    def add(self, subscription: SubscriptionState) -> None:
        self.subscriptions[subscription.number] = subscription
        subscription.queue.subscriptions += 1
        self._targets.clear()

    def remove(self, subscription: SubscriptionState) -> None:
        """What still lies in a queue without subscriptions is nobody's any more."""
        subscription.withdrawn = True
        if self.subscriptions.pop(subscription.number, None) is None:
            return
        self._targets.clear()
        self.touched.add(subscription)
        queue = subscription.queue
        queue.subscriptions -= 1
        if not queue.subscriptions:
            self.consumed += len(queue)
            queue.clear()

    def restart(self) -> None:
        """A new epoch; `Attach` announced the free window."""
        self.taken = self.acknowledged = 0
        self.marks_at = None
        self.credit = self.credit_granted = self.free

    def made_anew(self, gap: AttachmentGap) -> list[SubscriptionState]:
        """The session was lost, and with it what the broker had kept for us: who may have missed some."""
        missed = [state for state in self.subscriptions.values() if state.confirmed]
        for state in missed:
            state.gaps.append(gap)
            state.confirmed = False
        return missed

    def owes_marks(self) -> bool:
        self.credit = max(self.credit, self.taken + self.free)
        grown = self.credit - self.credit_granted
        return self.taken != self.acknowledged or grown * 4 >= self.window

    def marks_wait(self, now: float, publishes: bool) -> bool:
        """Whether marks that are owed may leave later: who answers each message with a publication
        acknowledges several messages at once."""
        if (self.taken - self.acknowledged) * PRESSING >= self.window:
            return False
        if self.marks_at is None:
            if not publishes:
                return False
            self.marks_at = now + MARKS_S
        return now < self.marks_at

    def marks(self, epoch: int, cuts_seen: int) -> Marks:
        """They leave now."""
        self.marks_at = None
        self.acknowledged, self.credit_granted = self.taken, self.credit
        return Marks(epoch, self.taken, self.taken, self.credit, cuts_seen=cuts_seen)

    def take(self, deliver: Deliver) -> bool:
        """False if publications before these are missing: the two sides disagree about the epoch."""
        publications, lists = deliver.publications, deliver.subscriptions
        skip = self.taken + 1 - deliver.first
        if skip < 0:
            return False
        if skip:
            publications, lists = publications[skip:], lists[skip:]
        if publications:
            self.taken += len(publications)
            self._pass_on(publications, lists)
        return True

    def take_over(self, taken: int, credit: int, held: list[Deliver]) -> None:
        """Another session is ours from now on, of which so much is taken already: those `held`."""
        self.taken, self.acknowledged = taken, -1
        self.credit = self.credit_granted = credit
        for deliver in held:
            self._pass_on(deliver.publications, deliver.subscriptions)

    def _pass_on(self, publications: list[Publication], lists: list[bytes]) -> None:
        names, numbers = self.names, lists[0]
        alike = lists.count(numbers) == len(lists)
        messages = list(map(Message, publications, repeat(numbers) if alike else lists, repeat(names)))
        repeated = self.duplicates.among(publications)
        if repeated:
            self.repeated += len(repeated)
            for index in reversed(repeated):
                del messages[index]
        if self._deliver is not None:
            self._deliver(messages)
        else:
            self._distribute(messages, {numbers} if alike else set(lists))

    def _distribute(self, messages: list[Message], lists: set[bytes]) -> None:
        if len(lists) == 1:
            targets = self._readers(lists.pop())
            for subscription in targets:
                subscription.queue.extend(messages)
            self.queued += len(targets) * len(messages)
            self.touched.update(targets)
            return
        readers = {numbers: self._readers(numbers) for numbers in lists}
        for message in messages:
            targets = readers[message.numbers]
            for subscription in targets:
                subscription.queue.append(message)
            self.queued += len(targets)
            self.touched.update(targets)

    def _readers(self, numbers: bytes) -> tuple[SubscriptionState, ...]:
        """One of those that share a queue."""
        targets = self._targets.get(numbers)
        if targets is None:
            known = map(self.subscriptions.get, unpack(f"<{len(numbers) // 4}I", numbers))
            queues = {id(state.queue): state for state in known if state is not None}
            targets = tuple(queues.values())
            if len(self._targets) >= TARGETS:
                self._targets.clear()
            self._targets[numbers] = targets
        return targets

    def name(self, publisher: int, name: str, broker_name: str) -> None:
        if len(self.names) >= NAMES:
            del self.names[next(iter(self.names))]
        self.names[publisher] = (name, broker_name)
