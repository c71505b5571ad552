"""The soft links' paper's settings and what it prints about them (section 7: table 1, figure 8a, table 2).

`deliveries` are the brokers that a publication is delivered to. Table 2 gives them for DT1 and DT2: 348,000
and 1,034,000 in ten minutes of 3,600 a minute, 8 % and 24 % of the brokers. Of the other sets the paper
prints only the share of matching subscriptions: the sparse ones are read as DT1 (its 8 % are of brokers), the
dense one as DT2 (its 53 % are 24 % of brokers). S0's yield is known of DT1 and DT2 alone; the others take the
exponent that fits the one they are `like`, so that S0 is a prediction on them as well.
"""

from __future__ import annotations

import msgspec

CAPS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)  # times what S0's busiest broker sends
FANOUTS = (5, 15, 25, 35)  # figure 13
DENSE_SHARE = 1_034_000 / 36_000 / 120 / 0.53  # brokers for each matching subscription


class Dataset(msgspec.Struct, frozen=True):
    brokers: int
    deliveries: float
    percent: float | None = None  # S0's yield
    like: str = ""
    fanout: int = 35
    rate_s: float = 60.0
    minutes: int = 10
    link_s: float = 0.001  # 1 ms is injected between brokers
    capped_s: float = 10.0  # how long the run behind capped uplinks is


DATASETS = {
    "C1/DT1": Dataset(120, 348_000 / 36_000, 38.4),
    "C1/DT2": Dataset(120, 1_034_000 / 36_000, 50.6),
    "C2/DT3": Dataset(250, 0.09 * 250, like="C1/DT1"),
    # PlanetLab: half of 134 ms, the median round trip of its hosts, between brokers
    "CPL/DT4": Dataset(21, 0.09 * 21, like="C1/DT1", rate_s=55.0, minutes=5, link_s=0.067, capped_s=60.0),
    "CPL/DT5": Dataset(
        21, 0.54 * DENSE_SHARE * 21, like="C1/DT2", rate_s=55.0, minutes=5, link_s=0.067, capped_s=60.0
    ),
}
WALL = "C1/DT-FB"  # only with the wall posts at hand
WALL_SET = Dataset(120, 0.065 * 120, fanout=20)
CALIBRATED = tuple(name for name, dataset in DATASETS.items() if dataset.percent is not None)
SWEPT = ("C1/DT1", "C1/DT2", "C2/DT3")  # over fanouts, figures 13a and 13b

# yield in per cent, pure forwarders in thousands
TABLE_2 = {
    "C1/DT1": {"S0": (38.4, 559), "S1": (50.0, 348), "S2": (61.7, 216), "SH": (64.1, 195)},
    "C1/DT2": {"S0": (50.6, 1010), "S1": (60.1, 687), "S2": (76.1, 325), "SH": (77.5, 300)},
}
DELAYS_MS = {"S0": 14.0, "S1": 12.5, "S2": 9.3, "SH": 9.3}
TRAFFIC_S = {"S0": 3400.0, "S1": 2850.0, "S2": 2200.0, "SH": 2200.0}
WALL_MORE = {"S1": 37.0, "S2": 115.0}  # deliveries over S0's in per cent, on DT-FB
COVERING = {"covering set size": {5: 100.0, 10: 112.0}, "predicate evaluations": {5: 100.0, 10: 134.0}}


def dataset_of(name: str) -> Dataset:
    return WALL_SET if name == WALL else DATASETS[name]
