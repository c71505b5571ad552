"""SPEC A5: what a broker carries (BAD 4): incoming and outgoing data of its back-end subscriptions.

F_j = sum over k of z_jk (1 + n_jk) lambda_k: a broker pulls the results of back-end subscription k once if
anybody there wants it (z_jk), and pushes them to each of the n_jk front-end subscriptions. Only subscribers
that are online count, as the paper assumes. Imbalance is cov = sigma / mu over brokers, with the population's
sigma, and 0 where nothing flows. Loads are kept as subscribers move; `recomputed` is their definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NOWHERE = -1


class Assignment:
    """Which subscriber is at which broker, and the loads that follow from it.

    Brokers, subscribers and back-end subscriptions are numbered from 0. `wanted[start[i]:start[i + 1]]` are
    the back-end subscriptions of subscriber i, each once. A subscriber at NOWHERE loads nobody.
    """

    __slots__ = ("brokers", "rates", "start", "wanted", "home", "counts", "loads", "weights", "subscribers")

    def __init__(self, brokers: int, rates: Floats, start: Ints, wanted: Ints, home: Ints) -> None:
        self.brokers = brokers
        self.rates = np.asarray(rates, np.float64)
        self.start = np.asarray(start, np.int64)
        self.wanted = np.asarray(wanted, np.int64)
        self.home = np.array(home, np.int64)
        self._count()

    @classmethod
    def of(
        cls, brokers: int, rates: Sequence[float], wanted: Sequence[Sequence[int]], home: Sequence[int]
    ) -> Assignment:
        lengths = [len(each) for each in wanted]
        start = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)
        flat = np.asarray([k for each in wanted for k in each], np.int64)
        return cls(brokers, np.asarray(rates, np.float64), start, flat, np.asarray(home, np.int64))

    def _count(self) -> None:
        subscribers, results = len(self.home), len(self.rates)
        owner = np.repeat(np.arange(subscribers), np.diff(self.start))
        self.weights = np.bincount(owner, self.rates[self.wanted], subscribers)  # u_i
        at = self.home[owner]
        placed = at >= 0
        cells = at[placed] * results + self.wanted[placed]
        flat = np.bincount(cells, minlength=self.brokers * results)
        self.counts = flat.reshape(self.brokers, results).astype(np.int32)  # n_jk
        self.subscribers = np.bincount(self.home[self.home >= 0], minlength=self.brokers)
        self.loads = self.recomputed()

    def copy(self) -> Assignment:
        return Assignment(self.brokers, self.rates, self.start, self.wanted, self.home)

    def recomputed(self) -> Floats:
        """Equation 5."""
        loads: Floats = np.where(self.counts > 0, 1 + self.counts, 0) @ self.rates
        return loads

    def of_subscriber(self, subscriber: int) -> Ints:
        return self.wanted[self.start[subscriber] : self.start[subscriber + 1]]

    def gain(self, subscriber: int, broker: int) -> float:
        """What the broker's load grows by when the subscriber comes: results that it does not hold yet are
        pulled as well."""
        wanted = self.of_subscriber(subscriber)
        fresh = wanted[self.counts[broker, wanted] == 0]
        return float(self.weights[subscriber] + self.rates[fresh].sum())

    def relief(self, subscriber: int) -> float:
        """What its own broker's load falls by when the subscriber goes."""
        wanted = self.of_subscriber(subscriber)
        alone = wanted[self.counts[self.home[subscriber], wanted] == 1]
        return float(self.weights[subscriber] + self.rates[alone].sum())

    def move(self, subscriber: int, target: int) -> None:
        wanted = self.of_subscriber(subscriber)
        source = int(self.home[subscriber])
        if source >= 0:
            self.loads[source] -= self.relief(subscriber)
            self.counts[source, wanted] -= 1
            self.subscribers[source] -= 1
        self.loads[target] += self.gain(subscriber, target)
        self.counts[target, wanted] += 1
        self.subscribers[target] += 1
        self.home[subscriber] = target

    def empty(self) -> None:
        """Everybody is nowhere."""
        self.home[:] = NOWHERE
        self.counts[:] = 0
        self.subscribers[:] = 0
        self.loads[:] = 0.0

    def cov(self) -> float:
        return variation(self.loads)


def variation(loads: Floats) -> float:
    """Equations 6 to 8."""
    mean = float(loads.mean())
    return float(loads.std()) / mean if mean > 0 else 0.0


class Rate:
    """A moving average: a sample counts for what passed of the window since the last one."""

    __slots__ = ("window_s", "value", "_at")

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.value = 0.0  # bytes a second
        self._at: float | None = None

    def sample(self, amount_bytes: float, now: float) -> float:
        """What came since the last sample; the first one only starts the clock."""
        if self._at is not None and now > self._at:
            passed_s = now - self._at
            self.value -= expm1(-passed_s / self.window_s) * (amount_bytes / passed_s - self.value)
        if self._at is None or now > self._at:
            self._at = now
        return self.value
