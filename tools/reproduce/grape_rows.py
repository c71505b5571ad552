"""From outcomes to the rows of `pubctl reproduce grape`: curves, reductions, orders, sweeps, agreement.

The paper's curves exist as pictures only. What its text says of their order is judged at every X above one,
where all algorithms choose the same broker; values less than 2 % apart count as equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import mean
from time import process_time

from tools.reproduce.grape_experiment import Outcome
from tools.reproduce.grape_selection import Evaluated, evaluate_random
from tools.reproduce.row import Row

NAMES = ("baseline", "POP", "load100", "delay100")
METRICS = {
    "5a": ("message_rate", "messages/s per broker"),
    "5b": ("input_utilisation", "share of the time"),
    "5c": ("delay_ms", "delay in ms"),
    "5d": ("hops", "hops"),
    "5f": ("overhead", "control per publication message"),
}
# (metric, algorithm) -> the paper's reduction in per cent at its best
HEADLINES = {
    ("message_rate", "load100"): 84.0,
    ("input_utilisation", "load100"): 68.0,
    ("delay_ms", "delay100"): 68.0,
    ("message_rate", "POP"): 85.0,
    ("input_utilisation", "POP"): 64.0,
    ("delay_ms", "POP"): 63.0,
}
MEMORY = "bytes kept for it over bytes of the broker's tables, the fullest broker"
EQUAL = 0.02
SWEPT = 16  # the X of all sweeps
Done = dict[tuple[str, str, int], Outcome]  # (part of the plan, name, X)
At = Callable[[str], float]  # a name's value of one metric at one X


def rows(done: Done) -> list[Row]:
    return [
        *curves(done),
        *agreement(done),
        *headlines(done),
        *orders(done),
        *random_rows(done),
        *weights(done),
        *sweeps(done),
        *waits(done),
        *selection(done),
    ]


def curves(done: Done) -> Iterator[Row]:
    """Figures 5a to 5f: every X, every algorithm; memory where everything is sent."""
    for (part, name, holders), outcome in done.items():
        if part == "clustered" and name in NAMES:
            for figure, (metric, unit) in METRICS.items():
                yield Row(figure, f"{name} X={holders}", metric, None, getattr(outcome, metric), unit)
        elif part == "simulated":
            yield Row("5e", f"{name} X={holders}", "memory", None, outcome.memory, MEMORY)


def agreement(done: Done) -> Iterator[Row]:
    """The same setting sent and counted."""
    for (part, name, holders), sent in done.items():
        counted = done.get(("matched", name, holders))
        if part == "simulated" and counted is not None:
            for metric, _ in METRICS.values():
                one, other = getattr(sent, metric), getattr(counted, metric)
                apart = 100.0 * abs(other / one - 1) if one else 0.0
                note = f"per cent apart: {one:.4g} sent, {other:.4g} counted"
                yield Row("agreement", f"{name} X={holders}", metric, 0.0, apart, note)


def reductions(done: Done, metric: str, name: str) -> dict[int, float]:
    found = {}
    for (workload, algorithm, holders), outcome in done.items():
        if workload == "clustered" and algorithm == name:
            before = getattr(done[workload, "baseline", holders], metric)
            found[holders] = 100.0 * (1.0 - getattr(outcome, metric) / before)
    return found


def headlines(done: Done) -> Iterator[Row]:
    for (metric, name), paper in HEADLINES.items():
        by_x = reductions(done, metric, name)
        best = max(by_x, key=lambda holders: by_x[holders])
        note = f"reduction in per cent against the baseline, at X={best}"
        yield Row("headline", name, metric, paper, by_x[best], note)
    for name, paper in (("load100", 16.0), ("delay100", 16.0), ("POP", 32.0)):
        worst = max(o.overhead for (w, n, _), o in done.items() if (w, n) == ("clustered", name))
        yield Row("headline", name, "overhead", paper, 100.0 * worst, "per cent, the worst X")


# --- orders ------------------------------------------------------------------------------------------------


def _lowest(name: str) -> Callable[[At], bool]:
    return lambda at: all(at(name) <= at(other) * (1 + EQUAL) for other in NAMES)


def _above(name: str, other: str) -> Callable[[At], bool]:
    return lambda at: at(name) >= at(other) * (1 - EQUAL)


def _between(at: At) -> bool:
    ends = sorted((at("load100"), at("delay100")))
    return ends[0] * (1 - EQUAL) <= at("POP") <= ends[1] * (1 + EQUAL)


ORDERS: tuple[tuple[str, str, Callable[[At], bool]], ...] = (
    ("load100 lowest", "message_rate", _lowest("load100")),
    ("POP above load100", "message_rate", _above("POP", "load100")),
    ("delay100 lowest", "delay_ms", _lowest("delay100")),
    ("load100 not below delay100", "delay_ms", _above("load100", "delay100")),
    ("POP between", "input_utilisation", _between),
    ("POP between", "delay_ms", _between),
    ("POP between", "hops", _between),
)


def orders(done: Done) -> Iterator[Row]:
    """What the text says of Figures 5a to 5d: at how many X it is so."""
    all_x = sorted({x for workload, _, x in done if workload == "clustered" and x > 1})
    compared = [x for x in all_x if all(("clustered", name, x) in done for name in NAMES)]
    for setting, metric, holds in ORDERS:
        missed = []
        for x in compared:
            at = {name: float(getattr(done["clustered", name, x], metric)) for name in NAMES}
            if not holds(at.__getitem__):
                missed.append(x)
        share = 100.0 * (1 - len(missed) / len(compared)) if compared else 0.0
        where = f"; not at X={', '.join(map(str, missed))}" if missed else ""
        yield Row("orders", setting, metric, 100.0, share, f"per cent of {len(compared)} X{where}")


# --- the rest ----------------------------------------------------------------------------------------------


def random_rows(done: Done) -> Iterator[Row]:
    """Figure 5g and the text on the random workload."""
    for (workload, name, holders), outcome in done.items():
        if workload != "random":
            continue
        for figure, (metric, unit) in METRICS.items():
            figure = "5g" if metric == "delay_ms" else f"{figure} random"
            yield Row(figure, f"{name} X={holders}", metric, None, getattr(outcome, metric), unit)
        if name == "load100":
            pop = done[workload, "POP", holders]
            fewer = 100.0 * (1.0 - outcome.control_rate / max(pop.control_rate, 1e-9))
            note = "control messages a second below POP's, in per cent"
            yield Row("random", f"X={holders}", "control_rate", 91.0, fewer, note)


def weights(done: Done) -> Iterator[Row]:
    """Figure 5h: the least weight of one metric is the full weight of the other."""
    for least, full in (("load1", "delay100"), ("delay1", "load100")):
        one, other = (done.get(("clustered", name, SWEPT)) for name in (least, full))
        if one is None or other is None:
            continue
        for metric in ("delay_ms", "message_rate"):
            apart = 100.0 * abs(getattr(one, metric) / getattr(other, metric) - 1)
            yield Row("weights", f"{least} against {full}", metric, 0.0, apart, "per cent apart")


def sweeps(done: Done) -> Iterator[Row]:
    """Figure 5h (weights) and 6d to 6h (thresholds)."""
    for (workload, name, holders), outcome in done.items():
        if workload != "clustered" or name in ("baseline", "POP") or holders != SWEPT:
            continue
        if "threshold" in name:
            figure = "6h" if name.startswith("P") else "6d-6g"
        else:
            figure = "5h"
        for metric in ("delay_ms", "hops", "message_rate", "overhead"):
            yield Row(figure, f"{name} X={holders}", metric, None, getattr(outcome, metric))


def waits(done: Done) -> Iterator[Row]:
    """Figure 6c: how long publishers were held back, by the length of the path."""
    by_hops: dict[int, list[float]] = {}
    for outcome in done.values():
        for hops, pause_s in outcome.pauses:
            by_hops.setdefault(hops, []).append(pause_s)
    for hops, pauses in sorted(by_hops.items()):
        limit = 5.0 if hops == 10 else None
        note = f"seconds, mean of {len(pauses)} moves"
        yield Row("6c", f"{hops} hops", "publisher_wait_s", limit, mean(pauses), note)


def selection(done: Done) -> Iterator[Row]:
    """4.2: the computation alone, subscribers on all brokers. 6a and 6b: from the request to the choice."""
    for brokers, paper in ((63, 70.0), (1_000, None)):
        best = min((timed(seed, brokers) for seed in range(5)), key=lambda taken: taken.whole_ms)
        yield Row("4.2", f"{brokers} brokers", "selection_ms", paper, best.whole_ms, "computation, best of 5")
        note = f"the longest of {best.pieces} pieces between which the broker goes on"
        yield Row("4.2", f"{brokers} brokers", "piece_ms", None, best.longest_ms, note)
    for name in ("POP", "load100", "delay100"):
        taken = [s for (w, n, _), o in done.items() if (w, n) == ("simulated", name) for s in o.selections]
        if taken:
            paper = 5.0 if name == "load100" else None
            note = f"seconds, mean of {len(taken)}; " + (
                "with pings" if name == "delay100" else "without pings"
            )
            yield Row("6a-6b", name, "selection_s", paper, mean(taken), note)


def timed(seed: int, brokers: int) -> Evaluated:
    return evaluate_random(seed, brokers, process_time)
