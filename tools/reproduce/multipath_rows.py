"""Rows of the soft links' reproduction: table 2 and figures 1, 9, 10, 11, 13 and 14."""

from __future__ import annotations

from collections.abc import Iterator

from tools.reproduce.multipath_datasets import DELAYS_MS, TABLE_2, TRAFFIC_S, WALL, WALL_MORE, dataset_of
from tools.reproduce.multipath_experiment import Outcome
from tools.reproduce.row import Row

HOP_MS, WORK_MS = 1.0, 0.8  # injected between brokers; spent in one, chosen so that S0 takes about 14 ms
UPLINK_BYTES = 10_000  # a second, of PlanetLab's brokers
ALL_PERCENT = 98.0  # of what was due: the rest is on its way when time is up
Done = dict[tuple[str, str], Outcome]  # dataset, strategy


def rows_of(done: Done) -> Iterator[Row]:
    yield from table_2(done)
    yield from lengths(done)
    yield from delays(done)
    yield from meshes(done)
    yield from throughput(done)
    yield from congested(done)


def table_2(done: Done) -> Iterator[Row]:
    for (dataset, strategy), outcome in done.items():
        setting = f"{dataset} {strategy}"
        percent, pure = TABLE_2.get(dataset, {}).get(strategy, (None, None))
        note = "calibrated" if strategy == "S0" and percent else "" if percent else "not in the paper"
        scaled = outcome.pure / outcome.publications * 36_000 / 1000
        yield Row("Table 2", setting, "yield in per cent", percent, outcome.percent, note)
        yield Row("Table 2", setting, "pure forwarders, thousands", pure, scaled, note)
        cut = 100 * (1 - _pure_share(outcome) / _pure_share(done[dataset, "S0"]))
        their_cut = None if pure is None else 100 * (1 - pure / TABLE_2[dataset]["S0"][1])
        yield Row("Table 2", setting, "pure forwarders cut, per cent", their_cut, cut, note)
        yield Row("Table 2", setting, "settled yield in per cent", None, outcome.settled_percent)
        if strategy == "S0":
            each = outcome.delivered / outcome.publications
            yield Row(
                "8",
                setting,
                "deliveries of a publication",
                dataset_of(dataset).deliveries,
                each,
                "calibrated",
            )


def _pure_share(outcome: Outcome) -> float:
    return outcome.pure / max(1, outcome.delivered)


def lengths(done: Done) -> Iterator[Row]:
    metric = "deliveries within X hops, per cent"
    for (dataset, strategy), outcome in done.items():
        yield Row("9", f"{dataset} {strategy}", "mean hops", None, outcome.mean_hops)
        reached = 0
        for hops, count in enumerate(outcome.hops):
            reached += count
            if count:
                share = 100 * reached / max(1, outcome.delivered)
                yield Row("9", f"{dataset} {strategy} X={hops}", metric, None, share)


def delays(done: Done) -> Iterator[Row]:
    note = "1 ms a link, 0.8 ms a broker"
    plain = done["C1/DT2", "S0"]
    for (dataset, strategy), outcome in done.items():
        if dataset != "C1/DT2":
            continue
        delay = outcome.mean_hops * (HOP_MS + WORK_MS)
        setting = f"C1/DT2 {strategy}"
        yield Row("10", setting, "delay in ms", DELAYS_MS.get(strategy), delay, note)
        paper = DELAYS_MS[strategy] / 14.0 if strategy in DELAYS_MS else None
        yield Row("10", setting, "delay to S0's", paper, outcome.mean_hops / plain.mean_hops)
        traffic = outcome.sends / outcome.publications * dataset_of(dataset).rate_s
        yield Row("11", setting, "messages/s between brokers", TRAFFIC_S.get(strategy), traffic)
        paper = TRAFFIC_S[strategy] / 3400 if strategy in TRAFFIC_S else None
        share = (outcome.sends / outcome.publications) / (plain.sends / plain.publications)
        yield Row("11", setting, "traffic to S0's", paper, share)


def meshes(done: Done) -> Iterator[Row]:
    for (dataset, strategy), outcome in done.items():
        setting = f"{dataset} {strategy}"
        yield Row("1", setting, "median number of paths between two brokers", None, outcome.paths[0])
        yield Row("1", setting, "primary and soft links a broker", None, outcome.links)
        for distance, paths in outcome.paths.items():
            if distance:
                yield Row("1", f"{setting} X={distance}", "paths between brokers X hops apart", None, paths)


def throughput(done: Done) -> Iterator[Row]:
    for (dataset, strategy), outcome in done.items():
        plain = done[dataset, "S0"]
        best, where = 0.0, "nowhere"
        for cap, (delivered, hops) in outcome.capped.items():
            setting = f"{dataset} {strategy} cap={cap:g}"
            part = 100 * delivered / max(1, outcome.due)
            yield Row("13", setting, "delivered of what was due, per cent", None, part)
            yield Row("14", setting, "mean hops", None, hops)
            more = 100 * (delivered / max(1, plain.capped[cap][0]) - 1)
            yield Row("13", setting, "deliveries more than S0, per cent", None, more)
            if more > best:
                best, where = more, f"cap={cap:g}"
        paper = WALL_MORE.get(strategy) if dataset == WALL or dataset in TABLE_2 else None
        note = f"at {where}" if paper is None or dataset == WALL else f"at {where}; paper: on DT-FB"
        yield Row("13", f"{dataset} {strategy}", "most deliveries over S0, per cent", paper, best, note)


def congested(done: Done) -> Iterator[Row]:
    """Figure 13c: the least uplink behind which a strategy delivers all."""
    for (dataset, strategy), outcome in done.items():
        goal = outcome.due * ALL_PERCENT / 100
        enough = [cap for cap, (delivered, _) in outcome.capped.items() if delivered >= goal]
        if dataset.startswith("CPL/") and enough:
            cap = min(enough)
            note = f"then 10 KB/s carry {UPLINK_BYTES / (cap * outcome.need):.0f} bytes a message"
            setting = f"{dataset} {strategy}"
            yield Row("13c", setting, "least uplink that delivers all, of S0's need", None, cap, note)
